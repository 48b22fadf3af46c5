"""Kernels: native functions, generic in shape; read `family`, then `vector`, `tile`, families."""
