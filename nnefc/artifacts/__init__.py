"""Compiled models in files: `save` writes them, `load` opens them, `provenance` recompiles them."""
