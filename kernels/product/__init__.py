"""Products: matrices, attention, integers, and weights that stay compressed."""
