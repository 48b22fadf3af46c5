"""Reductions along axes: sums and extrema, softmax, normalisation, top-k."""
