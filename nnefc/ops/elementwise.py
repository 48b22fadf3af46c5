"""Element-wise operations of two and three tensors or of any type: section 4.2, and `cast`.

Operands broadcast at dimension 0.  `max` and `min` of a NaN are NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnefc.ir import DType, TensorType
from nnefc.ops.common import Array, aligned, broadcasting, same
from nnefc.ops.spec import Call, OpSpec, Sample
from nnefc.ops.unary import spread

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
) -> OpSpec:
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
        elementwise=True,
        commutative=commutative,
        samples=tuple(Sample(inputs=pair, data=data) for pair in _PAIRS) + extra,
    )


def _copy(x: Array) -> Array:
    return x


def _cast(call: Call) -> TensorType:
    dtype = call.dtype("input")
    call.require(dtype is not DType.STRING, "input must not be a tensor of strings")
    return TensorType(dtype, call.shape("input"))


def cast(x: Array, *, dtype: DType) -> Array:
    """Convert items: to integers towards zero, saturating, NaN to 0; to logicals `x != 0`."""
    if dtype is DType.BOOL:
        return x != 0
    if dtype.is_float:
        return x.astype(np.float64)
    if x.dtype.kind != "f":
        return x.astype(np.int64)
    bounds = np.iinfo(dtype.numpy)
    whole = np.trunc(np.nan_to_num(x, nan=0.0))
    # the largest integer may not be a float: compare before converting
    low, high = whole <= float(bounds.min), whole >= float(bounds.max)
    inner = np.where(low | high, 0.0, whole).astype(np.int64)
    return np.where(low, bounds.min, np.where(high, bounds.max, inner))


_BINARY = (
    _binary("add", np.add, "Sum.", commutative=True),
    _binary("sub", np.subtract, "Difference."),
    _binary("mul", np.multiply, "Product.", commutative=True),
    _binary("div", np.divide, "Quotient.", data="positive"),
    _binary(
        "pow",
        np.power,
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
    ),
    _binary(
        "max",
        np.maximum,
        "Maximum, select(x > y, x, y); NaN if one is.",
        section="4.2.4",
        data="ties",
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
        elementwise=True,
        samples=(
            *spread("normal"),
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
        elementwise=True,
        samples=spread("logical"),
    ),
    OpSpec(
        name="select",
        signature="fragment select<?>( condition: tensor<logical>, true_value: tensor<?>, "
        "false_value: tensor<?> ) -> ( output: tensor<?> )",
        section="4.2.3",
        summary="The items of true_value where condition holds, of false_value elsewhere.",
        infer=broadcasting("condition", "true_value", "false_value"),
        reference=aligned(np.where),
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
        summary="Conversion of the item type: to integers towards zero and saturating, "
        "to logicals `x != 0`.",
        infer=_cast,
        reference=cast,
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
