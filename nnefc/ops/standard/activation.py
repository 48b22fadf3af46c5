"""Clamping (4.2.4), activations and softmax (4.9.1), and activations beyond NNEF 1.0.2.

`unary` has the activations that are element-wise operations of their own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnefc.ir import Op, TensorType, Value
from nnefc.ops.core import batch_rules, permute_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.axes import axes_attribute, axes_within
from nnefc.ops.core.broadcast import align, broadcasting, same
from nnefc.ops.core.cost import Cost, input_items
from nnefc.ops.core.spec import Call, Emit, Expand, OpSpec, Sample
from nnefc.ops.core.traits import COMPOUND, OPAQUE, Sign
from nnefc.ops.standard.unary import sigmoid

# -- clamp, prelu, leaky_relu


def clamp(x: Array, a: Array, b: Array) -> Array:
    """max(min(x, b), a) (4.2.4): a where a > b, NaN where any of the three is NaN."""
    x, a, b = align(x, a, b)
    return np.maximum(np.minimum(x, b), a)


def _expand_clamp(emit: Emit, op: Op) -> Value:
    x, a, b = op.inputs
    return emit("max", emit("min", x, b), a)


def prelu(x: Array, alpha: Array) -> Array:
    """x, but alpha * x where x is negative (4.9.1)."""
    x, alpha = align(x, alpha)
    return np.where(x < 0.0, alpha * x, x)


def _expand_prelu(emit: Emit, op: Op) -> Value:
    x, alpha = op.inputs
    return emit("select", emit("lt", x, 0.0), emit("mul", alpha, x), x)


def leaky_relu(x: Array, *, alpha: float) -> Array:
    """`prelu` with a constant slope (4.9.1)."""
    return prelu(x, np.asarray(alpha))


def _expand_leaky_relu(emit: Emit, op: Op) -> Value:
    return emit("prelu", op.inputs[0], op.attributes["alpha"])


# -- exponential units


def elu(x: Array, *, alpha: float = 1.0) -> Array:
    """x, but alpha * (exp(x) - 1) where x is negative (4.9.1; `alpha` is beyond 1.0.2)."""
    return np.where(x < 0.0, alpha * np.expm1(np.minimum(x, 0.0)), x)


def _expand_elu(emit: Emit, op: Op) -> Value:
    (x,) = op.inputs
    return _exponential(emit, x, op.attributes["alpha"])


def _exponential(emit: Emit, x: Value, alpha: float) -> Value:
    """The operations of `elu`."""
    below = emit("sub", emit("exp", x), 1.0)
    if alpha != 1.0:
        below = emit("mul", below, alpha)
    return emit("select", emit("lt", x, 0.0), below, x)


def selu(x: Array, *, alpha: float = 1.67326319, **scale: float) -> Array:
    """`elu` times the attribute `lambda`, which is a keyword of Python and thus in `scale`."""
    return scale.get("lambda", 1.05070102) * elu(x, alpha=alpha)


def _expand_selu(emit: Emit, op: Op) -> Value:
    (x,) = op.inputs
    return emit("mul", _exponential(emit, x, op.attributes["alpha"]), op.attributes["lambda"])


# -- x * sigmoid


def gelu(x: Array) -> Array:
    """x * sigmoid(1.702 * x), the definition of Khronos' tools, not that by the error function."""
    return x * sigmoid(1.702 * x)


def _expand_gelu(emit: Emit, op: Op) -> Value:
    (x,) = op.inputs
    return emit("mul", x, emit("sigmoid", emit("mul", x, 1.702)))


def silu(x: Array) -> Array:
    """x * sigmoid(x)."""
    return x * sigmoid(x)


def _expand_silu(emit: Emit, op: Op) -> Value:
    (x,) = op.inputs
    return emit("mul", x, emit("sigmoid", x))


def softabs(x: Array, *, epsilon: float) -> Array:
    """sqrt(x ^ 2 + epsilon)."""
    return np.sqrt(x * x + epsilon)


def _expand_softabs(emit: Emit, op: Op) -> Value:
    (x,) = op.inputs
    return emit("sqrt", emit("add", emit("sqr", x), op.attributes["epsilon"]))


# -- softmax


def _softmax(call: Call) -> TensorType:
    axes = axes_attribute(call)
    shape = call.shape("x")
    axes_within(call, axes, len(shape), "x")
    return TensorType(call.dtype("x"), shape)


def softmax(x: Array, *, axes: tuple[int, ...] = (1,)) -> Array:
    """exp(x) over its sum along `axes` (4.9.1); x - max(x) avoids overflow."""
    e = np.exp(x - np.max(x, axis=tuple(axes), keepdims=True))
    return e / np.sum(e, axis=tuple(axes), keepdims=True)


def _operations(op: Op) -> int:
    """Five operations per item: maximum, difference, exponential, sum and quotient."""
    return 5 * input_items(op)


# -- table

_ITEMS = (-1e4, -20.0, -1.0, -0.0625, 0.0, 0.0625, 1.0, 20.0, 1e4)


def _activation(
    name: str,
    parameters: str,
    reference: Callable[..., Array],
    expand: Expand,
    summary: str,
    *,
    section: str,
    beyond: tuple[str, ...] = (),
    attributes: tuple[dict[str, float], ...] = ({},),
) -> OpSpec:
    """The entry of an activation: an item-wise operation of one tensor and attributes."""
    samples = [Sample(inputs=((len(_ITEMS),),), values={0: _ITEMS}, attributes=attributes[0])]
    for shape in ((), (2, 3, 4), (1, 2, 1, 2, 1, 2, 1, 2)):
        samples += [Sample(inputs=(shape,), attributes=a) for a in attributes]
    return OpSpec(
        name=name,
        signature=f"fragment {name}( x: tensor<scalar>{parameters} ) -> ( y: tensor<scalar> )",
        section=section,
        beyond=beyond,
        summary=summary,
        infer=same("x"),
        reference=reference,
        traits=COMPOUND,
        expand=expand,
        samples=tuple(samples),
    )


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="clamp",
        signature="fragment clamp( x: tensor<scalar>, a: tensor<scalar>, b: tensor<scalar> ) "
        "-> ( y: tensor<scalar> )",
        section="4.2.4",
        summary="x limited to [a, b], max(min(x, b), a).",
        infer=broadcasting("x", "a", "b"),
        reference=clamp,
        traits=COMPOUND,
        integers=True,
        expand=_expand_clamp,
        samples=(
            Sample(inputs=((2, 3, 4), (), ()), values={1: -1.0, 2: 1.0}),
            Sample(inputs=((2, 3, 4), (), ()), values={1: 1.0, 2: -1.0}),
            Sample(inputs=((2, 3, 4), (1, 3), (2,)), data="ties"),
            Sample(inputs=((), (), ()), values={1: 0.0, 2: 6.0}),
            Sample(inputs=((1,), (2, 3), (2, 1, 2)), data="ties"),
        ),
    ),
    OpSpec(
        name="prelu",
        signature="fragment prelu( x: tensor<scalar>, alpha: tensor<scalar> ) "
        "-> ( y: tensor<scalar> )",
        section="4.9.1",
        summary="x, but alpha * x where x is negative.",
        infer=broadcasting("x", "alpha"),
        reference=prelu,
        traits=COMPOUND,
        expand=_expand_prelu,
        samples=(
            Sample(inputs=((2, 3, 4), (1, 3))),
            Sample(inputs=((2, 3, 4), ()), data="ties"),
            Sample(inputs=((2, 3, 4), (2, 3, 4))),
            Sample(inputs=((), ())),
            Sample(inputs=((1,), (2, 3))),
        ),
    ),
    _activation(
        "leaky_relu",
        ", alpha: scalar",
        leaky_relu,
        _expand_leaky_relu,
        "x, but alpha * x where x is negative; alpha is the same for all.",
        section="4.9.1",
        attributes=({"alpha": 0.25}, {"alpha": -0.5}),
    ),
    _activation(
        "elu",
        ", alpha: scalar = 1.0",
        elu,
        _expand_elu,
        "x, but alpha * (exp(x) - 1) where x is negative (alpha is beyond 1.0.2).",
        section="4.9.1",
        beyond=("alpha",),
        attributes=({}, {"alpha": 0.5}),
    ),
    _activation(
        "selu",
        ", alpha: scalar = 1.67326319, lambda: scalar = 1.05070102",
        selu,
        _expand_selu,
        "lambda times the elu with alpha.",
        section="beyond",
        attributes=({}, {"alpha": 0.5, "lambda": 2.0}),
    ),
    _activation(
        "gelu",
        "",
        gelu,
        _expand_gelu,
        "x * sigmoid(1.702 * x), not the form with the error function.",
        section="beyond",
    ),
    _activation("silu", "", silu, _expand_silu, "x * sigmoid(x).", section="beyond"),
    _activation(
        "softabs",
        ", epsilon: scalar",
        softabs,
        _expand_softabs,
        "Smooth absolute value, sqrt(x ^ 2 + epsilon).",
        section="beyond",
        attributes=({"epsilon": 0.125}, {"epsilon": 0.0}),
    ),
    OpSpec(
        name="softmax",
        signature="fragment softmax( x: tensor<scalar>, axes: integer[] = [1] ) "
        "-> ( y: tensor<scalar> )",
        section="4.9.1",
        summary="Exponentials divided by their sum along axes.",
        infer=_softmax,
        reference=softmax,
        traits=OPAQUE._replace(
            cost=Cost(None, _operations),
            batch=batch_rules.axes,
            sign=Sign.NONNEGATIVE,
            permuted=permute_rules.axes,
        ),
        samples=(
            Sample(inputs=((2, 5),)),
            Sample(inputs=((2, 3, 2, 2),)),
            Sample(inputs=((3, 2, 2),), attributes={"axes": (0,)}),
            Sample(inputs=((2, 3, 4),), attributes={"axes": (2,)}),
            Sample(inputs=((1, 2, 3, 3),), attributes={"axes": (3, 2)}),
            Sample(inputs=((2, 3, 4),), attributes={"axes": (0, 2)}),
            Sample(inputs=((2, 3),), attributes={"axes": ()}),
            Sample(inputs=((),), attributes={"axes": ()}),
            Sample(inputs=((4,),), attributes={"axes": (0,)}),
            Sample(inputs=((1, 4),), values={0: [[1e4, -1e4, 1e4, 0.0]]}),
            Sample(inputs=((1, 3),), values={0: [[-1e4, -1e4, -10001.0]]}),
            Sample(inputs=((1, 3, 1, 2, 1, 2, 1, 2),), attributes={"axes": (1, 5)}),
        ),
    ),
)
