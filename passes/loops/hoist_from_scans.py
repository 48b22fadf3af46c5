"""Hoist operations out of loops: compute them before the loop, for all turns at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Graph, Op, TensorType, Value
from nnefc.ops.internal.scan import whole_of
from nnefc.ops.tools.cost import macs
from nnefc.passes.analysis.batch_rules import resized, separable
from nnefc.passes.analysis.loop import Loop, loops
from nnefc.passes.base import RESHAPES, is_constant, is_pure


@dataclass(frozen=True)
class HoistFromScans:
    """Take out of the bodies of loops what no state has a part in.

        %y: float32[8,3] = scan(%s, %x, %w) {turns = 8, states = 1, scanned = 1,
          body = graph turn(%s: float32[1,3], %x: float32[1,5], %w: float32[3,5])
            -> (s = %t, y = %t) {
            %v: float32[5,3] = transpose(%w) {axes = [1, 0]}
            %p: float32[1,3] = matmul(%x, %v) {...}
            %t: float32[1,3] = add(%p, %s)
          }}

    becomes

        %v: float32[5,3] = transpose(%w) {axes = [1, 0]}
        %p: float32[8,3] = matmul(%x, %v) {...}
        %y: float32[8,3] = scan(%s, %p) {turns = 8, states = 1, scanned = 1,
          body = graph turn(%s: float32[1,3], %p: float32[1,3]) -> (s = %t, y = %t) {
            %t: float32[1,3] = add(%p, %s)
          }}

    What is the same in all turns is computed once.  A product of slices is computed for all of them
    at the same time if it is separable (`batch_rules`), with what leads to it.
    """

    name: ClassVar[str] = "hoist_from_scans"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        changed = False
        for loop in loops(graph):
            if _Hoist(loop).run():
                loop.write()
                changed = True
        return changed


@dataclass(frozen=True, slots=True)
class _Kept:
    """A value of the body that is known outside of it.

    `backwards`: for slices, the direction; None if it is the same in all turns.
    """

    type: TensorType
    backwards: bool | None


class _Hoist:
    """Moves operations out of one loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._known: dict[Value, _Kept] = {o.inner: _Kept(o.outer.type, None) for o in loop.shared}
        for operand in loop.scanned:
            self._known[operand.inner] = _Kept(operand.outer.type, operand.backwards)
        self._twins = {o.inner: o.outer for o in (*loop.shared, *loop.scanned)}
        """Values of the body outside of it."""

    def run(self) -> bool:
        movable: dict[Op, Op] = {}
        for op in self._loop.body.ops:
            made = self._outside(op)
            if made is not None:
                movable[op] = made
        chosen = self._worthwhile(movable)
        for op in chosen:
            self._move(op, movable[op])
        return bool(chosen)

    def _outside(self, op: Op) -> Op | None:
        """The operation for all turns, over values of the body still; None if there is none."""
        if not is_pure(op) or op.bodies or op.name == "constant":
            return None
        fixed = [v for v in op.inputs if not is_constant(v)]
        if not fixed or any(v not in self._known for v in fixed):
            return None
        directions = {self._known[v].backwards for v in fixed} - {None}
        if not directions:
            made = Op(op.name, op.inputs, op.attributes, [v.type for v in op.outputs])
            self._known.update((v, _Kept(v.type, None)) for v in op.outputs)
            return made
        if len(directions) > 1:
            return None
        made = self._over_all_slices(op)
        if made is not None:
            (backwards,) = directions
            for inner, outer in zip(op.outputs, made.outputs, strict=True):
                self._known[inner] = _Kept(outer.type, backwards)
        return made

    def _over_all_slices(self, op: Op) -> Op | None:
        """What gives all of a tensor whose slices the operation gives."""
        if any(not v.type.shape for v in op.outputs):
            return None
        turns = self._loop.turns
        types = [whole_of(v.type, turns) for v in op.outputs]
        if op.name in RESHAPES:
            attributes = {"shape": types[0].dims, "axis_start": 0, "axis_count": -1}
            return Op("reshape", op.inputs, attributes, types, location=op.location)
        rows = [self._rows(v) for v in op.inputs]
        given = [self._known[v].type if v in self._known else v.type for v in op.inputs]
        attributes = resized(op, op.outputs[0].type.dims[0], turns)
        whole = Op(op.name, map(Value, given), attributes, types)
        if not separable(whole, rows, turns):
            return None
        return Op(op.name, op.inputs, attributes, types, location=op.location)

    def _rows(self, value: Value) -> int:
        """Extents along dimension 0 of a slice; 0 if the value is the same in all turns."""
        known = self._known.get(value)
        return 0 if known is None or known.backwards is None else value.type.dims[0]

    def _worthwhile(self, movable: dict[Op, Op]) -> list[Op]:
        """What is worth a place outside: what is the same in all turns, products, and what leads
        to these.
        """
        chosen: set[Op] = set()
        for op in reversed(movable):
            same = all(self._known[v].backwards is None for v in op.outputs)
            leads = any(user in chosen for v in op.outputs for user in v.users)
            if same or macs(op) or leads:
                chosen.add(op)
        return [op for op in movable if op in chosen]

    def _move(self, op: Op, made: Op) -> None:
        loop = self._loop
        inputs = [self._outer(v) for v in made.inputs]
        types = [v.type for v in made.outputs]
        moved = Op(made.name, inputs, made.attributes, types, location=op.location)
        loop.graph.insert(moved, loop.op)
        for inner, outer in zip(op.outputs, moved.outputs, strict=True):
            backwards = self._known[inner].backwards
            new = loop.share(outer) if backwards is None else loop.scan(outer, backwards)
            loop.replace(inner, new)
            self._twins[new] = self._twins[inner] = outer
        loop.body.erase(op)

    def _outer(self, value: Value) -> Value:
        """The value outside of the body; constants are made there once more."""
        found = self._twins.get(value)
        if found is None:
            assert value.op is not None
            op = Op("constant", (), value.op.attributes, [value.type])
            found = self._twins[value] = self._loop.graph.insert(op, self._loop.op).output
        return found
