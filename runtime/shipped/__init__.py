"""Object code that is shipped in the wheel: the file format, and the kernels of this machine."""
