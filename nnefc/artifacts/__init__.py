"""Compiled models in files: their content, writing, loading, and the origins of models."""
