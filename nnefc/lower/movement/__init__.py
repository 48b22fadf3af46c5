"""Lowering of operations that move, gather or generate items; Fourier transforms."""
