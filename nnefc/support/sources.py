"""Where the source files of nnefc are."""

from __future__ import annotations

import os
from typing import Final

PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of the package `nnefc`."""


def source_file(module: str) -> str:
    """The path of a module's source; `module` is named without the package: "kernels.abi"."""
    return os.path.join(PACKAGE, *module.split(".")) + ".py"
