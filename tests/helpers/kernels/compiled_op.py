"""Compiles and runs single operations, for kernel tests."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (arrays of any type)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnefc.ir import DType, Expression, Graph, Op, Step, TensorType
from nnefc.lower import lower
from nnefc.runtime.run.compiled_model import CompiledModel

Array = np.ndarray[Any, Any]


def graph_of(
    name: str,
    inputs: Sequence[Array],
    results: Sequence[TensorType],
    attributes: dict[str, Any] | None = None,
) -> Graph:
    """The graph of one operation over inputs of the shapes and types of the arrays given."""
    graph = Graph("one")
    values = [
        graph.add_input(TensorType(DType(x.dtype.name), x.shape), f"x{i}")
        for i, x in enumerate(inputs)
    ]
    names = [f"y{i}" for i in range(len(results))]
    op = graph.insert(Op(name, values, attributes or {}, results, names))
    for value in op.outputs:
        graph.add_output(value)
    return graph


def compute(
    name: str,
    inputs: Sequence[Array],
    results: Sequence[TensorType],
    attributes: dict[str, Any] | None = None,
    threads: int = 1,
) -> tuple[Array, ...]:
    """The results of the compiled operation."""
    graph = graph_of(name, inputs, results, attributes)
    got = CompiledModel.of(lower(graph), graph, threads=threads)(*inputs)
    return got if isinstance(got, tuple) else (got,)


def elementwise(name: str, *inputs: Array, dtype: str | None = None) -> Array:
    """One element-wise operation over arrays of one shape; `dtype` of the result."""
    type_ = TensorType(DType(dtype or inputs[0].dtype.name), inputs[0].shape)
    return compute(name, inputs, [type_])[0]


def evaluate(steps: Sequence[Step], results: Sequence[int], *inputs: Array) -> tuple[Array, ...]:
    """A fused expression, broadcast as NNEF does: aligned at dimension 0."""
    types = tuple(DType(x.dtype.name) for x in inputs)
    kinds = [*types, *(step.dtype for step in steps)]
    rank = max(x.ndim for x in inputs)
    shape = np.broadcast_shapes(*(x.shape + (1,) * (rank - x.ndim) for x in inputs))
    expression = Expression(types, tuple(steps), tuple(results))
    outputs = [TensorType(kinds[r], shape) for r in results]
    return compute("fused", inputs, outputs, {"expression": expression})
