"""Operators on quantized tensors: conversions, products and functions of codes."""
