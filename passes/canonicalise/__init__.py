"""Passes that rewrite operations into simpler ones with the same results."""
