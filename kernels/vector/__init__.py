"""The vector language: `builder`, `lanes`, `vector`, then functions over them."""
