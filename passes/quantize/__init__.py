"""Passes on operations on codes of quantized tensors."""
