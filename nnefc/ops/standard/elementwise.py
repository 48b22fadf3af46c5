"""Element-wise operations (4.2): binary ones, `copy`, `not`, `select`, and `cast` beyond 1.0.2.

Operands broadcast, aligned at dimension 0.  `max` and `min` with a NaN give NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from nnefc.ir import DType, TensorType
from nnefc.ops.core import affine_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.broadcast import aligned, broadcasting, same
from nnefc.ops.core.cost import FREE
from nnefc.ops.core.spec import Call, OpSpec, Sample
from nnefc.ops.core.traits import CHEAP_ELEMENTWISE, ELEMENTWISE, ItemTypes, Sign, Traits
from nnefc.ops.standard.unary import samples_of_ranks

_PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 3, 4), (2, 3, 4)),
    ((2, 3, 4), (1, 3)),
    ((2, 1), (2, 3, 4)),
    ((), (2, 3)),
    ((5,), ()),
    ((), ()),
    ((2, 1, 4), (1, 3, 1)),
    ((3,), (3, 4)),
    ((1, 2, 1, 2, 1, 2, 1, 2), (1, 1, 1, 2, 1, 1, 1, 2)),
)

_KEEPS_SIGN: Final = ELEMENTWISE._replace(sign=Sign.KEPT)


def _binary(
    name: str,
    function: Callable[[Array, Array], Array],
    summary: str,
    *,
    section: str = "4.2.2",
    result: DType | None = None,
    data: str = "normal",
    commutative: bool = False,
    extra: tuple[Sample, ...] = (),
    traits: Traits = ELEMENTWISE,
) -> OpSpec:
    """The entry of an element-wise operation of two tensors."""
    operand = "logical" if data == "logical" else "scalar"
    output = "scalar" if result is None else "logical"
    return OpSpec(
        name=name,
        signature=f"fragment {name}( x: tensor<{operand}>, y: tensor<{operand}> ) "
        f"-> ( z: tensor<{output}> )",
        section=section,
        summary=summary,
        infer=broadcasting("x", "y", dtype=result),
        reference=aligned(function),
        traits=traits,
        elementwise=True,
        commutative=commutative,
        integers=data != "logical",
        samples=tuple(Sample(inputs=pair, data=data) for pair in _PAIRS) + extra,
    )


def _copy(x: Array) -> Array:
    return x


def _cast(call: Call) -> TensorType:
    dtype = call.dtype("input")
    call.require(dtype is not DType.STRING, "input must not be a tensor of strings")
    return TensorType(dtype, call.shape("input"))


def cast(x: Array, *, dtype: DType) -> Array:
    """Convert items to `dtype`.

    Floats become integers by truncation and saturation, NaN becomes 0; integers keep their lowest
    bits; logicals are `x != 0`.  Results of 16-bit float types are rounded; wider floats stay in
    float64.
    """
    if dtype is DType.BOOL:
        return x != 0
    if dtype is DType.BFLOAT16:
        # NumPy rounds float64 to float32 first, and would round twice
        x = _to_odd(x.astype(np.float64))
    if dtype.is_float:
        return (x.astype(dtype.numpy) if dtype.is_half else x).astype(np.float64)
    if x.dtype.kind != "f":
        return x.astype(dtype.numpy)
    bounds = np.iinfo(dtype.numpy)
    whole = np.trunc(np.nan_to_num(x, nan=0.0))
    # the largest integer may not be a float: compare before converting
    low, high = whole <= float(bounds.min), whole >= float(bounds.max)
    inner = np.where(low | high, 0.0, whole).astype(dtype.numpy)
    return np.where(low, inner.dtype.type(bounds.min), np.where(high, bounds.max, inner))


def _to_odd(x: Array) -> Array:
    """float64 rounded to odd in float32: inexact values go to the neighbour whose last bit is 1.

    Rounding the result to fewer bits equals rounding the float64 once (Boldo & Melquiond 2008).
    """
    near = x.astype(np.float32)
    bits = near.view(np.int32)
    moved = np.isfinite(x) & (near != x) & (bits % 2 == 0)
    step = np.where(np.abs(near) < np.abs(x), 1, -1)
    return np.where(moved, bits + step, bits).astype(np.int32).view(np.float32)


def divide(x: Array, y: Array) -> Array:
    """x / y; integer quotients are truncated, and 0 where y is 0."""
    if x.dtype.kind == "f":
        return np.divide(x, y)
    divisor = np.where(y == 0, np.ones_like(y), y)
    rest = np.fmod(x, divisor)  # has the sign of x
    return np.where(y == 0, np.zeros_like(x), (x - rest) // divisor)


def power(x: Array, y: Array) -> Array:
    """x ^ y; integer powers with negative y are truncated, and 0 for x = 0."""
    if x.dtype.kind == "f":
        return np.power(x, y)
    whole = np.power(x, np.maximum(y, 0))
    sign = np.where(y % 2 == 0, x * x, x)
    return np.where(y >= 0, whole, np.where(np.abs(x) == 1, sign, 0)).astype(x.dtype)


_BINARY = (
    _binary(
        "add",
        np.add,
        "Sum.",
        commutative=True,
        traits=_KEEPS_SIGN._replace(affine=affine_rules.addition),
    ),
    _binary(
        "sub",
        np.subtract,
        "Difference.",
        traits=ELEMENTWISE._replace(affine=affine_rules.subtraction),
    ),
    _binary(
        "mul",
        np.multiply,
        "Product.",
        commutative=True,
        traits=_KEEPS_SIGN._replace(affine=affine_rules.multiplication),
    ),
    _binary(
        "div",
        divide,
        "Quotient.",
        data="positive",
        traits=_KEEPS_SIGN._replace(affine=affine_rules.division),
    ),
    _binary(
        "pow",
        power,
        "Power, x ^ y.",
        data="positive",
        extra=(
            Sample(inputs=((2, 3), ()), values={1: 3.0}),
            Sample(
                inputs=((6,), (6,)),
                values={
                    0: [-2.0, -2.0, -0.5, 0.0, 0.0, -3.0],
                    1: [2.0, -3.0, 3.0, 0.0, 2.0, 0.0],
                },
            ),
        ),
    ),
    _binary("lt", np.less, "Whether x < y.", result=DType.BOOL, data="ties"),
    _binary("gt", np.greater, "Whether x > y.", result=DType.BOOL, data="ties"),
    _binary("le", np.less_equal, "Whether x <= y.", result=DType.BOOL, data="ties"),
    _binary("ge", np.greater_equal, "Whether x >= y.", result=DType.BOOL, data="ties"),
    _binary("eq", np.equal, "Whether x == y.", result=DType.BOOL, data="ties", commutative=True),
    _binary(
        "ne", np.not_equal, "Whether x != y.", result=DType.BOOL, data="ties", commutative=True
    ),
    _binary(
        "and",
        np.logical_and,
        "Logical conjunction.",
        result=DType.BOOL,
        data="logical",
        commutative=True,
    ),
    _binary(
        "or",
        np.logical_or,
        "Logical disjunction.",
        result=DType.BOOL,
        data="logical",
        commutative=True,
    ),
    _binary(
        "min",
        np.minimum,
        "Minimum, select(x < y, x, y); NaN if one is.",
        section="4.2.4",
        data="ties",
        traits=_KEEPS_SIGN,
    ),
    _binary(
        "max",
        np.maximum,
        "Maximum, select(x > y, x, y); NaN if one is.",
        section="4.2.4",
        data="ties",
        traits=_KEEPS_SIGN,
    ),
)


def _cast_sample(values: list[float], dtype: DType) -> Sample:
    return Sample(inputs=((len(values),),), attributes={"dtype": dtype}, values={0: values})


_GENERIC = (
    OpSpec(
        name="copy",
        signature="fragment copy<?>( x: tensor<?> ) -> ( y: tensor<?> )",
        section="4.2.1",
        summary="The same tensor.",
        infer=same("x"),
        reference=_copy,
        traits=CHEAP_ELEMENTWISE._replace(cost=FREE, item_types=ItemTypes.MOVED, sign=Sign.KEPT),
        elementwise=True,
        samples=(
            *samples_of_ranks("normal"),
            Sample(inputs=((2, 3),), data="integers"),
            Sample(inputs=((2, 3),), data="logical"),
        ),
    ),
    OpSpec(
        name="not",
        signature="fragment not( x: tensor<logical> ) -> ( y: tensor<logical> )",
        section="4.2.1",
        summary="Logical negation.",
        infer=same("x"),
        reference=np.logical_not,
        traits=CHEAP_ELEMENTWISE,
        elementwise=True,
        samples=samples_of_ranks("logical"),
    ),
    OpSpec(
        name="select",
        signature="fragment select<?>( condition: tensor<logical>, true_value: tensor<?>, "
        "false_value: tensor<?> ) -> ( output: tensor<?> )",
        section="4.2.3",
        summary="The items of true_value where condition holds, of false_value elsewhere.",
        infer=broadcasting("condition", "true_value", "false_value"),
        reference=aligned(np.where),
        traits=ELEMENTWISE._replace(item_types=ItemTypes.MOVED),
        elementwise=True,
        samples=(
            Sample(inputs=((2, 3, 4), (2, 3, 4), (2, 3, 4))),
            Sample(inputs=((1, 1), (2, 3, 4), ())),
            Sample(inputs=((2, 3), (), (2, 3, 4))),
            Sample(inputs=((), (2,), (1, 3))),
            Sample(inputs=((), (), ())),
            Sample(inputs=((2, 1, 2), (1, 3), (2, 3, 2)), data="logical"),
            Sample(inputs=((2, 3), (2, 3), (1,)), data="integers"),
        ),
    ),
    OpSpec(
        name="cast",
        signature="fragment cast<?>( input: tensor<> ) -> ( output: tensor<?> )",
        section="beyond",
        summary="Conversion of the item type: floats to integers towards zero and saturating, "
        "integers to their lowest bits, any to logicals by `x != 0`.",
        infer=_cast,
        reference=cast,
        chooses_type=True,
        traits=CHEAP_ELEMENTWISE,
        elementwise=True,
        samples=(
            Sample(inputs=((2, 3),), attributes={"dtype": DType.INT32}, data="ties"),
            _cast_sample([-2.75, -0.5, 0.0, 0.5, 2.75, 1e30, -1e30], DType.INT32),
            _cast_sample([-2.75, -0.5, 0.0, 0.5], DType.BOOL),
            _cast_sample([-2.75, -0.5, 0.0, 0.5], DType.FLOAT32),
            _cast_sample([-2, 0, 3, 70000], DType.FLOAT32),
            _cast_sample([-2, 0, 3, 70000], DType.INT32),
            _cast_sample([-2, 0, 3, 70000], DType.BOOL),
            _cast_sample([True, False], DType.FLOAT32),
            _cast_sample([True, False], DType.INT32),
            Sample(inputs=((),), attributes={"dtype": DType.INT32}, values={0: -3.5}),
        ),
    ),
)

SPECS: tuple[OpSpec, ...] = (
    *_GENERIC,
    *_BINARY,
)
