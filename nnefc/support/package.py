"""The installed package: its versions, and where its source files are."""

from __future__ import annotations

import os
from typing import Final

VERSION: Final = "0.1.0"
"""The version of nnefc, as in `pyproject.toml`."""
PACKING_VERSION: Final = 4
"""Version of the order of packed weights, which artifacts contain.

Increase it with every change of a result of `nnefc.kernels.packing`.
"""
PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of the package `nnefc`."""


def source_file(module: str) -> str:
    """The path of a module's source; `module` is relative to the package, as in "kernels.abi"."""
    return os.path.join(PACKAGE, *module.split(".")) + ".py"
