"""Saved models, C programs and the commands that read them."""
