"""Operators on complex tensors, which are pairs of real ones (`ComplexPair`)."""
