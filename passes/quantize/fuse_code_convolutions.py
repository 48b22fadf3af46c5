"""Sum products of convolutions of codes in integers, and requantize the sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from nnefc.ir import Attribute, DType, Expression, Graph, Op, TensorType, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.extended import integer_products, sum_bounds
from nnefc.ops.extended.quantized import exceeds_float32
from nnefc.ops.internal.requantization import (
    FixedPoint,
    FloatScale,
    Input,
    Requantization,
    Residual,
    SumOfCodes,
    Term,
    ToFloat,
    requantization_expression,
)
from nnefc.ops.tools.build import build
from nnefc.ops.tools.convolution import (
    is_depthwise_deconvolution,
    is_plain_convolution,
    is_reversed,
)
from nnefc.passes.analysis.computed_items import computed_items
from nnefc.passes.analysis.integer_support import convolution_reason
from nnefc.passes.analysis.known_data import KnownValues, constant_op
from nnefc.passes.op_queries import is_view
from nnefc.passes.quantize.code_borders import with_padding_of_zero
from nnefc.passes.quantize.cut_planes import cut_planes
from nnefc.passes.quantize.moved_codes import Source, source_of
from nnefc.passes.quantize.steps_after_sums import Addend, Codes, FixedSteps, StepsAfterSums, follow

FUSED: Final = {"integer_conv": "fused_code_conv", "integer_deconv": "fused_code_deconv"}
_LARGEST_MULTIPLE: Final = 1 << 30
_SAME_REAL: Final = 2.0**-22
"""Largest relative difference of two numbers that are the same but for rounding to float32."""
SAME_SCALE: Final = 1e-6
"""Largest relative difference of two scales that are the same but for rounding to float32."""


@dataclass(frozen=True)
class FuseCodeConvolutions:
    """Replace convolutions of codes, and the steps behind them, by operations on integers.

        %a: float32[1,16,8,8] = dequantize(%x, %s, %z)
        %b: float32[32,16,3,3] = dequantize(%w, %t, %0)
        %c: float32[1,32,8,8] = conv(%a, %b, %bias) {...}
        %d: float32[1,32,8,8] = relu(%c)
        %y: uint8[1,32,8,8] = quantize(%d, %u, %v)

    becomes

        %y: uint8[1,32,8,8] = fused_code_conv(%x, %w, %z, %0, %factor) {..., expression = ...}

    where %factor is %s %t / %u, computed in float64 and rounded once.  A bias in codes of the scale
    %s %t is added to the sums, any other bias to their product with the factor.  So is
    `integer_conv` with the steps behind it, which may be in fixed point, and `deconv` likewise.
    Without a rounding to codes the result is float32, and int32 without a product.  The reals of
    other codes may be added before the sum is rounded, also to codes that are dequantized again, as
    in residual networks.
    Convolutions without an integer kernel (`passes.analysis.integer_support`) stay, and so do those
    whose sums may exceed int32.
    """

    name: ClassVar[str] = "fuse_code_convolutions"
    enters_loops: ClassVar[bool] = False

    def run(self, graph: Graph) -> bool:
        known = KnownValues(graph)
        changed = False
        for op in list(graph.ops):
            start = _start(graph, op, known)
            if isinstance(start, _Start):
                source = with_padding_of_zero(graph, start.sums, known)
                _fuse(graph, start, follow(graph, start.steps, known), *source)
                changed = True
        return changed


def reason_of_reals(graph: Graph, op: Op, known: KnownValues) -> str | None:
    """Why the convolution `op`, which has operands in codes, stays; None if it does not."""
    start = _start(graph, op, known)
    if isinstance(start, str):
        return start
    if start is not None and start.sums is not op:
        graph.erase(start.sums)
    return None


@dataclass(frozen=True, slots=True)
class _Start:
    """Sums of codes, and what is known of them."""

    sums: Op
    """An `integer_conv` or `integer_deconv`."""
    steps: StepsAfterSums


def _start(graph: Graph, op: Op, known: KnownValues) -> _Start | str | None:
    """The sums of a convolution of codes, inserted before it; or the reason against integers.

    None if `op` is no convolution of codes.
    """
    if op.name in FUSED:
        return convolution_reason(op, known) or _Start(op, StepsAfterSums(op.output))
    found = sums_of_reals(graph, op, known)
    if not isinstance(found, tuple):
        return found
    sums, scale = found
    bias = _bias(op.inputs[2], scale, known)
    reason = convolution_reason(sums, known) or bias
    if not isinstance(reason, str):
        assert not isinstance(bias, str)
        whole, offset = bias
        most = sum_bounds.bound_of_convolution(sums) + int(np.abs(whole).max(initial=0))
        if most <= integer_products.LARGEST_SUM:
            return _Start(sums, StepsAfterSums(op.output, whole, scale, offset, steps=(op,)))
        reason = "sums may exceed int32"
    graph.erase(sums)
    return reason


def sums_of_reals(graph: Graph, op: Op, known: KnownValues) -> tuple[Op, Array] | str | None:
    """The sums of codes of a convolution of reals, inserted before it, and their scale: one, or one
    per channel.

    Or the reason why there are none; None if the operands have no codes.
    """
    if not is_plain_convolution(op) or op.output.type.dtype is not DType.FLOAT32:
        return None
    x, filter_ = map(source_of, op.inputs[:2])
    if x is None and filter_ is None:
        return None
    if x is None or filter_ is None:
        return "an operand has no codes"
    scale = _scale(op, x, filter_, known)
    if isinstance(scale, str):
        return scale
    if exceeds_float32(scale):
        return "the product of the scales exceeds float32"
    points = computed_items(x.dequantize.inputs[2], known)
    if x.dequantize.inputs[2].type.volume != 1 and (points is None or np.ptp(points)):
        return "zero points of the input differ"
    zero = filter_.dequantize.inputs[2]
    along = [axis for axis, extent in enumerate(zero.type.dims) if extent != 1]
    if not along:
        zero = number_of(graph, op, zero)
    elif filter_.moves or along != [int(is_reversed(op))]:
        return "zero points of the filter vary along a sum"
    operands = [x.codes(graph, op), filter_.codes(graph, op)]
    operands += [_common_number(graph, op, x.dequantize.inputs[2], points), zero]
    name, attributes = f"integer_{op.name}", op.attributes
    return build(graph, name, operands, attributes, before=op, location=op.location), scale


def number_of(graph: Graph, op: Op, value: Value) -> Value:
    """A value of one item in rank 0; operations are inserted before `op`."""
    if not value.type.rank:
        return value
    return build(graph, "reshape", [value], {"shape": ()}, before=op).output


def _common_number(graph: Graph, op: Op, value: Value, items: Array | None) -> Value:
    """A value whose items are equal, in rank 0."""
    if value.type.volume == 1 or items is None:
        return number_of(graph, op, value)
    type_ = TensorType(value.type.dtype, ())
    return graph.insert(constant_op(items.reshape(-1)[0], type_, op.location), op).output


def _scale(op: Op, x: Source, filter_: Source, known: KnownValues) -> Array | str:
    """The product of the scales in float64, one or one per channel; or why there is none.

    Behind moves, a filter has one scale.  All groups of a deconvolution have the same scales,
    unless it is depthwise.
    """
    left, right = (computed_items(s.dequantize.inputs[1], known) for s in (x, filter_))
    if left is None or right is None:
        return "a scale is computed"
    factor = _scale_of_input(op, x, left)
    if factor is None:
        return "scales of the input vary along a sum"
    if right.size > 1:
        axis = int(is_reversed(op) and not is_depthwise_deconvolution(op))
        channels = filter_.dequantize.output.type.dims[axis]
        if right.ndim <= axis or not right.shape[axis] == right.size == channels or filter_.moves:
            return "scales of the filter vary along a sum"
        right = np.tile(right.reshape(-1), op.output.type.dims[1] // channels)
    product = right.astype(np.float64).reshape(-1) * factor
    return product if product.size > 1 else product.reshape(())


def _scale_of_input(op: Op, x: Source, scale: Array) -> Array | None:
    """The scale of the input in float64, one or one per channel of the output.

    A depthwise convolution sums over one channel of the input.  None if a sum has several scales.
    """
    channels, outputs = op.inputs[0].type.dims[1], op.output.type.dims[1]
    if scale.size == 1:
        return scale.astype(np.float64).reshape(-1)
    is_along_channels = scale.ndim > 1 and scale.shape[1] == scale.size == channels
    if is_reversed(op) or x.moves or not is_along_channels or op.inputs[1].type.dims[1] != 1:
        return None
    return np.repeat(scale.astype(np.float64).reshape(-1), outputs // channels)


def _bias(value: Value, scale: Array, known: KnownValues) -> tuple[Array, Array] | str:
    """The bias in units of the scale, and as reals: one of them is 0; or why it has neither."""
    source, none = source_of(value), np.zeros((), np.int64)
    if source is not None and all(map(is_view, source.moves)):
        items = [computed_items(v, known) for v in source.dequantize.inputs]
        codes, own, zero = (None if x is None else x.reshape(-1) for x in items)
        is_int32 = source.dequantize.inputs[0].type.dtype is DType.INT32
        if codes is not None and own is not None and zero is not None and is_int32:
            same = np.allclose(own, scale.reshape(-1), SAME_SCALE, 0) and not zero.any()
            if same and own.size in (1, codes.size):
                return codes.astype(np.int64), np.zeros(())
    reals = computed_items(value, known)
    if reals is None:
        return "the bias is computed"
    multiples = _multiples(reals.astype(np.float64).reshape(-1), scale.reshape(-1))
    if multiples is not None:
        return multiples, np.zeros(())
    return none, reals.astype(np.float64).reshape(-1 if reals.size > 1 else ())


def _multiples(reals: Array, scale: Array) -> Array | None:
    """Whole multiples of a scale, less than 2^30, that a bias in float32 stands for; else None.

    NNEF 1.0.2 has no integers of 32 bits with a scale for each channel.
    """
    if reals.size not in (1, scale.size) and scale.size > 1:
        return None
    multiples = np.rint(reals / scale)
    is_same = np.abs(multiples * scale - reals) <= _SAME_REAL * np.abs(reals)
    is_small = np.abs(multiples) < _LARGEST_MULTIPLE
    return multiples.astype(np.int64) if (is_same & is_small).all() else None


# -- the fused operation


def _fuse(
    graph: Graph,
    start: _Start,
    end: StepsAfterSums,
    codes: Value,
    attributes: Mapping[str, Attribute],
) -> None:
    """Replace the sums of `codes` and the steps behind them by one operation."""
    sums = start.sums
    last = end.steps[-1] if end.steps else sums
    terms = _Terms(graph, last, sums.output.type.dims[1])
    expression, dtype = _expression(end, terms)
    if end.factor is None and end.fixed is None:
        last, end = sums, start.steps
    fused = Op(
        FUSED[sums.name],
        [codes, *sums.inputs[1:], *terms.values],
        {**attributes, "expression": expression},
        [TensorType(dtype, sums.output.type.dims)],
        [last.output.name],
        sums.location,
    )
    graph.insert(fused, last)
    graph.replace_value(last.output, fused.output)
    for op in reversed(end.steps):
        graph.erase(op)
    graph.erase(sums)
    cut_planes(graph, fused)


def _expression(end: StepsAfterSums, terms: _Terms) -> tuple[Expression, DType]:
    """The steps as an expression, and the type of its result."""
    if end.fixed is not None and end.codes is not None:
        result = _in_fixed_point(end, end.fixed, end.codes, terms)
        return requantization_expression(result), end.codes.dtype
    if end.factor is None:
        return Expression((DType.INT32,), (), (0,)), DType.INT32
    if end.codes is None:
        bias, factor = terms.term(end.bias, DType.INT32), terms.term(end.factor, DType.FLOAT32)
        offset = terms.term(end.offset, DType.FLOAT32)
        real = ToFloat(factor, bias, offset, end.low, end.high)
        return requantization_expression(real), DType.FLOAT32
    result = _codes(end, end.codes, terms) if end.first is None else _sum(end, end.codes, terms)
    return requantization_expression(result), end.codes.dtype


def _in_fixed_point(
    end: StepsAfterSums, fixed: FixedSteps, codes: Codes, terms: _Terms
) -> Requantization:
    """Sums as codes, scaled in int32."""
    assert fixed.multiplier is not None
    kind = DType.INT32
    bias = terms.term(end.bias, kind)
    multiplier, left, right = (
        terms.term(numbers, kind) for numbers in (fixed.multiplier, fixed.left, fixed.right)
    )
    scale = FixedPoint(multiplier, left, right)
    return Requantization(scale, codes.dtype, codes.low, codes.high, codes.zero, bias)


def _codes(end: StepsAfterSums, codes: Codes, terms: _Terms) -> Requantization:
    """Sums as codes."""
    assert end.factor is not None
    bias, factor = terms.term(end.bias, DType.INT32), terms.term(end.factor, DType.FLOAT32)
    offset = terms.term(end.offset, DType.FLOAT32)
    residual = None if end.addend is None else terms.residual(end.addend)
    scale = FloatScale(factor, codes.rounding, offset, residual)
    return Requantization(scale, codes.dtype, codes.low, codes.high, codes.zero, bias)


def _sum(end: StepsAfterSums, codes: Codes, terms: _Terms) -> SumOfCodes:
    """Codes of the sum of codes and others."""
    first, addend = end.first, end.addend
    assert first is not None
    assert first.codes is not None
    assert end.factor is not None
    assert addend is not None
    factor = float(np.float32(end.factor.item()))
    if first.fixed is None:
        before = _codes(first, first.codes, terms)
    else:
        before = _in_fixed_point(first, first.fixed, first.codes, terms)
    residual = terms.residual(addend)
    return SumOfCodes(before, factor, residual, codes.dtype, codes.low, codes.high, codes.zero)


class _Terms:
    """Numbers of an expression, and its inputs for those that vary along channels."""

    def __init__(self, graph: Graph, before: Op, channels: int) -> None:
        self._graph, self._before, self._channels = graph, before, channels
        self.values: list[Value] = []

    def term(self, numbers: Array, dtype: DType) -> Term:
        """Numbers, rounded to `dtype`: one, or an input of the expression."""
        items: Any = numbers.astype(dtype.numpy)
        if (items == items.flat[0]).all():
            return items.flat[0].item()
        type_ = TensorType(dtype, (1, self._channels))
        op = constant_op(items.reshape(1, -1), type_, self._before.location)
        self.values.append(self._graph.insert(op, self._before).output)
        return Input(len(self.values))

    def residual(self, addend: Addend) -> Residual:
        """Codes whose reals are added, as the last input."""
        self.values.append(addend.codes)
        factor = float(np.float32(addend.factor))
        return Residual(Input(len(self.values)), addend.codes.type.dtype, addend.zero, factor)
