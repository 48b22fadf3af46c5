"""What models that came from ONNX need, and how many items there are of it only a run tells."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank_at_least, take_room
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.tract.registry import operator, refuse
from nnefc.frontends.tract.resources import json_value
from nnefc.ir import DType, Value


@operator("tract_onnx")
def tract_onnx_non_zero(make: OpBuilder, input: Operand, count_symbol: str = "") -> Any:
    """Indices [rank, n] of the items that are not zero, in their order.

    There is room for all items; how many columns are meant is counted by the model.
    """
    del count_symbol
    dims = of_rank_at_least("non_zero", "input", input, 1)
    volume = math.prod(dims)
    take_room(make.budget, volume)
    if isinstance(input, KnownTensor):
        found = np.stack(np.nonzero(input.array)).astype(np.int64)
        return KnownTensor(found.reshape(len(dims), -1), DType.INT64)
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


def nonzero_first(make: OpBuilder, flags: Operand) -> tuple[Operand, Operand]:
    """Places of the flags [n] that are set, in order, and behind them those of the others; how many
    are set.
    """
    (volume,) = flags.type.dims
    places = KnownTensor(np.arange(volume, dtype=np.int64), DType.INT64)
    behind = KnownTensor(places.array + volume, DType.INT64)
    keys, _ = make("topk", make("select", flags, places, behind), k=volume, axis=0, largest=False)
    where = make("select", make("lt", keys, volume), keys, make("sub", keys, volume))
    count = make("sum_reduce", make.cast(flags, DType.INT64), axes=(0,))
    return where, make.reshape(count, ())


# -- resources


_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


@operator("tract_resource")
def tract_resource_get(make: OpBuilder, label: str, key: str = "") -> Any:
    """A value of a JSON file beside the document; `a.b[0]` is where in it."""
    found = json_value(make.evaluator.context.model.container, label)
    for name, index in _STEP.findall(key):
        try:
            found = found[int(index)] if index else found[name]
        except (KeyError, IndexError, TypeError):
            raise OperatorError("tract/resource", f"{label}.json has no '{key}'") from None
    return _value(found, label)


def _value(found: Any, label: str) -> Any:
    if isinstance(found, bool | int | float | str):
        return found
    if isinstance(found, list):
        items: list[Any] = found  # pyright: ignore[reportUnknownVariableType]
        return tuple(_value(item, label) for item in items)
    raise OperatorError(
        "tract/resource", f"what is meant in {label}.json is no number, string or array"
    )


# -- what there cannot be


for _name in ("load", "store", "force_eval", "vptq_gemm"):
    refuse(f"tract_core_{_name}", "tract has no such operator any more")
