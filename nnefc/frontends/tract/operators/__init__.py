"""The operators of tract's registries, one module per kind.

Functions have tract's names and parameters.  `make` is the builder of the graph (`registry`).
"""
