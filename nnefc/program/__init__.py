"""The result of lowering: launches over buffers that have no address yet."""
