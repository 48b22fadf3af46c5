"""Single operations, compiled and run; kernels of every vector width."""
