"""Codes of real numbers, real = (code - zero point) scale, and sums of products of codes.

Codes are items of plain integer types; scales and zero points are operands.  Scales and zero points
broadcast with the tensor that they belong to, and zero points have the type of its codes.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nnefc.ir import DType, Op, Shape, TensorType, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import attempt
from nnefc.ops.core.broadcast import align, broadcast_shapes
from nnefc.ops.core.known_items import known_items
from nnefc.ops.core.spec import Call, Emit, OpSpec, Sample
from nnefc.ops.core.traits import COMPOUND, Folding
from nnefc.ops.core.value_text import listing

CODES: Final = COMPOUND._replace(folding=Folding.NEVER)
"""Conversions between codes and reals are not folded: products compute with the known codes."""


def check_parameters(call: Call, tensor: str, *parameters: str) -> Shape:
    """The shape of a tensor, which its scale and zero point must broadcast to."""
    shape = call.shape(tensor)
    shapes = {name: call.shape(name) for name in (tensor, *parameters)}
    result = broadcast_shapes(call, shapes)
    listed = ", ".join(f"{name}.shape = {listing(s)}" for name, s in shapes.items())
    call.require(
        result == shape, f"{' and '.join(parameters)} must broadcast to {tensor}: {listed}"
    )
    return shape


def check_codes(call: Call, codes: str, zero_point: str) -> None:
    """Require codes of an integer type, and a zero point of the same type."""
    types = attempt(lambda: (call.dtype(codes), call.dtype(zero_point)))
    if types is not None:
        call.require(types[0].is_integer, f"codes are integers: {codes} is of {types[0]}")
        call.require(
            types[0] is types[1],
            f"a zero point has the type of its codes: {codes} is of {types[0]}, "
            f"{zero_point} of {types[1]}",
        )


def code_limits(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest code of an integer type."""
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


def scale_problems(scale: Array, name: str = "a scale") -> list[str]:
    """What is wrong with the items of a scale `name`, which must be positive and finite."""
    wrong = scale[~((scale > 0) & np.isfinite(scale))]
    return [f"{name} must be positive and finite: it is {wrong[0]}"] if wrong.size else []


def is_scale(number: float) -> bool:
    """Whether a number is positive and finite in float32."""
    with np.errstate(all="ignore"):
        return bool(0 < np.float32(number) < math.inf)


def exceeds_float32(scales: Array) -> bool:
    """Whether a product of scales, in float64, has items that float32 cannot hold."""
    return bool((scales > np.finfo(np.float32).max).any())


def _verify(op: Op) -> list[str]:
    """Scales in constants and variables that are not positive and finite."""
    items = known_items(op.inputs[1])
    return [] if items is None else scale_problems(items)


def is_zero(value: Value) -> bool:
    """Whether all items are known to be 0."""
    items = known_items(value)
    return items is not None and not np.any(items)


# -- quantize

ROUNDINGS: Final = ("even", "up")
"""Where a number between two codes goes, as far from both: to the even or to the larger one."""


def nearest(x: Array, rounding: str) -> Array:
    """The nearest whole numbers; `rounding` decides about halves."""
    return np.floor(x + 0.5) if rounding == "up" else np.rint(x)


def _quantize(call: Call) -> TensorType:
    types = attempt(lambda: (call.dtype("x"), call.dtype("scale")))
    if types is not None:
        call.require(
            types[0] is types[1], f"x and scale must have one type: {types[0]}, {types[1]}"
        )
    rounding: str | None = attempt(lambda: call["rounding"])
    if rounding is not None:
        call.require(rounding in ROUNDINGS, f"rounding must be 'even' or 'up': '{rounding}'")
    shape = check_parameters(call, "x", "scale", "zero_point")
    return TensorType(call.dtype("zero_point"), shape)


def quantize(x: Array, scale: Array, zero_point: Array, *, rounding: str, dtype: DType) -> Array:
    """x / scale + zero_point, rounded to nearest and saturated."""
    x, scale, zero_point = align(x, scale, zero_point)
    low, high = code_limits(dtype)
    codes = nearest(x / scale, rounding) + zero_point
    return np.clip(codes, low, high)


def _expand_quantize(emit: Emit, op: Op) -> Value:
    x, scale, zero_point = op.inputs
    dtype = op.output.type.dtype
    low, high = code_limits(dtype)
    items = known_items(scale)
    units = x if items is not None and np.all(items == 1) else emit("div", x, scale)
    whole = emit("round" if op.attributes["rounding"] == "up" else "round_even", units)
    if not is_zero(zero_point):
        whole = emit("add", whole, emit("cast", zero_point, dtype=x.type.dtype))
    return emit("cast", emit("clamp", whole, float(low), float(high)), dtype=dtype)


# -- dequantize


def _dequantize(call: Call) -> TensorType:
    check_codes(call, "codes", "zero_point")
    shape = check_parameters(call, "codes", "scale", "zero_point")
    return TensorType(call.dtype("scale"), shape)


def dequantize(codes: Array, scale: Array, zero_point: Array) -> Array:
    """(codes - zero_point) scale"""
    codes, scale, zero_point = align(codes, scale, zero_point)
    return (codes - zero_point) * scale


def _expand_dequantize(emit: Emit, op: Op) -> Value:
    codes, scale, zero_point = op.inputs
    real = emit("cast", codes, dtype=scale.type.dtype)
    if not is_zero(zero_point):
        real = emit("sub", real, emit("cast", zero_point, dtype=scale.type.dtype))
    return emit("mul", real, scale)


# -- samples

_NARROW: Final = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)


def _zeros(dtype: DType, shape: Shape) -> Any:
    """Zero points that differ; those of a rank-0 tensor are a number."""
    items: Array = np.arange(math.prod(shape)) * 5 % 11 + (0 if dtype.is_signed else 3)
    return items.reshape(shape).tolist()


def _scales(shape: Shape) -> Any:
    """Powers of two, with which float32 and float64 give the same codes."""
    items: Array = 2.0 ** -(np.arange(math.prod(shape)) % 3 + 2)
    return items.reshape(shape).tolist()


def _quantize_sample(x: Shape, parameters: Shape, dtype: DType, zeros: Shape = ()) -> Sample:
    return Sample(
        inputs=(x, parameters, zeros),
        values={1: _scales(parameters), 2: _zeros(dtype, zeros)},
        dtypes={2: dtype},
    )


def _dequantize_sample(codes: Shape, parameters: Shape, dtype: DType, zeros: Shape = ()) -> Sample:
    low, high = code_limits(dtype)
    items: Array = np.linspace(low, high, math.prod(codes), dtype=np.int64)
    return Sample(
        inputs=(codes, parameters, zeros),
        values={0: items.reshape(codes).tolist(), 1: _scales(parameters), 2: _zeros(dtype, zeros)},
        dtypes={0: dtype, 2: dtype},
    )


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="quantize",
        signature="fragment quantize( x: tensor<scalar>, scale: tensor<scalar>, "
        "zero_point: tensor<integer>, rounding: string = 'even' ) -> ( codes: tensor<integer> )",
        section="tract",
        summary="Codes of reals, x / scale + zero_point: rounded to nearest, halves to even or up, "
        "and saturated; they have the type of zero_point.",
        infer=_quantize,
        reference=quantize,
        verify=_verify,
        traits=CODES,
        expand=_expand_quantize,
        chooses_type=True,
        samples=(
            *(_quantize_sample((2, 3, 4), (), dtype) for dtype in _NARROW),
            _quantize_sample((2, 3, 4), (1, 3), DType.UINT8),
            _quantize_sample((2, 3, 4), (1, 3), DType.INT8, (1, 3)),
            _quantize_sample((2, 4), (2, 4), DType.INT8, (1, 4)),
            Sample(
                inputs=((9,), (), ()),
                values={
                    0: [-1e9, -16.0, -0.25, 0.0, 0.25, 0.75, 1.25, 63.75, 1e9],
                    1: 0.5,
                    2: 128,
                },
                dtypes={2: DType.UINT8},
            ),
            Sample(
                inputs=((9,), (), ()),
                attributes={"rounding": "up"},
                values={
                    0: [-1e9, -1.25, -0.25, 0.0, 0.25, 0.75, 1.25, 63.75, 1e9],
                    1: 0.5,
                    2: 0,
                },
                dtypes={2: DType.INT8},
            ),
            _quantize_sample((), (), DType.UINT8),
        ),
    ),
    OpSpec(
        name="dequantize",
        signature="fragment dequantize( codes: tensor<integer>, scale: tensor<scalar>, "
        "zero_point: tensor<integer> ) -> ( x: tensor<scalar> )",
        section="tract",
        summary="Reals of codes, (codes - zero_point) * scale.",
        infer=_dequantize,
        reference=dequantize,
        verify=_verify,
        traits=CODES,
        expand=_expand_dequantize,
        samples=(
            *(_dequantize_sample((2, 3, 4), (), dtype) for dtype in _NARROW),
            _dequantize_sample((2, 3, 4), (1, 3), DType.UINT8),
            _dequantize_sample((2, 3, 4), (1, 3), DType.INT8, (1, 3)),
            _dequantize_sample((2, 4), (2, 4), DType.INT8, (1, 4)),
            _dequantize_sample((5,), (), DType.INT8),
            _dequantize_sample((), (), DType.UINT8),
        ),
    ),
)
