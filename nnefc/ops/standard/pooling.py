"""Pooling operations (4.9.3)."""

from __future__ import annotations

from typing import Any

from nnefc.ir import DType, Op, TensorType
from nnefc.ops.core import cost
from nnefc.ops.core.spec import Call, Emit, OpSpec
from nnefc.ops.core.traits import COMPOUND, POOLING, WINDOW
from nnefc.ops.core.window_arithmetic import BORDERS
from nnefc.ops.core.window_reference import avg_pool, max_pool, max_pool_with_index, rms_pool
from nnefc.ops.standard.window_samples import windows
from nnefc.ops.standard.window_shape_rules import check_pooling

_PARAMETERS = """(
            input: tensor<scalar>,
            size: integer[],
            border: string = 'constant',
            padding: (integer,integer)[] = [],
            stride: integer[] = [],
            dilation: integer[] = [] )"""


def _pool(call: Call) -> TensorType:
    return TensorType(call.dtype("input"), check_pooling(call, BORDERS).output)


def _max_pool_with_index(call: Call) -> tuple[TensorType, TensorType]:
    output = _pool(call)
    return output, output.with_dtype(DType.INT32)


def _expand_avg_pool(emit: Emit, op: Op) -> Any:
    return emit("box", op.inputs[0], normalize=True, **op.attributes)


def _expand_rms_pool(emit: Emit, op: Op) -> Any:
    squares = emit("sqr", op.inputs[0])
    return emit("sqrt", emit("box", squares, normalize=True, **op.attributes))


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="max_pool_with_index",
        signature=f"""
        fragment max_pool_with_index{_PARAMETERS}
        -> ( output: tensor<scalar>, index: tensor<integer> )""",
        section="4.9.3",
        summary="Maximum in a local window, and its position there.",
        infer=_max_pool_with_index,
        reference=max_pool_with_index,
        traits=WINDOW,
        lenient_border=True,  # the text defines it by `sample`, for which it does not allow it
        samples=windows(data="ties"),
    ),
    OpSpec(
        name="max_pool",
        signature=f"""
        fragment max_pool{_PARAMETERS}
        -> ( output: tensor<scalar> )""",
        section="4.9.3",
        summary="Maximum in a local window.",
        infer=_pool,
        reference=max_pool,
        traits=POOLING,
        integers=True,
        lenient_border=True,
        samples=windows(),
    ),
    OpSpec(
        name="avg_pool",
        signature=f"""
        fragment avg_pool{_PARAMETERS}
        -> ( output: tensor<scalar> )""",
        section="4.9.3",
        summary="Average in a local window.",
        infer=_pool,
        reference=avg_pool,
        traits=COMPOUND._replace(cost=cost.WINDOW),
        expand=_expand_avg_pool,
        samples=windows(),
    ),
    OpSpec(
        name="rms_pool",
        signature=f"""
        fragment rms_pool{_PARAMETERS}
        -> ( output: tensor<scalar> )""",
        section="4.9.3",
        summary="Root mean square in a local window.",
        infer=_pool,
        reference=rms_pool,
        traits=COMPOUND,
        expand=_expand_rms_pool,
        samples=windows(),
    ),
)
