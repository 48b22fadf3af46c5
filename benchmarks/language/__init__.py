"""A language model that continues a text by a token at a time."""
