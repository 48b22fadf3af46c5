"""Convolutions of codes: their operands, in the form that all of their lowerings read.

Sums start from the bias less the products of the input's zero point, so kernels multiply codes as
they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType, Expression, Op, Value
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.code_results import BOUNDS_BYTES, RESIDUAL_BYTES, Ending, Form
from nnefc.kernels.tile.code_tile import code_tile_pixels
from nnefc.kernels.vector.dot_words import PAIR_ITEM, WORD_CODES, WordKind, dot_of, word_items
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.blocked.tensors import Tensor, read_blocked, write_blocked
from nnefc.lower.context import Lowering
from nnefc.lower.convolution.direct import by_groups
from nnefc.lower.convolution.rounded_once import rounded_once
from nnefc.ops.core.border_taps import leaves_out_border
from nnefc.ops.core.broadcast import align
from nnefc.ops.core.window_arithmetic import Padding, Window, convolution_groups
from nnefc.ops.extended.integer_products import OPERANDS
from nnefc.ops.extended.quantized import code_limits
from nnefc.ops.internal.read_requantization import requantization_of
from nnefc.ops.internal.requantization import (
    FixedPoint,
    FloatScale,
    Input,
    Requantization,
    Residual,
    Result,
    SumOfCodes,
    Term,
    ToFloat,
)
from nnefc.ops.tools.convolution import window_of
from nnefc.support.machine_model import MACS_PER_NS
from nnefc.symbolic.integers import is_symbolic

Array = npt.NDArray[Any]

_FORMS: Final[dict[str, Form]] = {"round_even": "round_even", "round": "truncate"}
"""The forms of roundings."""
_MOST_CODES: Final = 255
"""The largest difference of two codes."""
SHALLOW: Final = 128
"""Most inputs of a convolution of 1x1 whose tiles overlap.  Deeper ones are as fast without."""
WIDE_REGISTERS: Final = 32
"""Registers that the sums of two tiles need."""
LARGEST: Final = 1 << 30
"""Kernels clamp larger products before they round them."""


@dataclass(frozen=True, slots=True)
class CodeConvolution:
    """A fused convolution of codes, with everything that is the same for all of its launches."""

    x: Tensor
    y: Tensor
    window: Window
    groups: int
    digits: tuple[Array, ...]
    """int8 [groups, outputs, inputs, *taps] each; outputs and inputs per group.  Their sum is the
    filter less its zero points, which may exceed int8.  One int16, for codes of 16 bits."""
    x_zero: int
    ending: Ending
    bias: Array
    """int32 [groups * outputs]"""
    terms: list[Array]
    """[groups * outputs] each: the numbers of the form, then the offset."""
    bounds: Array
    """uint8, see `nnefc.kernels.tile.code_results`."""
    residual: Tensor | None
    """Codes whose reals are added."""

    @property
    def filter(self) -> Array:
        """The first of the digits."""
        return self.digits[0]

    @property
    def weights(self) -> Array:
        """int32 [groups, outputs, inputs, *taps]: the filter less its zero points."""
        return np.stack(self.digits).sum(0, dtype=np.int32)

    @property
    def accumulator(self) -> DType:
        return DType.INT32

    @property
    def reads_border(self) -> bool:
        """Whether all outputs read all taps, also in the border.

        Sums start with the products of the border that they leave out, which only known extents
        tell.
        """
        return is_symbolic((*self.window.input, *self.window.output))

    @property
    def kind(self) -> WordKind:
        """What the words of x are: codes of 8 bits, or in 16 bits."""
        return "pairs" if str(self.x.dtype) == PAIR_ITEM else "codes"

    @property
    def overlaps(self) -> bool:
        """Whether tiles are requantized after the products of the next one."""
        isa, shallow = host(), self.filter.shape[2] <= SHALLOW and self.window.volume == 1
        fitting = isa.registers >= WIDE_REGISTERS and isa.packs and isa.byte_dot
        return bool(fitting) and shallow and self.ending.form in _FORMS.values()

    @property
    def weight_bytes(self) -> int:
        return np.dtype(dot_of(self.kind).weights).itemsize

    @property
    def macs_per_ns(self) -> float:
        return MACS_PER_NS * word_items(self.kind) / dot_of(self.kind).instructions

    def tile_pixels(self, vectors: int) -> int:
        return code_tile_pixels(vectors, self.kind, overlaps=self.overlaps)


def read_code_convolution(lower: Lowering, op: Op) -> CodeConvolution:
    """The operands of `op`: filter, zero points and terms of the requantization are known."""
    window = window_of(op)
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    is_pairs = str(x.dtype) == PAIR_ITEM
    assert str(x.dtype) == host().codes or (is_pairs and not op.attributes["expression"].steps)
    assert x.layout.block % WORD_CODES == 0
    assert y.layout.block == lanes_of("int32")
    groups = convolution_groups(x.shape, op.attributes)
    weights, x_zero, zeros = (_known(lower, value) for value in op.inputs[1:OPERANDS])
    numbers = [_differences(weights, zeros)] if is_pairs else _digits(weights, zeros)
    digits = tuple(by_groups(each, groups, reverse=window.reverse) for each in numbers)
    outputs = groups * digits[0].shape[1]
    assert op.attributes["border"] == "constant" or not any(map(any, window.padding))
    reads_halo = x.layout.has_halo and any(map(any, reach_of_codes(window)))
    assert not reads_halo or leaves_out_border(window) or x.layout.fill == int(x_zero)
    result = _result(op.attributes["expression"])

    def channels(term: Term, dtype: DType) -> Array:
        known: Any = term
        if isinstance(term, Input):
            known = _known(lower, op.inputs[OPERANDS - 1 + term.index])
            assert all(n == 1 for axis, n in enumerate(known.shape) if axis != 1), known.shape
            known = known.reshape(-1)
        return np.broadcast_to(np.asarray(known, dtype.numpy), outputs)

    first = result.first if isinstance(result, SumOfCodes) else result
    form, offset, numbers = _form(first)
    item = DType.INT32 if form == "fixed_point" else DType.FLOAT32
    bias = channels(0 if first is None else first.bias, DType.INT32)
    terms = [channels(term, item) for term in numbers]
    zero = np.zeros(1, item.numpy)
    if isinstance(result, Requantization | SumOfCodes):
        zero = channels(result.zero, item)
        assert (zero == zero[0]).all(), "one zero point"
    sums = np.abs(bias.astype(np.float64)) + _most(digits, int(x_zero))
    if form == "fixed_point":
        form, terms = _rounded_once(first, terms, sums) or (form, terms)
    residual = _residual(result)
    if form == "truncate":
        assert isinstance(result, Requantization | SumOfCodes)
        offset, zero = True, np.full_like(zero, _lowest(result.dtype))
        terms = _halves_up(result, terms)
    added, bounds = None, _bounds(result, zero[:1])
    if residual is not None:
        added = read_blocked(lower, op.inputs[OPERANDS - 1 + residual.codes.index])
        assert added.layout.block == y.layout.block
        bounds = np.concatenate([bounds, _residual_bounds(result, residual)])
    added_type = "" if residual is None else str(residual.dtype)
    exceeds, rounds = _exceeds(form, terms, sums, result), isinstance(result, SumOfCodes)
    clamps = _clamps(result)
    ending = Ending(form, str(y.dtype), offset, exceeds, added_type, rounds, clamps)
    return CodeConvolution(
        x, y, window, groups, digits, int(x_zero), ending, bias, terms, bounds, added
    )


def reach_of_codes(window: Window) -> Padding:
    """How far beyond the input a convolution of codes reads."""
    varies = is_symbolic((*window.input, *window.output))
    return (window if window.reverse or varies else window.clipped()).reach()


def _rounded_once(
    result: Result | None, terms: Sequence[Array], sums: Array
) -> tuple[Form, list[Array]] | None:
    """Form and terms of fixed point with one rounding, if its codes are the same."""
    assert isinstance(result, Requantization)
    assert not isinstance(result.zero, Input)
    zero = int(result.zero)
    return rounded_once(terms, sums, result.low - zero, result.high - zero)


def _residual(result: Result | None) -> Residual | None:
    """The codes that are added to the sums."""
    if isinstance(result, SumOfCodes):
        return result.residual
    if isinstance(result, Requantization) and isinstance(result.scale, FloatScale):
        return result.scale.residual
    return None


def _clamps(result: Result | None) -> bool:
    """Whether the bounds of codes are narrower than their type."""
    if not isinstance(result, Requantization | SumOfCodes):
        return True
    return (result.low, result.high) != code_limits(result.dtype)


def _lowest(dtype: DType) -> int:
    return code_limits(dtype)[0]


def _halves_up(result: Requantization | SumOfCodes, terms: Sequence[Array]) -> list[Array]:
    """The terms of truncated codes, the offset among them.

    Codes less the lowest one are not negative, so halves are rounded up by an offset of a half.
    """
    first = result.first if isinstance(result, SumOfCodes) else result
    factor, *offsets = terms
    offset: Any = sum((each.astype(np.float64) for each in offsets), _above_lowest(first) + 0.5)
    return [factor, np.broadcast_to(np.float32(offset), factor.shape)]


def _above_lowest(result: Requantization | SumOfCodes) -> int:
    """The zero point less the lowest code."""
    assert not isinstance(result.zero, Input)
    return int(result.zero) - _lowest(result.dtype)


def _residual_bounds(result: Result | None, residual: Residual) -> Array:
    """What kernels read behind the bounds."""
    numbers: list[Any] = [0, 0, 0, residual.zero, residual.factor]
    if isinstance(result, SumOfCodes):
        first = result.first
        zero: Any = first.zero
        if result.rounding == "round":
            zero = _lowest(first.dtype)
            # an offset of the sum is a part of the zero point of the residual
            offset = _above_lowest(result) + 0.5 - _above_lowest(first) * result.factor
            numbers[3] -= offset / residual.factor
        numbers[:3] = [first.low - zero, first.high - zero, result.factor]
    behind = np.array(numbers, np.float32).view(np.uint8)
    assert behind.nbytes == RESIDUAL_BYTES
    return behind


def _differences(codes: Array, zero: Array) -> Array:
    """Codes less zero points, int16."""
    x, z = align(codes.astype(np.int16), zero.astype(np.int16))
    return x - z


def _digits(codes: Array, zero: Array) -> list[Array]:
    """Numbers of int8 whose sum is codes less zero points; the first is as large as it can be."""
    if codes.dtype == np.int8 and not zero.any():
        return [codes]
    rest, digits = _differences(codes, zero), list[Array]()
    while not digits or rest.any():
        digits.append(np.clip(rest, -128, 127).astype(np.int8))
        rest = rest - digits[-1]
    return digits


def _most(digits: Sequence[Array], x_zero: int) -> Array:
    """Float64 [groups * outputs]: bounds of the sums of products."""
    codes = np.iinfo(host().codes)
    weights = np.abs(np.sum(digits, 0, np.int64))
    largest = max(codes.max - x_zero, x_zero - codes.min)
    return weights.sum(tuple(range(2, weights.ndim))).reshape(-1).astype(np.float64) * largest


def _exceeds(form: Form, terms: Sequence[Array], sums: Array, result: Result | None) -> bool:
    """Whether what is rounded last may exceed 2^30."""
    if form in ("sums", "to_float"):
        return False
    if isinstance(result, SumOfCodes):
        residual = result.residual
        return _MOST_CODES * (abs(result.factor) + abs(residual.factor)) >= LARGEST
    if form in ("fixed_once", "fixed_away"):
        return False
    if form == "fixed_point":
        multiplier, _, right = terms
        return bool((multiplier.astype(np.int64) >> np.clip(right, 0, 31) > LARGEST).any())
    factors, *offsets = (np.abs(term.astype(np.float64)) for term in terms)
    most: Any = sum(offsets, factors * sums)
    if (residual := _residual(result)) is not None:
        most = most + _MOST_CODES * abs(residual.factor)
    return not bool(np.all(most < LARGEST))


def _bounds(result: Result | None, zero: Array) -> Array:
    """The bounds of codes as kernels read them; `zero`: [1], in the type of the terms."""
    ends = (0, 0) if result is None else (result.low, result.high)
    wide = np.array([zero[0], *ends], zero.dtype)
    codes = (
        [int(end) & 255 for end in ends]
        if isinstance(result, Requantization | SumOfCodes)
        else [0, 0]
    )
    narrow = zero.astype(np.int64).astype(np.int16), np.array(codes, np.uint8)
    bounds = np.concatenate([each.view(np.uint8) for each in (wide, *narrow)])
    assert bounds.nbytes == BOUNDS_BYTES
    return bounds


def _known(lower: Lowering, value: Value) -> Array:
    data = lower.stored_data(value)
    assert data is not None, f"%{value.name} is computed"
    return data


def _result(expression: Expression) -> Result | None:
    """The requantization that an expression computes; None if its result is the sums."""
    if not expression.steps:
        return None
    result = requantization_of(expression)
    assert result is not None, "the expression is no requantization"
    return result


def _form(result: Requantization | ToFloat | None) -> tuple[Form, bool, list[Term]]:
    """The form of a requantization, whether it has an offset, and its numbers per channel."""
    if result is None:
        return "sums", False, []
    if isinstance(result, Requantization) and isinstance(scale := result.scale, FixedPoint):
        return "fixed_point", False, [scale.multiplier, scale.left, scale.right]
    scale = result if isinstance(result, ToFloat) else result.scale
    assert not isinstance(scale, FixedPoint)
    form = _FORMS[scale.rounding] if isinstance(scale, FloatScale) else "to_float"
    offset = scale.offset != 0
    return form, offset, [scale.factor, *([scale.offset] if offset else [])]
