"""Programs of `torch.export`: their form as plain data, and `.pt2` archives."""
