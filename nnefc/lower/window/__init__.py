"""Lowering of sliding windows, sampling and resizing of row-major tensors."""
