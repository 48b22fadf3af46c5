"""Compiled models in files: `content`, `save`, `load`, and where models come from."""
