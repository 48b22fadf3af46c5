"""Convolutions: `direct`, `depthwise`, `winograd` (blocked tensors), `row_major` (dense)."""
