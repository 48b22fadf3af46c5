"""Memory of weights, states and callers' arrays."""
