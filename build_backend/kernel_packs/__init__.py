"""Compiles the kernels that a wheel ships: `python -m kernel_packs SET FOLDER`."""
