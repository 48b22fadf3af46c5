"""Element-wise operations that NNEF lacks: those of tract's registries, and `bitcast`.

Operands broadcast, aligned at dimension 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nnefc.ir import DType, Op, TensorType, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.broadcast import aligned, broadcasting, same
from nnefc.ops.core.spec import Call, Emit, InferRule, OpSpec, Sample
from nnefc.ops.core.traits import CHEAP_ELEMENTWISE, COMPOUND, ELEMENTWISE
from nnefc.ops.standard.unary import samples_of_ranks

_PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 3, 4), (2, 3, 4)),
    ((2, 1), (2, 3, 4)),
    ((3,), (3, 4)),
    ((), (5,)),
    ((5,), ()),
)
_HALVES = (0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.0, 0.25, -0.75, 8388609.0, -1e10)
_WILD = (0.0, -0.0, 1.0, -2.5, math.inf, -math.inf, math.nan, 3e38)

# -- operations of scalars

_erf_of = np.frompyfunc(math.erf, 1, 1)


def erf(x: Array) -> Array:
    """The error function."""
    return np.asarray(_erf_of(x), np.float64)


def _scalar(
    name: str, reference: Callable[..., Array], summary: str, extra: tuple[float, ...]
) -> OpSpec:
    """The entry of an element-wise operation of one scalar tensor."""
    return OpSpec(
        name=name,
        signature=f"fragment {name}( x: tensor<scalar> ) -> ( y: tensor<scalar> )",
        section="tract",
        summary=summary,
        infer=same("x"),
        reference=reference,
        traits=ELEMENTWISE,
        elementwise=True,
        samples=(
            *samples_of_ranks("ties"),
            Sample(inputs=((len(extra),),), values={0: list(extra)}),
        ),
    )


def _logical(call: Call) -> TensorType:
    return TensorType(DType.BOOL, call.shape("x"))


def is_nan(x: Array) -> Array:
    """Whether x is not a number."""
    return np.isnan(x)


def _expand_is_nan(emit: Emit, op: Op) -> Value:
    (x,) = op.inputs
    return emit("ne", x, x)


def is_inf(x: Array, *, detect_positive: bool = True, detect_negative: bool = True) -> Array:
    """Whether x is an infinity of a sign that is to be detected."""
    return (np.isposinf(x) & detect_positive) | (np.isneginf(x) & detect_negative)


def _expand_is_inf(emit: Emit, op: Op) -> Value:
    (x,) = op.inputs
    positive, negative = op.attributes["detect_positive"], op.attributes["detect_negative"]
    if positive and negative:
        return emit("eq", emit("abs", x), math.inf)
    if positive or negative:
        return emit("eq", x, math.inf if positive else -math.inf)
    return emit("gt", x, math.inf)


# -- operations of integers and logicals


def _integral(rule: InferRule, operand: str, *, logical: bool) -> InferRule:
    """`rule`, for operands that must be integers or, if `logical`, logicals."""

    def infer(call: Call) -> TensorType | Any:
        dtype = call.dtype(operand)
        kinds = "integers or logicals" if logical else "integers"
        allowed = dtype.is_integer or (logical and dtype is DType.BOOL)
        call.require(allowed, f"operands must be {kinds}: {operand} is a tensor of {dtype}")
        return rule(call)

    return infer


def _shifted(shift: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """The reference of a shift; counts are reduced to 0..63."""

    def reference(x: Array, y: Array) -> Array:
        return shift(x, y & 63)

    return aligned(reference)


def _integral_pair(
    name: str,
    reference: Callable[..., Array],
    summary: str,
    *,
    counts: bool = False,
) -> OpSpec:
    """The entry of an operation of two integers or, unless y is a count (`counts`), logicals."""
    samples = [Sample(inputs=pair, data="integers") for pair in _PAIRS]
    if counts:
        samples = [
            Sample(inputs=((4,), (4,)), values={0: [1, -1, 77, -1000], 1: [0, 3, 5, 4]}),
            Sample(inputs=((2, 3), ()), values={0: [[1, 2, 3], [-4, -5, 9]], 1: 2}),
            Sample(inputs=((2,), (2, 2)), values={0: [5, -5], 1: [[0, 1], [2, 3]]}),
        ]
    else:
        samples.append(Sample(inputs=((2, 3), (2, 3)), data="logical"))
    return OpSpec(
        name=name,
        signature=f"fragment {name}<?>( x: tensor<?>, y: tensor<?> ) -> ( z: tensor<?> )",
        section="tract",
        summary=summary,
        infer=_integral(broadcasting("x", "y"), "x", logical=not counts),
        reference=reference,
        traits=ELEMENTWISE,
        elementwise=True,
        commutative=not counts,
        samples=tuple(samples),
    )


def bitcast(x: Array, *, dtype: DType) -> Array:
    """The bits of the items as items of `dtype`, which has the same width."""
    width = 8 * dtype.itemsize
    stored = x.astype(f"float{width}" if x.dtype.kind == "f" else f"int{width}")
    y = stored.view(dtype.numpy)
    return y.astype(np.float64) if dtype.is_float else y


def _bits(call: Call) -> TensorType:
    dtype = call.dtype("x")
    is_number = dtype.is_float or dtype.is_integer
    call.require(
        is_number and dtype.itemsize in (4, 8),
        f"items must be numbers of 32 or 64 bits: x is a tensor of {dtype}",
    )
    return TensorType(dtype, call.shape("x"))


def _bitcast_sample(values: list[float], dtype: DType) -> Sample:
    return Sample(inputs=((len(values),),), attributes={"dtype": dtype}, values={0: values})


def _remainder(call: Call) -> TensorType:
    dtype = call.dtype("x")
    call.require(
        dtype.is_integer or dtype.is_float,
        f"operands must be scalars or integers: x is a tensor of {dtype}",
    )
    return broadcasting("x", "y")(call)


SPECS: tuple[OpSpec, ...] = (
    _scalar("erf", erf, "Error function.", (-4.0, -1e-6, 0.5, 3.875, 1e4)),
    _scalar("round_even", np.rint, "Nearest whole number, halves to the even of the two.", _HALVES),
    OpSpec(
        name="is_nan",
        signature="fragment is_nan( x: tensor<scalar> ) -> ( y: tensor<logical> )",
        section="tract",
        summary="Whether x is not a number.",
        infer=_logical,
        reference=is_nan,
        traits=COMPOUND,
        expand=_expand_is_nan,
        samples=(
            *samples_of_ranks("normal"),
            Sample(inputs=((len(_WILD),),), values={0: list(_WILD)}),
        ),
    ),
    OpSpec(
        name="is_inf",
        signature="fragment is_inf( x: tensor<scalar>, detect_positive: logical = true, "
        "detect_negative: logical = true ) -> ( y: tensor<logical> )",
        section="tract",
        summary="Whether x is an infinity of a sign that is to be detected.",
        infer=_logical,
        reference=is_inf,
        traits=COMPOUND,
        expand=_expand_is_inf,
        samples=tuple(
            Sample(
                inputs=((len(_WILD),),),
                attributes={"detect_positive": positive, "detect_negative": negative},
                values={0: list(_WILD)},
            )
            for positive in (True, False)
            for negative in (True, False)
        ),
    ),
    OpSpec(
        name="remainder",
        signature="fragment remainder<?>( x: tensor<?>, y: tensor<?> ) -> ( z: tensor<?> )",
        section="tract",
        summary="Remainder of x / y rounded towards zero, with the sign of x.",
        infer=_remainder,
        reference=aligned(np.fmod),
        traits=ELEMENTWISE,
        elementwise=True,
        samples=(
            Sample(inputs=((2, 3), (2, 3)), data="positive"),
            Sample(inputs=((3,), (3, 4)), data="positive"),
            Sample(
                inputs=((6,), (6,)),
                values={0: [7.5, -7.5, 7.5, -7.5, 1e30, 0.0], 1: [2.0, 2.0, -2.0, -2.0, 7.0, 3.0]},
            ),
            Sample(inputs=((5,), ()), values={0: [7, -7, 6, 0, 5], 1: 3}),
            Sample(inputs=((4,), (4,)), values={0: [7, -7, 7, 7], 1: [-3, -3, -1, 7]}),
        ),
    ),
    OpSpec(
        name="bitcast",
        signature="fragment bitcast<?>( x: tensor<> ) -> ( y: tensor<?> )",
        section="tract",
        summary="The bits of the items as items of another type of the same width, 32 or 64 bits.",
        infer=_bits,
        reference=bitcast,
        chooses_type=True,
        traits=CHEAP_ELEMENTWISE,
        elementwise=True,
        samples=(
            Sample(inputs=((2, 3),), attributes={"dtype": DType.INT32}, data="normal"),
            _bitcast_sample([*_WILD, 1e-40, -1e-45], DType.INT32),
            _bitcast_sample([0, 1, -1, 0x3F800000, -(1 << 31)], DType.FLOAT32),
            Sample(inputs=((),), attributes={"dtype": DType.INT32}, values={0: -3.5}),
        ),
    ),
    OpSpec(
        name="xor",
        signature="fragment xor( x: tensor<logical>, y: tensor<logical> ) "
        "-> ( z: tensor<logical> )",
        section="tract",
        summary="Whether exactly one of two logicals is true.",
        infer=broadcasting("x", "y"),
        reference=aligned(np.logical_xor),
        traits=ELEMENTWISE,
        elementwise=True,
        commutative=True,
        samples=tuple(Sample(inputs=pair, data="logical") for pair in _PAIRS),
    ),
    _integral_pair("bitand", aligned(np.bitwise_and), "Bitwise conjunction."),
    _integral_pair("bitor", aligned(np.bitwise_or), "Bitwise disjunction."),
    _integral_pair("bitxor", aligned(np.bitwise_xor), "Bitwise exclusive disjunction."),
    OpSpec(
        name="bitnot",
        signature="fragment bitnot<?>( x: tensor<?> ) -> ( y: tensor<?> )",
        section="tract",
        summary="Bitwise negation.",
        infer=_integral(same("x"), "x", logical=True),
        reference=np.invert,
        traits=ELEMENTWISE,
        elementwise=True,
        samples=(*samples_of_ranks("integers"), Sample(inputs=((2, 3),), data="logical")),
    ),
    _integral_pair(
        "shift_left",
        _shifted(np.left_shift),
        "Left shift by y, which must be less than the number of bits.",
        counts=True,
    ),
    _integral_pair(
        "shift_right",
        _shifted(np.right_shift),
        "Arithmetic right shift by y, which must be less than the number of bits.",
        counts=True,
    ),
)
