"""Rewrite a graph into the operations and literals that NNEF 1.0.2 has, where it is possible."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np

from nnefc.emit.convert.block_weights import unpack_blocks
from nnefc.ir import DType, Graph, Op
from nnefc.ir.graph import Variable
from nnefc.ops.core.interface import interface
from nnefc.ops.tools.table import declared
from nnefc.passes.canonicalise.expand_compounds import ExpandCompounds
from nnefc.passes.cleanup.eliminate_dead_code import EliminateDeadCode
from nnefc.passes.loops.simplify_ifs import inline_branches
from nnefc.passes.op_queries import replace
from nnefc.support.errors import Diagnostic, NnefError
from nnefc.support.names import plain_label

MAX_LITERAL_ITEMS: Final = 16
"""Constants of integers or booleans with more items are stored in tensor files."""


def with_standard_operations(graph: Graph) -> Graph:
    """A copy of a graph in which operations that NNEF 1.0.2 lacks are composed of its operations.

    Operations without such a composition stay.  Unused operations are dropped.
    """
    copy = without_dead_code(graph)
    ExpandCompounds(only=lambda op: beyond_standard(op) is not None).run(copy)
    EliminateDeadCode().run(copy)
    for op in copy.ops:
        if _ignores_border(op) and _has_no_padding(op):
            op.attributes["border"] = "constant"
    return copy


def without_dead_code(
    graph: Graph, *, keeps_branches: bool = False, blocks: Collection[str] = ()
) -> Graph:
    """A copy of a graph without unused operations and variables, packed weights and branches.

    Unless it `keeps_branches`, both branches of an `if` run in the copy, and a `select` chooses
    between their results.  `blocks`: formats of packed weights that stay, see `unpack_blocks`.
    """
    copy = graph.clone()
    if not keeps_branches:
        inline_branches(copy)
    unpack_blocks(copy, blocks)
    EliminateDeadCode().run(copy)
    used = {op.attributes["label"].lower() for op in copy.ops if op.name == "variable"}
    copy.variables = {key: copy.variables[key] for key in copy.variables if key in used}
    return copy


def beyond_standard(op: Op) -> str | None:
    """What NNEF 1.0.2 lacks of an operation: its name, or an attribute; None if nothing.

    It lacks border = 'ignore' of max_pool, too, which real files use.
    """
    spec = declared().get(op.name)
    if spec is None:
        return None  # custom operations are declared, internal ones refused
    if spec.section in ("beyond", "tract"):
        return op.name
    defaults = interface(spec).defaults
    for name in spec.beyond:
        if op.attributes[name] != defaults.get(name):
            return f"{op.name}({name})"
    return f"{op.name}(border = 'ignore')" if _ignores_border(op) else None


def _ignores_border(op: Op) -> bool:
    """Whether an operation ignores its border, which the text does not allow it."""
    spec = declared().get(op.name)
    return spec is not None and spec.lenient_border and op.attributes["border"] == "ignore"


def _has_no_padding(op: Op) -> bool:
    padding = op.attributes["padding"]
    return bool(padding) and not any(map(any, padding))


def store_arrays(graph: Graph) -> None:
    """Turn constants into variables of `graph`: arrays, and numbers without a literal (infinity).

    Short arrays of integers and booleans, and other numbers, stay constants, with Python numbers
    as items.  A float32 becomes the equal float64, whose digits give the same results also where
    the compiler computes with constants in float64.
    Their labels are their names, or `constant_1`, `constant_2` and so on, without those that
    variables have.
    """
    labels = _free_labels(graph)
    taken = {label.lower() for label in graph.variables}
    for op in graph.ops:
        if op.name != "constant":
            continue
        if not _needs_file(op):
            items = np.asarray(op.attributes["value"]).reshape(-1)
            op.attributes["value"] = tuple(items.tolist())
            continue
        result = op.output
        items = np.asarray(op.attributes["value"], result.type.dtype.numpy)
        shape = result.type.dims
        data = np.broadcast_to(items.reshape(() if items.size == 1 else shape), shape)
        name = plain_label(result.name)
        label = name if result.name and name.lower() not in taken else next(labels)
        taken.add(label.lower())
        stored = np.ascontiguousarray(data).reshape(shape)
        graph.variables[label.lower()] = Variable(label, result.type, stored)
        attributes: dict[str, Any] = {"shape": shape, "label": label}
        names = [result.name or label]
        new = Op("variable", (), attributes, [result.type], names, op.location)
        graph.insert(new, op)
        replace(graph, op, new.outputs)


def _needs_file(op: Op) -> bool:
    items = np.asarray(op.attributes["value"])
    if op.output.type.dtype.is_float:
        return items.size > 1 or not np.isfinite(items.astype(np.float64)).all()
    return items.size > MAX_LITERAL_ITEMS


def _free_labels(graph: Graph) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        label = f"constant_{number}"
        if label not in graph.variables:  # whose keys have lower case
            yield label


def require_one_width(graph: Graph) -> None:
    """Raise NnefError `flatten/type` if both float32 and float64 occur, or integers need 64 bits.

    NNEF has one type of scalars and one of integers; a reader chooses 32 bits by default.
    """
    dtypes = {value.type.dtype for value in graph.inputs}
    dtypes |= {value.type.dtype for op in graph.ops for value in op.outputs}
    problems: list[Diagnostic] = []
    if {DType.FLOAT32, DType.FLOAT64} <= dtypes:
        message = "the model computes in float32 and in float64; NNEF has one type of scalars"
        problems.append(Diagnostic("flatten/type", message))
    bounds = np.iinfo(np.int32)
    for name, data in _integer_data(graph):
        low, high = int(data.min(initial=0)), int(data.max(initial=0))
        if low < bounds.min or high > bounds.max:
            value = low if low < bounds.min else high
            message = f"the value {value} of '{name}' does not fit an integer of NNEF, 32 bits"
            problems.append(Diagnostic("flatten/type", message))
    if problems:
        raise NnefError(problems)


def _integer_data(graph: Graph) -> Iterator[tuple[str, Any]]:
    """Integer constants and variables with 64 bits."""
    for op in graph.ops:
        if op.name == "constant" and op.output.type.dtype is DType.INT64:
            yield op.output.name or "constant", np.asarray(op.attributes["value"], np.int64)
    for variable in graph.variables.values():
        if variable.type.dtype is DType.INT64 and variable.data is not None:
            yield variable.label, variable.data
