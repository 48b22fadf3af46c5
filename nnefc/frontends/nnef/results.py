"""Results of an operation: flat in the graph, tensors and arrays of tensors in the document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nnefc.frontends.nnef import tree
from nnefc.frontends.nnef.types import Array, Tensor, Tuple, Type
from nnefc.syntax import ast

Lengths = tuple[int | None, ...]
"""For each result the number of items of an array, None for a tensor."""


def result_types(call: tree.Call) -> tuple[Type, ...]:
    """Type of each declared result."""
    if isinstance(call.type, Tuple) and len(call.callee.results) > 1:
        return call.type.items
    return (call.type,)


def target_lengths(target: ast.LValue, count: int) -> Lengths:
    """Lengths that the left-hand side of an assignment gives `count` results."""
    parts = target.items if isinstance(target, ast.Tuple) and count > 1 else (target,)
    return tuple([len(p.items) if isinstance(p, ast.Array) else None for p in parts])


def lengths(call: tree.Call, flat: int | None, attributes: Mapping[str, Any]) -> Lengths | None:
    """Lengths of the results, of which there are `flat` in all if that is known.

    None if they do not follow: from the number, the left-hand side, or attributes.
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
        found = tuple([n if a else None for n, a in zip(call.lengths, arrays)])
        total = others + sum([n for n in found if n is not None])
        return found if flat is None or flat == total else None
    if len(types) == 1 and call.callee.name == "split":
        return (len(attributes["ratios"]),)
    if len(types) == 1 and call.callee.name == "copy_n":
        return (attributes["times"],)
    return None


def flat_dtypes(call: tree.Call, shape: Lengths) -> list[str | None]:
    """Data-type of each flat result, as NNEF names it; None: unbound."""
    found: list[str | None] = []
    for type_, length in zip(result_types(call), shape):
        tensor = type_.item if isinstance(type_, Array) else type_
        dtype = tensor.dtype if isinstance(tensor, Tensor) else None
        found += [dtype] * (1 if length is None else length)
    return found


def structured(values: Sequence[Any], shape: Lengths) -> Any:
    """Flat results as the document has them: arrays and several results are tuples."""
    parts: list[Any] = []
    at = 0
    for length in shape:
        parts.append(values[at] if length is None else tuple(values[at : at + length]))
        at += 1 if length is None else length
    return parts[0] if len(parts) == 1 else tuple(parts)


_TENSOR_ARRAYS = frozenset(
    Array(Tensor(d)) for d in ("integer", "scalar", "logical", "string", "?")
)
