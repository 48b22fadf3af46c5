"""A language model that generates a text token by token."""
