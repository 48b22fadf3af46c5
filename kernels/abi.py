"""The binary interface of kernels, executor and runtime: the base table and the words of a launch.

A kernel receives the address of a table of base addresses.  The first entries have the same meaning
in every model; the addresses of constants, states, inputs and outputs follow, in this order.
A plan is an array of launches, laid out by `LAUNCH`.
"""

from __future__ import annotations

from typing import Final

from nnefc.kernels.parameters import Layout

BASE_CODE: Final = 0
"""Index of the code image in the base table."""
BASE_PARAMS: Final = 1
"""Index of the parameters of all launches."""
BASE_LIBM: Final = 2
"""Index of the table of C library functions, see `nnefc.runtime.compile.c_library`."""
BASE_ARENA: Final = 3
"""Index of the arena, the memory for values between launches."""
BASES: Final = 4
"""Number of the fixed entries."""

LAUNCH: Final = Layout("kernel params tiles mark")
"""A launch: byte offset of the kernel in the code image, byte offset of its parameters in the
parameters of all launches, number of tiles, and number as the target of jumps (0: none)."""
LAUNCH_KERNEL, LAUNCH_PARAMS, LAUNCH_TILES, LAUNCH_MARK = LAUNCH.offsets
LAUNCH_BYTES: Final = LAUNCH.nbytes

_OF_ONE: Final = (
    "exp log log2 sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh erf log1p"
)
LIBM: Final[tuple[tuple[str, int], ...]] = (
    *((name, 1) for name in _OF_ONE.split()),
    ("pow", 2),
    ("fmod", 2),
)
"""(name, arity) of the C library functions over double, in the order of the table."""
