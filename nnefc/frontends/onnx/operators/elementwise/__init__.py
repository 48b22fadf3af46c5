"""Operators that compute each item of a result from one item of each operand."""
