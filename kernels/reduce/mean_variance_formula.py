"""The formula of `nnefc.kernels.reduce.mean_variance`, as vector IR.

A row is read from memory once, and then from the cache:

    rest = mean(x - top)                                      top: the first item
    variance = mean((x - top)^2) - rest^2
    y = expression(((x - top) - rest) / sqrt(variance + epsilon), ...)

x - top is exact even if the mean is large compared with the deviation.  The variance loses digits
if the first item is many deviations away from the mean.  In this case `top` becomes top + rest, the
mean up to rounding, and the moments are computed again (shifted data: Chan, Golub and LeVeque,
1983).  If the mean is not subtracted, `top` and `rest` are 0.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nnefc.kernels.abi import BASE_LIBM
from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.reduce.mean_variance_parameters import IN_FLIGHT, offsets, tensors
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.emit_expression import emit
from nnefc.kernels.vector.expression_argument import Expression
from nnefc.kernels.vector.item_types import BITS
from nnefc.kernels.vector.lane_builder import LaneBuilder, lanes_of, longest_lanes
from nnefc.kernels.vector.lanes import Lanes, fma, select, sqrt
from nnefc.kernels.vector.llvm_types import I64
from nnefc.kernels.vector.vector_builder import Vector
from nnefc.kernels.vector.vector_kernel import address, load_word

BIT = ir.IntType(1)
FAR = 16.0
"""The mean of x - top is far from 0 if its square exceeds the variance by this factor."""

Terms = Callable[[Lanes, list[Lanes]], list[Lanes]]
"""`terms(x, sums)`: the sums with the terms of the items x added."""


@dataclass(frozen=True)
class Group:
    """Rows that are normalised together: a single row, or a vector of columns."""

    v: Vector
    starts: list[Any]
    """Pointers to the first items in all tensors."""
    mask: Lanes | None = None
    """Mask of the columns."""


class Normalisation(ABC):
    """Emits a normalisation kernel; subclasses have the loops over rows."""

    def __init__(
        self,
        builder: Any,
        params: Any,
        expression: Expression,
        repeated: tuple[bool, ...],
        centred: bool,
    ) -> None:
        self._b, self._params = builder, params
        self._expression, self._centred = expression, centred
        self._repeated = repeated
        self._item = expression.inputs[0]
        self._names = tensors(len(repeated))
        self._at = offsets(len(repeated))
        self._v = Vector(builder, self._item, lanes_of(self._item))
        self._wide = self._v.resized(IN_FLIGHT * self._v.lanes)
        self._single = self._v.resized(1)
        self._sum = self._v.resized(longest_lanes(self._item))
        self._libm: Any = None

    def emit(self, bases: Any, first: Any, last: Any) -> None:
        """Emit the body of the kernel."""
        b, v = self._b, self._v
        pointers = [
            v.pointer(address(b, bases, b.add(self._params, I64(self._at[name]))))
            for name in self._names
        ]
        if self._expression.calls_library:
            self._libm = load_word(b, b.add(bases, I64(8 * BASE_LIBM)))
        block = self._word("unit_block")
        stop = self._smaller(b.mul(last, block), self._word("units"))
        with v.loop(b.mul(first, block), stop, 1) as unit:
            self._unit(unit.index, pointers)

    # -- depends on the layout of rows

    @abstractmethod
    def _unit(self, number: Any, pointers: list[Any]) -> None:
        """Normalise the rows of a unit of work."""

    @abstractmethod
    def _first(self, group: Group) -> Lanes:
        """The first item of each row."""

    @abstractmethod
    def _sums(self, group: Group, terms: Terms, count: int) -> list[Lanes]:
        """`count` float64 sums per row."""

    @abstractmethod
    def _spread(self, x: Lanes, v: LaneBuilder) -> Lanes:
        """A value per row as the vector of the values for the rows of the lanes of `v`."""

    @abstractmethod
    def _each(self, group: Group, result: Callable[[Lanes], Lanes]) -> None:
        """Write y = expression(result(x), others) for all items."""

    # -- the formula

    def _normalise(self, group: Group) -> None:
        if not self._centred:
            (squares,) = self._sums(group, lambda x, sums: [fma(x, x, sums[0])], 1)
            factor = self._factor(squares * self._number("part", squares.v))
            self._each(group, lambda x: x * self._spread(factor, x.v))
            return
        top = self._first(group)
        rest, variance = self._moments(group, top)
        with self._v.loop(0, self._is_far(rest, variance), 1, [top, rest, variance]) as turn:
            moved = top + convert(rest, self._item)
            turn.next = [moved, *self._moments(group, moved)]
        top, rest, variance = turn.values
        factor = self._factor(select(variance < 0.0, 0.0, variance))
        shift = -(rest * factor)

        def result(x: Lanes) -> Lanes:
            d = x - self._spread(top, x.v)
            return fma(d, self._spread(factor, x.v), self._spread(shift, x.v))

        self._each(group, result)

    def _moments(self, group: Group, top: Lanes) -> list[Lanes]:
        """The mean of x - top and the variance, in float64."""
        part = convert(self._number("part", self._single), self._item)

        def terms(x: Lanes, sums: list[Lanes]) -> list[Lanes]:
            d = x - self._spread(top, x.v)
            # unlike a sum of items, a sum of quotients does not overflow
            return [fma(d, splat_lane(part, x.v), sums[0]), fma(d, d, sums[1])]

        rest, squares = self._sums(group, terms, 2)
        return [rest, squares * self._number("part", squares.v) - rest * rest]

    def _is_far(self, rest: Lanes, variance: Lanes) -> Any:
        """1 if the mean of x - top is far from 0 in any row, else 0."""
        far = (rest * rest > variance * FAR).value
        bit = rest.v.call(f"llvm.vector.reduce.or.v{rest.v.lanes}i1", BIT, far)
        return self._b.zext(bit, I64)

    def _factor(self, variance: Lanes) -> Lanes:
        return 1.0 / sqrt(variance + self._number("epsilon", variance.v))

    # -- shared by all layouts of rows

    def _word(self, name: str) -> Any:
        return load_word(self._b, self._b.add(self._params, I64(self._at[name])))

    def _number(self, name: str, v: LaneBuilder) -> Lanes:
        """A float64 parameter in every lane."""
        place = v.pointer(self._b.add(self._params, I64(self._at[name])))
        return Vector.on(v, "float64").load_splat(place)

    def _smaller(self, x: Any, y: Any) -> Any:
        return self._b.select(self._b.icmp_signed("<", x, y), x, y)

    def _places(self, kind: str, number: Any, starts: Sequence[Any]) -> list[Any]:
        """Pointers advanced to combination `number` of the dimensions `kind`."""
        b, v = self._b, self._v
        names = self._names[: len(starts)]
        with v.loop(0, self._word(f"{kind}_rank"), 1, [number, *starts]) as d:
            index, *places = d.values
            word = b.add(self._params, b.mul(d.index, I64(8)))
            extent = load_word(b, b.add(word, I64(self._at[kind])))
            above = b.sdiv(index, extent)
            step = b.sub(index, b.mul(above, extent))
            pitches = [load_word(b, b.add(word, I64(self._at[f"{kind}_{n}"]))) for n in names]
            moved = [v.at(p, b.mul(step, pitch)) for p, pitch in zip(places, pitches, strict=True)]
            d.next = [above, *moved]
        return d.values[1:]

    def _along(self, places: Sequence[Any], index: Any) -> list[Any]:
        """Pointers advanced by `index` items along the innermost dimension."""
        (result,) = self._expression.results
        types = (self._item, self._expression.types[result], *self._expression.inputs[1:])
        steps = (False, False, *self._repeated)
        return [
            place if repeated else self._v.at(place, self._b.mul(index, I64(BITS[dtype] // 8)))
            for place, dtype, repeated in zip(places, types, steps)
        ]

    def _added(self, held: list[Lanes], found: list[Lanes]) -> list[Lanes]:
        """The float64 sums `held` plus sums of the item type."""
        return [x + convert(y, "float64") for x, y in zip(held, found)]

    def _write(
        self, v: Vector, places: list[Any], mask: Lanes | None, result: Callable[[Lanes], Lanes]
    ) -> None:
        """Compute and store the results for a vector of items."""
        x, y, *others = places
        given = [result(v.load(x, mask=mask))]
        types = self._expression.inputs[1:]
        for place, dtype, repeated in zip(others, types, self._repeated, strict=True):
            if repeated:
                given.append(v.of(dtype).load_splat(place))
            else:
                given.append(v.of(dtype).load(place, mask=mask))
        (value,) = emit(v, self._expression, given, self._libm)
        value.store(y, mask=mask)


def splat_lane(x: Lanes, v: LaneBuilder) -> Lanes:
    """Lane 0 of x in every lane of v."""
    return Vector.on(v, x.dtype).splat(v.builder.extract_element(x.value, I64(0)))
