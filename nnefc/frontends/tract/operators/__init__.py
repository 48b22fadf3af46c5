"""The operators of the dialect, a module per kind."""
