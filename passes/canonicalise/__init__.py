"""Rewrites to simpler operations with the same results."""
