"""copy_n, add_n and moments: the miscellaneous operations of section 4.9.6."""

from __future__ import annotations

from functools import reduce

import numpy as np

from nnefc.ir import DType, Op, TensorType, Value
from nnefc.ops.core import batch_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import MAX_RESULTS
from nnefc.ops.core.broadcast import align, broadcast_shapes
from nnefc.ops.core.spec import Call, Emit, OpSpec, Sample
from nnefc.ops.core.traits import COMPOUND, MOVEMENT
from nnefc.ops.standard.reduce import reduced_shape


def _copy_n(call: Call) -> list[TensorType]:
    times: int = call["times"]
    call.require(
        0 <= times <= MAX_RESULTS,
        f"times must be non-negative and at most {MAX_RESULTS}: times = {times}",
    )
    call.stop_if_wrong()
    return [TensorType(call.dtype("x"), call.shape("x"))] * times


def copy_n(x: Array, *, times: int) -> list[Array]:
    """`times` copies of a tensor (4.9.6)."""
    return [x] * times


def _add_n(call: Call) -> TensorType:
    shapes = call.shapes("x")
    if not shapes:
        return TensorType(DType.FLOAT32, ())
    shape = broadcast_shapes(call, {f"x[{i}]": s for i, s in enumerate(shapes)})
    return TensorType(call.dtype("x"), shape)


def add_n(x: list[Array]) -> Array:
    """The sum of tensors, which broadcast (4.9.6); 0 without tensors."""
    return reduce(np.add, align(*x)) if x else np.asarray(0.0)


def _expand_add_n(emit: Emit, op: Op) -> Value:
    if not op.inputs:
        return emit("constant", shape=(), value=(0.0,))
    return reduce(lambda total, x: emit("add", total, x), op.inputs)


def _moments(call: Call) -> list[TensorType]:
    shape = reduced_shape(call)
    return [TensorType(call.dtype("input"), shape)] * 2


def moments(input: Array, *, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Mean and variance along axes (4.9.6)."""
    mean = np.mean(input, axis=tuple(axes), keepdims=True)
    return mean, np.mean(np.square(input - mean), axis=tuple(axes), keepdims=True)


def _expand_moments(emit: Emit, op: Op) -> tuple[Value, Value]:
    (input,) = op.inputs
    axes = op.attributes["axes"]
    mean = emit("mean_reduce", input, axes=axes)
    return mean, emit("mean_reduce", emit("sqr", emit("sub", input, mean)), axes=axes)


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="copy_n",
        signature="fragment copy_n<?>( x: tensor<?>, times: integer ) -> ( y: tensor<?>[] )",
        section="4.9.6",
        summary="The same tensor several times.",
        infer=_copy_n,
        reference=copy_n,
        traits=MOVEMENT._replace(batch=batch_rules.every, sign=None, aliased=0),
        samples=(
            Sample(inputs=((2, 3),), attributes={"times": 3}),
            Sample(inputs=((2, 3),), attributes={"times": 1}),
            Sample(inputs=((),), attributes={"times": 2}),
            Sample(inputs=((3,),), attributes={"times": 2}, values={0: [1, -2, 3]}),
            Sample(inputs=((3,),), attributes={"times": 2}, data="logical"),
        ),
    ),
    OpSpec(
        name="add_n",
        signature="fragment add_n( x: tensor<scalar>[] ) -> ( y: tensor<scalar> )",
        section="4.9.6",
        summary="The sum of tensors, 0 of none.",
        infer=_add_n,
        reference=add_n,
        traits=COMPOUND,
        integers=True,
        expand=_expand_add_n,
        samples=(
            Sample(inputs=([(2, 3), (2, 3), (2, 3)],)),
            Sample(inputs=([(2, 3)],)),
            Sample(inputs=([(), (2, 1), (1, 3)],)),
            Sample(inputs=([],)),
        ),
    ),
    OpSpec(
        name="moments",
        signature="fragment moments( input: tensor<scalar>, axes: integer[] ) "
        "-> ( mean: tensor<scalar>, variance: tensor<scalar> )",
        section="4.9.6",
        summary="Mean and variance along axes.",
        infer=_moments,
        reference=moments,
        traits=COMPOUND,
        expand=_expand_moments,
        samples=(
            Sample(inputs=((2, 3, 4),), attributes={"axes": (1,)}),
            Sample(inputs=((2, 3, 4),), attributes={"axes": (2, 0)}),
            Sample(inputs=((2, 3),), attributes={"axes": ()}),
            Sample(inputs=((5,),), attributes={"axes": (0,)}),
            Sample(inputs=((),), attributes={"axes": ()}),
            Sample(inputs=((1, 2, 1, 2, 1, 2, 1, 2),), attributes={"axes": (1, 3, 7)}),
        ),
    ),
)
