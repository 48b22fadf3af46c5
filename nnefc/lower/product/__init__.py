"""Lowering of matrix products and attention: operands, packing, tiling, launches."""
