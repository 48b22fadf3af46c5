"""Pseudo-quantization: section 4.9.5, and operations beyond NNEF 1.0.2.

The formulas of the text divide by 0 if the range is empty (max <= min, or scale = 0).  Here such a
range has one level: all items become min (or 0).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from nnefc.ir import Op, TensorType, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import attempt
from nnefc.ops.core.broadcast import align, broadcast
from nnefc.ops.core.spec import Call, Emit, OpSpec, Sample
from nnefc.ops.core.traits import COMPOUND
from nnefc.ops.standard.activation import clamp

MAX_BITS = 64
"""Most bits of a code; float64 cannot represent more levels of a range."""
_WHOLE: Final = 2.0**-12
"""Largest distance of a zero point from a whole number: ranges are stored in float32."""
_WHOLE_16: Final = 2.0**-8
"""That of codes of 9 to 16 bits, of which ranges in float32 miss a whole number by 2^-9."""


def _rule(*operands: str) -> Callable[[Call], TensorType]:
    """The shape rule of quantizations: `operands` broadcast, `bits` is checked."""

    def rule(call: Call) -> TensorType:
        bits: int | None = attempt(lambda: call["bits"])
        if bits is not None:
            call.require(
                1 <= bits <= MAX_BITS,
                f"bits must be positive and at most {MAX_BITS}: bits = {bits}",
            )
        return TensorType(call.dtype("x"), broadcast(call, *operands))

    return rule


def _signed_rule(*operands: str) -> Callable[[Call], TensorType]:
    """`_rule`, for operations whose codes may be signed and symmetric."""
    rule = _rule(*operands)

    def signed_rule(call: Call) -> TensorType:
        if attempt(lambda: (call["bits"], call["signed"], call["symmetric"])) == (1, True, True):
            call.require(False, "bits must be at least 2 where codes are signed and symmetric: 1")
        return rule(call)

    return signed_rule


# -- a range in equal steps


def _levels(x: Array, low: Array, high: Array, steps: float) -> Array:
    """x rounded to the nearest of `steps` + 1 equidistant levels from low to high, halves up."""
    x, low, high = align(x, low, high)
    extent = high - low
    divisor = np.where(extent == 0.0, 1.0, extent)
    q = np.floor((clamp(x, low, high) - low) / divisor * steps + 0.5)
    return q / steps * extent + low


def _expand_levels(emit: Emit, op: Op, steps: float) -> Value:
    x, low, high = op.inputs
    extent = emit("sub", high, low)
    divisor = emit("select", emit("eq", extent, 0.0), 1.0, extent)
    z = emit("sub", emit("clamp", x, low, high), low)
    q = emit("round", emit("mul", emit("div", z, divisor), steps))
    return emit("add", emit("mul", emit("div", q, steps), extent), low)


def steps_of_range(bits: int, signed: bool = False, symmetric: bool = False) -> float:
    """The number of steps in the range of `linear_quantize` or `min_max_linear_quantize`."""
    return 2.0**bits - 1 - (signed and symmetric)


def are_whole(zero_points: Array, bits: int) -> bool:
    """Whether zero points of codes of at most 16 bits are whole but for the rounding of ranges."""
    largest = _WHOLE if bits <= 8 else _WHOLE_16
    return bool((np.abs(zero_points - np.rint(zero_points)) <= largest).all())


def linear_quantize(x: Array, min: Array, max: Array, *, bits: int) -> Array:
    """x rounded to 2 ^ bits levels from min to max (4.9.5)."""
    return _levels(x, min, max, steps_of_range(bits))


def _expand_linear(emit: Emit, op: Op) -> Value:
    return _expand_levels(emit, op, steps_of_range(**op.attributes))


def min_max_linear_quantize(
    x: Array, min: Array, max: Array, *, bits: int, signed: bool, symmetric: bool
) -> Array:
    """x rounded to 2 ^ bits levels from min to max, to one level less if signed and symmetric.

    The offset of signed codes cancels out.
    """
    return _levels(x, min, max, steps_of_range(bits, signed, symmetric))


def _expand_min_max(emit: Emit, op: Op) -> Value:
    return _expand_levels(emit, op, steps_of_range(**op.attributes))


# -- a scale and the code of zero


def limits_of_codes(bits: int, signed: bool, symmetric: bool) -> tuple[float, float]:
    """The lowest and the highest code of `zero_point_linear_quantize`."""
    if not signed:
        return 0.0, 2.0**bits - 1
    high = 2.0 ** (bits - 1) - 1
    return (-high if symmetric else -high - 1), high


def zero_point_linear_quantize(
    x: Array, zero_point: Array, scale: Array, *, bits: int, signed: bool, symmetric: bool
) -> Array:
    """scale * (code - zero_point), where code = round(x / scale) + zero_point within its range."""
    low, high = limits_of_codes(bits, signed, symmetric)
    x, zero_point, scale = align(x, zero_point, scale)
    z = zero_point.astype(np.float64)
    s = np.floor(x / np.where(scale == 0.0, 1.0, scale) + 0.5) + z
    return (clamp(s, np.asarray(low), np.asarray(high)) - z) * scale


def _expand_zero_point(emit: Emit, op: Op) -> Value:
    x, zero_point, scale = op.inputs
    a = op.attributes
    low, high = limits_of_codes(a["bits"], a["signed"], a["symmetric"])
    z = emit("cast", zero_point, dtype=x.type.dtype)
    divisor = emit("select", emit("eq", scale, 0.0), 1.0, scale)
    s = emit("add", emit("round", emit("div", x, divisor)), z)
    return emit("mul", emit("sub", emit("clamp", s, low, high), z), scale)


# -- powers of two


def logarithmic_quantize(x: Array, max: Array, *, bits: int) -> Array:
    """sign(x) times a power of two (4.9.5).

    The exponents are the 2 ^ bits integers up to ceil(log2(max)).
    """
    x, max = align(x, max)
    m = np.ceil(np.log2(max))
    q = np.floor(clamp(np.log2(np.abs(x)), m - (2.0**bits - 1), m) + 0.5)
    return np.sign(x) * 2.0**q


def _expand_logarithmic(emit: Emit, op: Op) -> Value:
    x, max = op.inputs
    m = emit("ceil", emit("log2", max))
    low = emit("sub", m, 2.0 ** op.attributes["bits"] - 1)
    q = emit("round", emit("clamp", emit("log2", emit("abs", x)), low, m))
    return emit("mul", emit("sign", x), emit("pow", 2.0, q))


_RANGE = {1: -1.0, 2: 1.0}

SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="linear_quantize",
        signature="fragment linear_quantize( x: tensor<scalar>, min: tensor<scalar>, "
        "max: tensor<scalar>, bits: integer ) -> ( y: tensor<scalar> )",
        section="4.9.5",
        summary="x rounded to 2 ^ bits equal steps from min to max.",
        infer=_rule("x", "min", "max"),
        reference=linear_quantize,
        traits=COMPOUND,
        expand=_expand_linear,
        samples=(
            Sample(inputs=((2, 3, 4), (), ()), attributes={"bits": 8}, values=_RANGE),
            Sample(inputs=((2, 3, 4), (), ()), attributes={"bits": 1}, values=_RANGE),
            Sample(
                inputs=((2, 3, 2), (1, 3), (1, 3)),
                attributes={"bits": 4},
                values={1: [[-1.0, -2.0, 0.0]], 2: [[1.0, 0.5, 2.0]]},
            ),
            Sample(
                inputs=((5,), (), ()),
                attributes={"bits": 2},
                values={0: [0.0, 0.5, 1.5, 2.5, 9.0], 1: 0.0, 2: 3.0},
            ),
            Sample(inputs=((4,), (), ()), attributes={"bits": 8}, values={1: 0.5, 2: 0.5}),
            Sample(inputs=((), (), ()), attributes={"bits": 3}, values=_RANGE),
        ),
    ),
    OpSpec(
        name="logarithmic_quantize",
        signature="fragment logarithmic_quantize( x: tensor<scalar>, max: tensor<scalar>, "
        "bits: integer ) -> ( y: tensor<scalar> )",
        section="4.9.5",
        summary="x rounded to 2 ^ bits powers of two, of which the highest reaches max.",
        infer=_rule("x", "max"),
        reference=logarithmic_quantize,
        traits=COMPOUND,
        expand=_expand_logarithmic,
        samples=(
            Sample(inputs=((2, 3, 4), ()), attributes={"bits": 2}, values={1: 3.0}),
            Sample(inputs=((2, 3, 4), ()), attributes={"bits": 5}, values={1: 8.0}),
            Sample(
                inputs=((5,), ()),
                attributes={"bits": 4},
                values={0: [0.0, 1.0, -0.25, 100.0, -1e-4], 1: 1.0},
            ),
            Sample(inputs=((2, 2), (1, 2)), attributes={"bits": 3}, values={1: [[0.5, 20.0]]}),
            Sample(inputs=((), ()), attributes={"bits": 3}, values={0: -0.75, 1: 1.0}),
        ),
    ),
    OpSpec(
        name="min_max_linear_quantize",
        signature="fragment min_max_linear_quantize( x: tensor<scalar>, min: tensor<scalar>, "
        "max: tensor<scalar>, bits: integer, signed: logical, symmetric: logical ) "
        "-> ( y: tensor<scalar> )",
        section="beyond",
        summary="linear_quantize, with one level less where codes are signed and symmetric.",
        infer=_signed_rule("x", "min", "max"),
        reference=min_max_linear_quantize,
        traits=COMPOUND,
        expand=_expand_min_max,
        samples=tuple(
            Sample(
                inputs=((2, 3, 4), (), ()),
                attributes={"bits": bits, "signed": signed, "symmetric": symmetric},
                values=_RANGE,
            )
            for bits, signed, symmetric in (
                (8, True, True),
                (3, True, False),
                (2, False, True),
                (1, False, False),
            )
        ),
    ),
    OpSpec(
        name="zero_point_linear_quantize",
        signature="fragment zero_point_linear_quantize( x: tensor<scalar>, "
        "zero_point: tensor<integer>, scale: tensor<scalar>, bits: integer, signed: logical, "
        "symmetric: logical ) -> ( y: tensor<scalar> )",
        section="beyond",
        summary="x rounded to multiples of scale whose codes, shifted by zero_point, "
        "fit into bits.",
        infer=_signed_rule("x", "zero_point", "scale"),
        reference=zero_point_linear_quantize,
        traits=COMPOUND,
        expand=_expand_zero_point,
        samples=(
            *(
                Sample(
                    inputs=((2, 3, 4), (), ()),
                    attributes={"bits": bits, "signed": signed, "symmetric": symmetric},
                    values={1: zero_point, 2: 0.25},
                )
                for bits, signed, symmetric, zero_point in (
                    (8, True, True, 0),
                    (3, True, False, -1),
                    (3, False, False, 3),
                    (2, False, True, 1),
                )
            ),
            Sample(
                inputs=((2, 3, 2), (1, 3), (1, 3)),
                attributes={"bits": 4, "signed": True, "symmetric": False},
                values={1: [[0, 1, -3]], 2: [[0.5, 0.125, 0.0]]},
            ),
        ),
    ),
)
