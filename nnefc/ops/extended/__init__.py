"""Operations beyond NNEF that documents of other formats need."""
