"""The front end of programs of `torch.export`: ATen operators become operations of a graph."""
