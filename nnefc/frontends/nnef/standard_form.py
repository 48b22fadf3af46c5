"""Check that NNEF can express a graph: no other operations, item types or states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nnefc.frontends.nnef.operation_declarations import standard
from nnefc.frontends.nnef.refusals import Refusals
from nnefc.ir import DType, Graph, Op
from nnefc.ops.core.interface import interface
from nnefc.ops.custom import spec as custom_spec
from nnefc.ops.tools.table import declared

ITEM_TYPES: Final = frozenset((DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64, DType.BOOL))
"""Item types of `scalar`, `integer` and `logical`."""


def require_standard_form(graph: Graph) -> None:
    """Raise NnefError `flatten/...` for everything that NNEF cannot express, each kind once.

    Messages count the operations of a kind, if there are several.
    """
    refused = Refusals()
    for name in graph.state_shapes:
        message = f"state '{name}' cannot be written in NNEF, which has no states of operators"
        refused.add("flatten/state", message)
    for value in graph.inputs:
        if value.type.dtype not in ITEM_TYPES:
            message = f"input '{value.name}' has items of {value.type.dtype}, no item type of NNEF"
            refused.add("flatten/type", message)
    for op in graph.ops:
        for rule, reason in _problems(graph, op):
            refused.add(rule, reason, op)
    refused.require_none()


def _problems(graph: Graph, op: Op) -> Iterator[tuple[str, str]]:
    known = standard(op.name) is not None or custom_spec(op.name) is not None
    if not known and op.name not in graph.declarations:
        yield "flatten/operation", f"'{op.name}' cannot be written in NNEF"
        return
    for dtype in dict.fromkeys(value.type.dtype for value in op.outputs):
        if dtype not in ITEM_TYPES:
            yield "flatten/type", f"'{op.name}' returns items of {dtype}, no item type of NNEF"
    spec = declared().get(op.name)
    if spec is not None and spec.integers:
        scalars = [p.dtype == "scalar" for p in interface(spec).tensors]
        scalars += [True] * (len(op.inputs) - len(scalars))
        if any(s and x.type.dtype.is_integer for s, x in zip(scalars, op.inputs)):
            yield "flatten/type", f"'{op.name}' has integer operands, in NNEF only scalars"
