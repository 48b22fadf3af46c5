"""The operators of tract's registries, one module per kind.

Functions have tract's names and parameters; `make` is the builder of the graph (`registry`).  An
operator without a docstring is the operation of its name, which `nnefc.ops` documents.
"""
