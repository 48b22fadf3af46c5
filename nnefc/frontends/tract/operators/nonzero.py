"""Positions of non-zero items, values of JSON resources, and operators that tract has removed."""

from __future__ import annotations

import re
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank_at_least
from nnefc.frontends.common.operators.nonzero import nonzero_positions
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tract.registry import operator, refuse
from nnefc.frontends.tract.resources import json_value


@operator("tract_onnx")
def tract_onnx_non_zero(make: OpBuilder, input: Operand, count_symbol: str = "") -> Any:
    """Indices [rank, n] of the items that are not zero, in row-major order.

    The result has room for all items; the graph counts the valid columns.
    """
    del count_symbol
    of_rank_at_least("non_zero", "input", input, 1)
    return nonzero_positions(make, input)


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
