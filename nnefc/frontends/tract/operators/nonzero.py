"""Positions of non-zero items, values of JSON resources, and operators that tract has removed."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank_at_least, take_room
from nnefc.frontends.common.operators.nonzero import nonzero_first
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.tract.registry import operator, refuse
from nnefc.frontends.tract.resources import json_value
from nnefc.ir import DType, Value


@operator("tract_onnx")
def tract_onnx_non_zero(make: OpBuilder, input: Operand, count_symbol: str = "") -> Any:
    """Indices [rank, n] of the items that are not zero, in row-major order.

    The result has room for all items; the graph counts the valid columns.
    """
    del count_symbol
    dims = of_rank_at_least("non_zero", "input", input, 1)
    volume = math.prod(dims)
    take_room(make.budget, volume)
    if isinstance(input, KnownTensor):
        indices = np.stack(np.nonzero(input.array)).astype(np.int64)
        return KnownTensor(indices.reshape(len(dims), -1), DType.INT64)
    flat = make.reshape(input, (volume,))
    is_set = flat if flat.type.dtype is DType.BOOL else make("ne", flat, 0)
    where, count = nonzero_first(make, is_set)
    rows: list[Any] = []
    for axis in range(len(dims)):
        step = math.prod(dims[axis + 1 :])
        index = make("remainder", make("div", where, step), dims[axis])
        rows.append(make.reshape(index, (1, volume)))
    result = make("concat", rows, axis=0) if len(rows) > 1 else rows[0]
    assert isinstance(result, Value)
    make.counted[result] = 1, make.value(count)
    return result


# -- resources


_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


@operator("tract_resource")
def tract_resource_get(make: OpBuilder, label: str, key: str = "") -> Any:
    """A value in the JSON file `label`.json, at a path such as `a.b[0]`."""
    value = json_value(make.evaluator.context.model.container, label)
    for name, index in _STEP.findall(key):
        try:
            value = value[int(index)] if index else value[name]
        except (KeyError, IndexError, TypeError):
            raise OperatorError("tract/resource", f"{label}.json has no '{key}'") from None
    return _attribute(value, label, key)


def _attribute(value: Any, label: str, key: str) -> Any:
    """A JSON value as an attribute; raises OperatorError for an object or null."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return tuple(_attribute(item, label, key) for item in items)
    where = f"'{key}' in {label}.json" if key else f"{label}.json"
    raise OperatorError("tract/resource", f"{where} is not a number, string or array")


# -- removed operators


for _name in ("load", "store", "force_eval", "vptq_gemm"):
    refuse(f"tract_core_{_name}", "tract has removed this operator")
