"""Lowering of operations on channel-blocked tensors, except convolutions."""
