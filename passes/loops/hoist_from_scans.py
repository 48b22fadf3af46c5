"""Hoist operations out of loops: compute them before the loop, for all turns at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Graph, Op, TensorType, Value
from nnefc.ops.internal.scan import whole_of
from nnefc.ops.tools.cost import macs
from nnefc.passes.analysis.batch_independence import resized_attributes, separable_rows
from nnefc.passes.analysis.editable_loop import Loop, loops
from nnefc.passes.op_queries import is_constant, is_pure, is_view, may_fail


@dataclass(frozen=True)
class HoistFromScans:
    """Move operations out of the bodies of loops if they do not depend on a state.

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

    Loop-invariant operations are computed once.  Products of slices are computed for all slices at
    once if they are separable (`batch_independence`), together with the operations that they depend
    on.
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
class _Outer:
    """A value outside of the body that has the slices of a value of the body, or equals it.

    `type`: that of the outer value.  `backwards`: the direction of the slices; None if the value is
    loop-invariant.
    """

    type: TensorType
    backwards: bool | None


class _Hoist:
    """Moves operations out of one loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._known: dict[Value, _Outer] = {
            o.inner: _Outer(o.outer.type, None) for o in loop.shared
        }
        """Values of the body that have an outer value, with its type and direction."""
        for operand in loop.scanned:
            self._known[operand.inner] = _Outer(operand.outer.type, operand.backwards)
        self._twins = {o.inner: o.outer for o in (*loop.shared, *loop.scanned)}
        """The outer values of values of the body."""

    def run(self) -> bool:
        """Move operations; returns whether there were any."""
        movable: dict[Op, Op] = {}
        for op in self._loop.body.ops:
            outside = self._outside(op)
            if outside is not None:
                movable[op] = outside
        chosen = self._worthwhile(movable)
        for op in chosen:
            self._move(op, movable[op])
        return bool(chosen)

    def _outside(self, op: Op) -> Op | None:
        """`op` for all turns at once, with operands of the body; None if it cannot move."""
        if not is_pure(op) or op.bodies or op.name == "constant":
            return None
        if self._loop.is_unbounded and may_fail(op):  # no turn may run
            return None
        fixed = [v for v in op.inputs if not is_constant(v)]
        if not fixed or any(v not in self._known for v in fixed):
            return None
        directions = {self._known[v].backwards for v in fixed} - {None}
        if not directions:
            self._known.update((v, _Outer(v.type, None)) for v in op.outputs)
            return Op(op.name, op.inputs, op.attributes, [v.type for v in op.outputs])
        if len(directions) > 1:
            return None
        whole = self._over_all_slices(op)
        if whole is not None:
            (backwards,) = directions
            for inner, outer in zip(op.outputs, whole.outputs, strict=True):
                self._known[inner] = _Outer(outer.type, backwards)
        return whole

    def _over_all_slices(self, op: Op) -> Op | None:
        """The operation that computes the slices of all turns; None if `op` is not separable."""
        if any(not v.type.shape for v in op.outputs):
            return None
        turns = self._loop.turns
        types = [whole_of(v.type, turns) for v in op.outputs]
        if is_view(op):
            attributes = {"shape": types[0].dims, "axis_start": 0, "axis_count": -1}
            return Op("reshape", op.inputs, attributes, types, location=op.location)
        rows = [self._rows(v) for v in op.inputs]
        operands = [self._known[v].type if v in self._known else v.type for v in op.inputs]
        attributes = resized_attributes(op, op.outputs[0].type.dims[0], turns)
        whole = Op(op.name, map(Value, operands), attributes, types)
        if not separable_rows(whole, rows, turns):
            return None
        return Op(op.name, op.inputs, attributes, types, location=op.location)

    def _rows(self, value: Value) -> int:
        """Extent of a slice along dimension 0; 0 if the value is loop-invariant."""
        known = self._known.get(value)
        return 0 if known is None or known.backwards is None else value.type.dims[0]

    def _worthwhile(self, movable: dict[Op, Op]) -> list[Op]:
        """Operations worth moving: loop-invariant ones, products, and what these depend on."""
        chosen: set[Op] = set()
        for op in reversed(movable):
            invariant = all(self._known[v].backwards is None for v in op.outputs)
            feeds_chosen = any(user in chosen for v in op.outputs for user in v.users)
            if invariant or macs(op) or feeds_chosen:
                chosen.add(op)
        return [op for op in movable if op in chosen]

    def _move(self, op: Op, outside: Op) -> None:
        """Insert `outside` before the loop and pass its results to the body in place of `op`."""
        loop = self._loop
        inputs = [self._outer(v) for v in outside.inputs]
        types = [v.type for v in outside.outputs]
        moved = Op(outside.name, inputs, outside.attributes, types, location=op.location)
        loop.graph.insert(moved, loop.op)
        for inner, outer in zip(op.outputs, moved.outputs, strict=True):
            backwards = self._known[inner].backwards
            new = loop.share(outer) if backwards is None else loop.scan(outer, backwards)
            loop.replace(inner, new)
            self._twins[new] = self._twins[inner] = outer
        loop.body.erase(op)

    def _outer(self, value: Value) -> Value:
        """The outer value of a value of the body; constants of the body are copied."""
        twin = self._twins.get(value)
        if twin is None:
            assert value.op is not None
            op = Op("constant", (), value.op.attributes, [value.type])
            twin = self._twins[value] = self._loop.graph.insert(op, self._loop.op).output
        return twin
