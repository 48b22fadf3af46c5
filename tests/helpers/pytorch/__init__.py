"""Modules of PyTorch, exported and compared with PyTorch's own results."""
