"""The base class of symbolic integers, and the error of a trace that cannot go on.

`nnefc.symbolic.integers` implements them.  Loading and running a model needs this module alone.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from typing import Any, TypeAlias

Dim: TypeAlias = int
"""An extent, or a number that is computed from extents: an integer, or a `SymInt` during a trace.

To the type checker it is an integer, because a trace runs the code that is written for integers;
docs/design/dynamic.md says why it is no union.
"""


class Untraceable(Exception):
    """A trace cannot go on: the operation needs the value of a symbolic integer.

    The concrete plan, which is compiled for plain integers, takes the place of the symbolic plan.
    """


class SymIntBase:
    """A number that is computed when a plan is patched: `nnefc.symbolic.integers.SymInt`."""

    __slots__ = ()

    @abstractmethod
    def float_bits(self) -> Any:
        """The bits of the number as a float64, as an integer."""


def float_bits(number: Any) -> Any:
    """The bits of a number as a float64, as an integer."""
    if isinstance(number, SymIntBase):
        return number.float_bits()
    return struct.unpack("<q", struct.pack("<d", number))[0]
