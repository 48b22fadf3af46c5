"""Kernels: native functions, generic in shape; read `template`, then `vector`, `tile`, families."""
