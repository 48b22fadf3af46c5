"""Kernels that move items: strided copies, transposes, changes of layout, indexing."""
