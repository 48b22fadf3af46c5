"""Lowering of element-wise expressions, reductions and normalisations, row-major."""
