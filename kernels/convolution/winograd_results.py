"""What Winograd's convolution does with the outputs of a tile: epilogues in registers."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from nnefc.kernels.tile.code_results import Ending, Results
from nnefc.kernels.tile.real_form import RealForm, finished
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.lanes import Lanes, select
from nnefc.kernels.vector.vector_builder import Vector

RECORD_ROWS = 2
"""Vectors of a record of `CodeResults` before the terms of its ending."""


class OutputResults(Protocol):
    """Stores outputs."""

    def store(self, values: Sequence[Lanes], places: Sequence[Any], others: Sequence[Any]) -> None:
        """Store outputs of a line of a tile at pointers `places`.

        `others`: pointers to their residuals, empty if there are none.
        """
        ...


def output_results(
    v: Vector,
    bias: Any,
    bounds: Any,
    ending: Ending | RealForm,
    division: tuple[int, int],
    *,
    adjacent: bool,
) -> OutputResults:
    """Stores codes for an `Ending`, else reals; see the classes."""
    if isinstance(ending, Ending):
        return CodeResults(v, bias, bounds, ending, division, adjacent=adjacent)
    limits = v.load_splat(bounds), v.load_splat(bounds, v.itemsize)
    return RealResults(v, v.load(bias), limits, ending)


@dataclass(frozen=True, slots=True)
class RealResults:
    """Adds bias and residual, applies bounds, and stores what the form says."""

    v: Vector
    bias: Lanes
    bounds: tuple[Lanes, Lanes]
    form: RealForm

    def store(self, values: Sequence[Lanes], places: Sequence[Any], others: Sequence[Any]) -> None:
        low, high = self.bounds
        typed = self.v.of(self.form.residual or self.v.dtype)
        for i, (value, place) in enumerate(zip(values, places, strict=True)):
            x, other = value + self.bias, typed.load(others[i]) if others else None
            if self.form.expression is not None:
                finished(self.form, x, other).store(place)
                continue
            if other is not None:
                x = x + convert(other, x.dtype)
            # one instruction each; if an operand is NaN, the result is the second one
            x = select(low > x, low, x)
            finished(self.form, select(high < x, high, x)).store(place)


class CodeResults:
    """Divides multiples of sums of codes modulo 2^32, and requantizes the sums.

    The multiple is s times the sum, see `nnefc.kernels.convolution.winograd_matrices`.  A product
    with the inverse of the odd factor of s leaves a power of two.  `before` makes sums numbers from
    0 on that the shift cannot cut, and `after` makes them the sums that the ending takes.

    - record: int32 [RECORD_ROWS + terms of the ending, lanes]: before, after, the terms
    - bounds: see `nnefc.kernels.tile.code_results`
    """

    def __init__(
        self,
        v: Vector,
        record: Any,
        bounds: Any,
        ending: Ending,
        division: tuple[int, int],
        *,
        adjacent: bool,
    ) -> None:
        """`division`: the result of `inverse_and_shift`; `adjacent`: whether outputs of a line
        follow each other in memory.
        """
        self.v, self.adjacent = v, adjacent
        self.before, self.after = (v.load(record, v.nbytes * i) for i in range(RECORD_ROWS))
        self.inverse, self.shift = division
        self.results = Results(v, 1, v.at(record, RECORD_ROWS * v.nbytes), bounds, ending)

    def store(self, values: Sequence[Lanes], places: Sequence[Any], others: Sequence[Any]) -> None:
        sums = list(map(self._sum, values))
        if self.adjacent:
            other = others[0] if others else None
            self.results.store_neighbours(sums, 0, places[0], other)
        else:
            self.results.store_each(sums, 0, places, others)

    def _sum(self, multiple: Lanes) -> Lanes:
        powers = multiple * self.inverse if self.inverse != 1 else multiple
        unsigned = Lanes(self.v, "uint32", (powers + self.before).value)
        return self.after + multiple.same((unsigned >> self.shift).value)
