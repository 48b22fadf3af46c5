"""Operators on codes of quantized tensors, in fixed point as the reference kernels of LiteRT."""
