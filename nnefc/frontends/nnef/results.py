"""Results of an operation: a flat list in the graph, tensors and arrays in the document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nnefc.frontends.nnef import typed_tree as tree
from nnefc.frontends.nnef.types import Array, Tensor, Tuple, Type
from nnefc.syntax import ast

Lengths = tuple[int | None, ...]
"""The length of each result that is an array; None for a tensor."""


def result_types(call: tree.Call) -> tuple[Type, ...]:
    """Type of each declared result."""
    if isinstance(call.type, Tuple) and len(call.callee.results) > 1:
        return call.type.items
    return (call.type,)


def target_lengths(target: ast.LValue, count: int) -> Lengths:
    """Lengths of `count` results as the left side of an assignment writes them."""
    targets = target.items if isinstance(target, ast.Tuple) and count > 1 else (target,)
    return tuple([len(t.items) if isinstance(t, ast.Array) else None for t in targets])


def lengths(call: tree.Call, flat: int | None, attributes: Mapping[str, Any]) -> Lengths | None:
    """Lengths of the results, or None if they are unknown.

    They follow from the number `flat` of all result tensors, if it is known, from the left side of
    the assignment, or from `attributes`.
    """
    types = result_types(call)
    if not all(isinstance(t, Tensor) or t in _TENSOR_ARRAYS for t in types):
        return None
    arrays = [isinstance(t, Array) for t in types]
    others = len(types) - sum(arrays)
    if not any(arrays):
        return (None,) * len(types) if flat is None or flat == len(types) else None
    if sum(arrays) == 1 and flat is not None:
        return tuple([flat - others if a else None for a in arrays]) if flat >= others else None
    if call.lengths is not None:
        written = tuple([n if a else None for n, a in zip(call.lengths, arrays)])
        total = others + sum([n for n in written if n is not None])
        return written if flat is None or flat == total else None
    if len(types) == 1 and call.callee.name == "split":
        return (len(attributes["ratios"]),)
    if len(types) == 1 and call.callee.name == "copy_n":
        return (attributes["times"],)
    return None


def flat_dtypes(call: tree.Call, shape: Lengths) -> list[str | None]:
    """NNEF data-type of each flat result; None: unbound."""
    dtypes: list[str | None] = []
    for type_, length in zip(result_types(call), shape):
        tensor = type_.item if isinstance(type_, Array) else type_
        dtype = tensor.dtype if isinstance(tensor, Tensor) else None
        dtypes += [dtype] * (1 if length is None else length)
    return dtypes


def structured(values: Sequence[Any], shape: Lengths) -> Any:
    """Flat results grouped as in the document: arrays and several results become tuples."""
    results: list[Any] = []
    at = 0
    for length in shape:
        results.append(values[at] if length is None else tuple(values[at : at + length]))
        at += 1 if length is None else length
    return results[0] if len(results) == 1 else tuple(results)


_TENSOR_ARRAYS = frozenset(
    Array(Tensor(d)) for d in ("integer", "scalar", "logical", "string", "?")
)
