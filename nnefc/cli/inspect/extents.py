"""Shapes as text: numbers, or expressions of symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nnefc.frontends.common.symbolic_graph import Extents
    from nnefc.ir import Value


def shape_facts(shape: Sequence[int] | None, extents: Extents | None) -> dict[str, Any]:
    """`shape`, and `symbolic_shape` if it depends on symbols, for JSON."""
    facts: dict[str, Any] = {"shape": None if shape is None else list(shape)}
    return facts if extents is None else {**facts, "symbolic_shape": list(extents)}


def shape_text(facts: Mapping[str, Any], brackets: bool = True) -> str:
    """The shape of a tensor's facts: `4x3`, or `[N, 3]` if it depends on symbols.

    `4?` is an extent that varies but has no expression.
    """
    shape, extents = facts["shape"], facts.get("symbolic_shape")
    if extents is None:
        return "?" if shape is None else "x".join(map(str, shape)) or "scalar"
    texts = (f"{n}?" if text is None else text for n, text in zip(shape, extents, strict=True))
    return f"[{', '.join(texts)}]" if brackets else ", ".join(texts)


def extents_of(value: Value, varying: Mapping[Value, Extents]) -> str:
    """The shape of a value as `shape_text`."""
    return shape_text(shape_facts(value.type.shape, varying.get(value)))


def type_of(value: Value, varying: Mapping[Value, Extents]) -> str:
    """The type of a value: `float32[4,3]`, or `float32[N, 3]`."""
    extents = varying.get(value)
    return f"{value.type.dtype}{extents_of(value, varying)}" if extents else str(value.type)


def note_of(facts: Mapping[str, Any]) -> str:
    """A note on the extents without an expression; empty if all have one."""
    tensors = [*facts["inputs"], *facts["outputs"]]
    tensors += [each for row in facts["operations"] for each in row["outputs"]]
    if not any(None in each.get("symbolic_shape", ()) for each in tensors):
        return ""
    return "4? is an extent that varies but is no expression of the symbols"


def symbols_text(facts: Mapping[str, Any]) -> str:
    """The sample values of symbols: `S = 4, N = 4`; empty if all symbols have values."""
    chosen = facts.get("chosen_symbols", ())
    return ", ".join(f"{name} = {facts['symbols'][name]}" for name in chosen)
