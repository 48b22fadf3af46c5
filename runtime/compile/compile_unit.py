"""Compilation units: kernels, and functions that are exported under a symbol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nnefc.kernels.family import Kernel
from nnefc.runtime.cache.key import (
    Key,
    function_name,
    key_of_function,
    key_of_kernel,
    shipped_key,
    shipped_row,
)

if TYPE_CHECKING:
    from nnefc.kernels.target.isa import Isa


@dataclass(frozen=True, slots=True)
class Function:
    """A function of 64-bit integers, exported as `symbol`."""

    symbol: str
    body: Callable[..., Any]

    def function(self) -> Callable[..., Any]:
        """The Python function to compile."""
        return self.body


CompileUnit = Kernel | Function
"""Code that is compiled to one object file."""


def unit_label(unit: CompileUnit) -> str:
    """The name that progress reports show."""
    return unit.family if isinstance(unit, Kernel) else unit.symbol


def key_of(unit: CompileUnit, isa: Isa) -> Key | None:
    """The cache key of the object code for `isa`; None if it cannot be cached."""
    if isinstance(unit, Kernel):
        return key_of_kernel(unit, isa)
    return key_of_function(unit.symbol, unit.body, isa)


def row_for(unit: CompileUnit, isa: Isa) -> Isa:
    """`isa` as the code of a unit is compiled for it."""
    is_exact = isinstance(unit, Kernel) and unit.exact and not isa.fma
    return isa._replace(exact_fma=True) if is_exact else isa


def shipped_key_of(unit: CompileUnit, isa: Isa) -> bytes | None:
    """The key of shipped object code for `isa`; None if it cannot be shipped."""
    if isinstance(unit, Kernel):
        return shipped_key(unit.family, unit.variant, isa)
    name = function_name(unit.symbol, unit.body)
    return None if name is None else shipped_key(name, "", isa)


def shipped_row_of(unit: CompileUnit, isa: Isa) -> Isa | None:
    """The instruction set that code with this `shipped_key_of` is compiled for."""
    name = unit.family if isinstance(unit, Kernel) else function_name(unit.symbol, unit.body)
    return None if name is None else shipped_row(name, isa)
