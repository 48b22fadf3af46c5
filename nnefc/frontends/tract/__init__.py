"""The dialect of sonos/tract and torch_to_nnef: documents to graphs (docs/design/tract.md)."""
