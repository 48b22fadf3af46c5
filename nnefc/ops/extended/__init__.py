"""Operations that NNEF lacks and other formats need."""
