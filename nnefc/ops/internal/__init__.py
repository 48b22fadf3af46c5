"""Operations that passes create; no document has them."""
