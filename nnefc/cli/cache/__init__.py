"""`nnefc cache`: the sub-commands, and the models and weights they list."""
