"""The vector language that kernels are written in: `builder`, `lanes`, `vector`, and functions."""
