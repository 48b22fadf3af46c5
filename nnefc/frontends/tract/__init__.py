"""Front end for the dialect of sonos/tract and torch_to_nnef (docs/design/tract.md)."""
