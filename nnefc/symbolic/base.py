"""What tells numbers that depend on symbols apart from plain ones.

How they are computed is in `nnefc.symbolic.integers`, which loading and running a model do without.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from typing import Any


class SymIntBase:
    """A number that is not known before a plan is made: `nnefc.symbolic.integers.SymInt`."""

    __slots__ = ()

    @abstractmethod
    def float_bits(self) -> Any:
        """The bits of a float64, as an integer."""


def float_bits(number: Any) -> Any:
    """The bits of a float64, as an integer."""
    if isinstance(number, SymIntBase):
        return number.float_bits()
    return struct.unpack("<q", struct.pack("<d", number))[0]
