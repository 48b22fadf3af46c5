"""Requantizes int32 sums in registers and stores the results."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

from nnefc.kernels.vector.conversion import convert, truncated
from nnefc.kernels.vector.integers import (
    doubling_high_product,
    high_words,
    rounding_shift,
    shift_left,
    shift_right,
    wide_numbers,
)
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.lanes import (
    Lanes,
    absolute,
    clamp,
    rint,
    select,
    shuffle,
    vector_type,
)
from nnefc.kernels.vector.llvm_types import I16, I64
from nnefc.kernels.vector.narrow import FOUR, Narrowing
from nnefc.kernels.vector.vector_builder import Vector

Form = Literal[
    "sums", "to_float", "round_even", "truncate", "fixed_point", "fixed_once", "fixed_away"
]
"""What a tile stores; the forms of `nnefc.ops.internal.requantization`.

- sums: int32
- to_float: float32, the product of a sum and a factor, clamped
- round_even: codes, the rounded product of a sum and a factor
- truncate: codes less the lowest one, the product of a sum and a factor without its fraction.
  Offsets that are a half too large round halves up
- fixed_point: codes, the product of a sum and a multiplier, shifted left before and right after it
- fixed_once: codes, the product of a sum and a multiplier plus a number of 64 bits, shifted right
- fixed_away: `fixed_once` of absolute values, with the sign of the sum
"""

_STEPS: Final = 3
"""Steps of a vector: a conversion, a multiplication, perhaps with an addition, and a rounding."""

FIXED: Final = ("fixed_point", "fixed_once", "fixed_away")
"""Forms with numbers of int32 alone."""

TERMS: Final = {
    **{"sums": 0, "to_float": 1, "round_even": 1, "truncate": 1},
    **{"fixed_point": 3, "fixed_once": 4, "fixed_away": 4},
}
"""Numbers per channel that a form needs, of 4 bytes: a float32 factor, or int32.  Those of
`fixed_point` are multiplier, left shift and right shift.  Those of `fixed_once` are the multiplier,
the lower and the upper word of the added number, and the right shift less 32."""

BOUNDS_BYTES: Final = 16
"""Bytes of the bounds of results.  They are, as float32 if the form multiplies by a factor, else as
int32: the zero point of the codes (0 for `to_float`), their lowest and highest value.  Codes have
then the same as int16 and two bytes."""

RESIDUAL_BYTES: Final = 20
"""Bytes behind the bounds for a residual, float32: the lowest and the highest code of the product
less its zero point and the factor of its codes, the zero point of the residual and its factor.  The
first three are read if products are rounded."""


class Ending(NamedTuple):
    """How a kernel ends with sums: an argument of kernels."""

    form: Form
    result: str
    """Item type of the results."""
    offset: bool = False
    """Whether a float32 number per channel is added to products with factors."""
    exceeds: bool = False
    """Whether products may exceed 2^30, so that they are clamped before they become integers."""
    residual: str = ""
    """Item type of codes whose reals are added to products; empty for none."""
    rounds: bool = False
    """Whether products are rounded to codes before the residual is added."""
    clamps: bool = True
    """Whether the bounds of codes are narrower than their type, to which results saturate."""

    @property
    def terms(self) -> int:
        """Numbers per channel, of 4 bytes: those of the form, then the offset."""
        return TERMS[self.form] + self.offset

    @property
    def bounds_bytes(self) -> int:
        """Bytes of the bounds, and of what a residual needs behind them."""
        return BOUNDS_BYTES + (RESIDUAL_BYTES if self.residual else 0)


class Steps:
    """Instructions that are emitted one after the other, between other ones."""

    def __init__(self, steps: Iterator[None], count: int, scaled: list[list[Lanes]]) -> None:
        self._steps, self._count, self.scaled = steps, count, scaled
        self._places = self._place = 0

    def spread(self, places: int) -> None:
        """The steps are spread over so many places, each a call of `advance`."""
        self._places = places

    def advance(self) -> None:
        before, self._place = self._place, self._place + 1
        step = self._count * self._place // self._places - self._count * before // self._places
        for _ in range(step):
            next(self._steps, None)

    def finish(self) -> None:
        """Emit the steps that are left."""
        for _ in self._steps:
            pass


class Results:
    """Requantizes and stores the sums of `vectors` channel blocks.

    - scale: [terms of the ending, vectors of a pixel]
    - bounds: see `BOUNDS_BYTES`
    """

    def __init__(self, v: Vector, vectors: int, scale: Any, bounds: Any, ending: Ending) -> None:
        self.v, self.ending, self.bounds = v, ending, bounds
        typed = v.of("int32" if ending.form in FIXED else "float32")
        self.terms = [
            [typed.load(scale, v.nbytes * (term * vectors + j)) for term in range(ending.terms)]
            for j in range(vectors)
        ]
        if ending.form in ("fixed_once", "fixed_away"):
            self.added = [wide_numbers(low, high) for _, low, high, _ in self.terms]
        self.narrowing: Narrowing | None = None
        if ending.form == "sums":
            return
        self.zero, self.low, self.high = (
            typed.splat(typed.load_item(bounds, 4 * i)) for i in range(3)
        )
        if ending.form in ("round_even", "truncate"):
            self.low, self.high = self.low - self.zero, self.high - self.zero
            self.whole_zero = self._nearest(self.zero)
        self.narrowing = self._narrowing()
        if ending.residual:
            floats = v.of("float32")
            self.low_product, self.high_product, self.product_factor, *self.of_residual = (
                floats.splat(floats.load_item(bounds, BOUNDS_BYTES + offset))
                for offset in range(0, RESIDUAL_BYTES, 4)
            )

    def store(self, sums: Lanes, j: int, at: Any, residual: Any = None) -> None:
        """Store the results of vector j of a pixel; `residual`: pointer to its codes, if any."""
        self._results(sums, j, residual).store(at)

    def store_each(
        self, sums: Sequence[Lanes], j: int, places: Sequence[Any], residuals: Sequence[Any] = ()
    ) -> None:
        """Store the results of vector j of several pixels, which are in order in memory.

        `residuals`: pointers, if any.
        """
        others = residuals or [None] * len(sums)
        for first in range(0, len(sums), FOUR):
            four, of_each = sums[first : first + FOUR], others[first : first + FOUR]
            at_each = places[first : first + FOUR]
            if not self._narrows(four):
                for x, at, residual in zip(four, at_each, of_each, strict=True):
                    self.store(x, j, at, residual)
                continue
            self._store_codes(self._codes(four, j, of_each), at_each)

    def _store_codes(self, codes: Lanes, places: Sequence[Any]) -> None:
        """Store up to four vectors of codes, at once if the places follow each other."""
        builder = self.v.builder

        def each() -> None:
            for i, place in enumerate(places):
                self._slice(codes, i, 1).store(place)

        if len(places) < FOUR:
            each()
            return
        first, last = (builder.ptrtoint(places[i], I64) for i in (0, -1))
        between = self.v.word((FOUR - 1) * self.v.lanes)
        follow = builder.icmp_signed("==", builder.sub(last, first), between)
        with builder.if_else(follow, likely=True) as (together, apart):
            with together:
                codes.store(places[0])
            with apart:
                each()

    def store_neighbours(self, sums: Sequence[Lanes], j: int, at: Any, residual: Any) -> None:
        """Store the results of vector j of pixels that follow each other in memory.

        `residual`: pointer to their codes, if the ending has any.
        """
        v, pixel = self.v, ITEMSIZE[self.ending.result] * self.v.lanes
        others = [self.residual_of(residual, i) for i in range(len(sums))]
        for first in range(0, len(sums), FOUR):
            four, of_each = sums[first : first + FOUR], others[first : first + FOUR]
            if not self._narrows(four):
                for i, x in enumerate(four, first):
                    self.store(x, j, v.at(at, i * pixel), others[i])
                continue
            whole = [self._scaled(x, j, other) for x, other in zip(four, of_each, strict=True)]
            self._store_narrowed(whole, v.at(at, first * pixel))

    def steps(self, sums: Sequence[Sequence[Lanes]], residuals: Sequence[Sequence[Any]]) -> Steps:
        """The steps that requantize the sums of several pixels, of each vector of a pixel.

        `residuals`: pointers, if any.
        """
        scaled: list[list[Lanes]] = [[] for _ in sums]

        def run() -> Iterator[None]:
            for j, (of_vector, others) in enumerate(zip(sums, residuals, strict=True)):
                for first in range(0, len(of_vector), FOUR):
                    four = of_vector[first : first + FOUR]
                    yield from self._in_steps(four, j, others[first : first + FOUR], scaled[j])

        count = sum(map(len, sums)) * (1 if self._is_whole else _STEPS)
        return Steps(run(), count, scaled)

    @property
    def _is_whole(self) -> bool:
        """Whether results of a vector are one step."""
        return self.ending.form in FIXED or bool(self.ending.residual)

    def _in_steps(
        self, sums: Sequence[Lanes], j: int, residuals: Sequence[Any], scaled: list[Lanes]
    ) -> Iterator[None]:
        """Append codes less the zero point to `scaled`, for some sums side by side."""
        if self._is_whole:
            for x, other in zip(sums, residuals or [None] * len(sums), strict=True):
                scaled.append(self._scaled(x, j, other))
                yield
            return
        reals: list[Lanes] = []
        for x in sums:
            reals.append(convert(x, "float32"))
            yield
        products: list[Lanes] = []
        for x in reals:
            products.append(self._times_factor(x, j))
            yield
        for x in products:
            scaled.append(self._nearest(x))
            yield

    def store_scaled(self, scaled: Sequence[Lanes], at: Any) -> None:
        """Store the codes of pixels that follow each other in memory, from their steps."""
        pixel = ITEMSIZE[self.ending.result] * self.v.lanes
        for first in range(0, len(scaled), FOUR):
            self._store_narrowed(scaled[first : first + FOUR], self.v.at(at, first * pixel))

    def _store_narrowed(self, scaled: Sequence[Lanes], place: Any) -> None:
        """Narrow and store up to four vectors that follow each other in memory."""
        assert self.narrowing is not None
        codes = self.narrowing.narrowed((list(scaled) * FOUR)[:FOUR])
        if len(scaled) == FOUR:
            codes.store(place)
            return
        self._slice(codes, 0, min(len(scaled), 2)).store(place)
        if len(scaled) > 2:
            self._slice(codes, 2, 1).store(place, 2 * self.v.lanes)

    @property
    def narrows_each(self) -> bool:
        """Whether all results are narrowed codes of one byte."""
        return self.narrowing is not None

    def residual_of(self, first: Any, number: int) -> Any:
        """Pointer to the codes of a pixel behind the first one; None without residual."""
        return self.v.at(first, number * self.v.lanes) if self.ending.residual else None

    def _narrowing(self) -> Narrowing | None:
        """How neighbouring results are narrowed together, if they are."""
        v, (form, result, *_) = self.v, self.ending
        if form in ("sums", "to_float") or ITEMSIZE[result] != 1 or self.ending.exceeds:
            return None
        zero = v.builder.load(v.at(self.bounds, 12), typ=I16, align=2)
        codes = v.of(result)
        bounds = [codes.load_item(self.bounds, at) for at in (14, 15) if self.ending.clamps]
        return Narrowing(v, result, zero, bounds)

    def _narrows(self, sums: Sequence[Lanes]) -> bool:
        """Whether these sums are narrowed together."""
        return self.narrowing is not None and len(sums) > 1

    def _codes(self, sums: Sequence[Lanes], j: int, residuals: Sequence[Any]) -> Lanes:
        """Two to four vectors of codes, one after the other, which are clamped as bytes."""
        whole = [self._scaled(x, j, other) for x, other in zip(sums, residuals, strict=True)]
        assert self.narrowing is not None
        return self.narrowing.narrowed((whole * FOUR)[:FOUR])

    def _slice(self, codes: Lanes, first: int, count: int) -> Lanes:
        """`count` of the vectors of `_codes`."""
        v = self.v.resized(count * self.v.lanes)
        return shuffle(codes, v, range(first * self.v.lanes, (first + count) * self.v.lanes))

    def _results(self, sums: Lanes, j: int, residual: Any) -> Lanes:
        form, result = self.ending.form, self.ending.result
        if form == "sums":
            return sums
        if form in FIXED:
            return convert(self._clamped(self._scaled(sums, j, residual) + self.zero), result)
        clamped = self._clamped(self._product(sums, j, residual))
        if form == "to_float":
            return clamped
        # clamped before it is rounded, so that it is a number of int32; the bounds are whole
        return convert(self._nearest(clamped) + self.whole_zero, result)

    def _scaled(self, sums: Lanes, j: int, residual: Any) -> Lanes:
        """Codes less the zero point, int32."""
        if self.ending.form not in FIXED:
            return self._nearest(self._product(sums, j, residual))
        whole = self._in_fixed_point(sums, j)
        if residual is None:
            return whole
        real = clamp(convert(whole, "float32"), self.low_product, self.high_product)
        total = self._added(real * self.product_factor, residual)
        if self.ending.exceeds:
            ends = (convert(end - self.zero, "float32") for end in (self.low, self.high))
            total = clamp(total, *ends)
        return self._nearest(total)

    def _in_fixed_point(self, sums: Lanes, j: int) -> Lanes:
        """Sums as codes less the zero point."""
        if self.ending.form != "fixed_point":
            return self._rounded_once(sums, j)
        multiplier, left, right = self.terms[j]
        high = doubling_high_product(shift_left(sums, left), multiplier)
        return rounding_shift(high, right)

    def _rounded_once(self, sums: Lanes, j: int) -> Lanes:
        """Sums times multipliers, with one rounding."""
        multiplier, *_, right = self.terms[j]
        if self.ending.form == "fixed_once":
            return shift_right(high_words(sums, multiplier, self.added[j]), right)
        size = shift_right(high_words(absolute(sums), multiplier, self.added[j]), right)
        return select(sums < 0, -size, size)

    def _product(self, sums: Lanes, j: int, residual: Any) -> Lanes:
        """Sums times factors, plus offsets and residuals."""
        product = self._times_factor(convert(sums, "float32"), j)
        return product if residual is None else self._with_residual(product, residual)

    def _times_factor(self, reals: Lanes, j: int) -> Lanes:
        product = reals * self.terms[j][0]
        return product + self.terms[j][1] if self.ending.offset else product

    def _with_residual(self, product: Lanes, residual: Any) -> Lanes:
        """Products, perhaps rounded to codes, and the reals of other codes."""
        if self.ending.rounds:
            whole = self._rounded(clamp(product, self.low_product, self.high_product))
            product = whole * self.product_factor
        return self._added(product, residual)

    def _added(self, product: Lanes, residual: Any) -> Lanes:
        """Products, and the reals of other codes."""
        zero, factor = self.of_residual
        codes = self.v.of(self.ending.residual).load(residual)
        return product + (convert(codes, "float32") - zero) * factor

    def _rounded(self, x: Lanes) -> Lanes:
        """The nearest whole number."""
        if self.ending.form == "truncate":
            return convert(truncated(x, "int32"), "float32")
        return rint(x)

    def _clamped(self, x: Lanes) -> Lanes:
        return clamp(x, self.low, self.high)

    def _nearest(self, x: Lanes) -> Lanes:
        """The nearest whole number as int32; that of a whole number is itself."""
        v = x.v
        if self.ending.form == "truncate":
            return truncated(x, "int32")
        name = f"llvm.lrint.v{v.lanes}i32.v{v.lanes}f32"
        return Lanes(v, "int32", v.call(name, vector_type(v, "int32"), x.value))
