"""Codes behind operations that only move items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from nnefc.ir import Graph, Op, Value
from nnefc.passes.analysis.selections import MOVES

_MOVED: Final = (*MOVES, "slice")


class Source(NamedTuple):
    """Where reals come from."""

    dequantize: Op
    """Computes them from codes."""
    moves: Sequence[Op]
    """Move them then, in order."""

    def has_one_scale(self) -> bool:
        """Whether scale and zero point are one number each."""
        return all(value.type.volume == 1 for value in self.dequantize.inputs[1:])

    def codes(self, graph: Graph, before: Op) -> Value:
        """The codes, moved as the reals are by operations inserted before `before`."""
        codes = self.dequantize.inputs[0]
        for move in self.moves:
            type_ = move.output.type.with_dtype(codes.type.dtype)
            codes = graph.insert(Op(move.name, [codes], move.attributes, [type_]), before).output
        return codes


def source_of(reals: Value) -> Source | None:
    """The codes that reals are moved from; None if there are none."""
    moves: list[Op] = []
    op = reals.op
    while op is not None and op.name in _MOVED:
        moves.append(op)
        op = op.inputs[0].op
    if op is None or op.name != "dequantize":
        return None
    return Source(op, moves[::-1])
