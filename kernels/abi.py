"""The binary interface of kernels, executor and runtime: the base table and the words of a launch.

A kernel gets the address of a table of base addresses.  Its first entries are the same for every
model; those of the constants, states, inputs and outputs of a model follow, in this order.
A plan is an array of launches, laid out by `LAUNCH`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nnefc.kernels.parameters import Layout

if TYPE_CHECKING:
    from nnefc.kernels.codegen.object_file import Reference

BASE_CODE: Final = 0
"""Index in the base table: the code image."""
BASE_PARAMS: Final = 1
"""Parameters of all launches."""
BASE_LIBM: Final = 2
"""Addresses of functions of the C library, see `nnefc.runtime.compile.libm`."""
BASE_ARENA: Final = 3
"""Memory for values between launches."""
BASES: Final = 4
"""Number of the fixed entries."""

PACKING_VERSION: Final = 2
"""Increases with every change of the order of packed weights (`nnefc.packing`)."""

LAUNCH: Final = Layout("kernel params tiles unused")
"""A launch: offset of the kernel in the code image, offset of its parameters in those of all
launches (both in bytes), and number of tiles."""
LAUNCH_KERNEL, LAUNCH_PARAMS, LAUNCH_TILES, _ = LAUNCH.offsets
LAUNCH_BYTES: Final = LAUNCH.nbytes

_OF_ONE: Final = (
    "exp log log2 sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh erf log1p"
)
LIBM: Final[tuple[tuple[str, int], ...]] = (
    *((name, 1) for name in _OF_ONE.split()),
    ("pow", 2),
    ("fmod", 2),
)
"""Functions of the C library, over double, in the order of the table; with their arity."""


class Image(NamedTuple):
    """Position-independent code: `symbols` are offsets into `code`."""

    code: bytes
    symbols: dict[str, int]
    references: tuple[Reference, ...] = ()
    """References for another linker to resolve."""
