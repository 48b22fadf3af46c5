"""The rules of each kind of layer, from the descriptions of its parameters."""
