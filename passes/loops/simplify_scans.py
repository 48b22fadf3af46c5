"""Remove unused and loop-invariant values from loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from nnefc.ir import Graph, Op, Value
from nnefc.passes.analysis.editable_loop import Loop, loops
from nnefc.passes.loops.inline_body import inline_body
from nnefc.passes.op_queries import is_constant, replace, splat, splat_op


@dataclass(frozen=True)
class SimplifyScans:
    """Remove states, operands and results that loops do not need.

        %s: float32[4], %y: float32[8] = scan(%s0, %x, %w) {turns = 2, states = 1, scanned = 1,
          body = graph turn(%s: float32[4], %x: float32[4], %w: float32[4])
            -> (s = %s, y = %y) {
            %y: float32[4] = add(%x, %s)
          }}

    becomes

        %y: float32[8] = scan(%x, %s0) {turns = 2, states = 0, scanned = 1,
          body = graph turn(%x: float32[4], %s: float32[4]) -> (y = %y) {
            %y: float32[4] = add(%x, %s)
          }}

    The rules, in order: inline a loop of one turn; share a state that never changes; merge equal
    operands; replace stacked results that equal another one or a scanned operand; move constants
    into the body; remove unused results, states and operands.
    """

    name: ClassVar[str] = "simplify_scans"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        changed = False
        for loop in loops(graph):
            if loop.turns == 1:
                _inline(loop)
                changed = True
                continue
            applied = [rule(loop) for rule in _RULES]
            if any(applied):
                loop.write()
                changed = True
        return changed


def _inline(loop: Loop) -> None:
    """Replace a loop of one turn by the operations of its body."""
    replace(loop.graph, loop.op, inline_body(loop.graph, loop.body, loop.op.inputs, loop.op))


def _share_states(loop: Loop) -> bool:
    """Turn states that no turn changes into shared operands."""
    constant = [state for state in loop.states if state.after is state.before]
    if loop.is_unbounded:  # which must keep its condition
        constant = [state for state in constant if state is not loop.condition]
    for state in constant:
        loop.states.remove(state)
        loop.replace(state.before, loop.share(state.initial))
        loop.graph.replace_value(state.final, state.initial)
    return bool(constant)


def _merge_operands(loop: Loop) -> bool:
    """Merge equal scanned operands, and equal shared operands."""
    changed = False
    for operands in (loop.scanned, loop.shared):
        first: dict[tuple[Value, bool], Value] = {}
        for operand in list(operands):
            twin = first.setdefault((operand.outer, operand.backwards), operand.inner)
            if twin is not operand.inner:
                loop.replace(operand.inner, twin)
                operands.remove(operand)
                changed = True
    return changed


def _merge_results(loop: Loop) -> bool:
    """Deduplicate stacked results; forward those that equal a scanned operand."""
    first = {(operand.inner, operand.backwards): operand.outer for operand in loop.scanned}
    changed = False
    for stacked in list(loop.stacked):
        twin = first.setdefault((stacked.inner, stacked.backwards), stacked.outer)
        if twin is not stacked.outer:
            loop.graph.replace_value(stacked.outer, twin)
            loop.stacked.remove(stacked)
            changed = True
    return changed


def _take_in_constants(loop: Loop) -> bool:
    """Move shared constants, and scanned ones that repeat one number, into the body."""
    before = next(loop.body.ops, None)
    changed = False
    for operands, sliced in ((loop.shared, False), (loop.scanned, True)):
        for operand in list(operands):
            constant = _constant(operand.outer, operand.inner, sliced)
            if constant is None:
                continue
            loop.replace(operand.inner, loop.body.insert(constant, before).output)
            operands.remove(operand)
            changed = True
    return changed


def _constant(outer: Value, inner: Value, sliced: bool) -> Op | None:
    """A constant for the body in place of an operand; None if the operand is not constant."""
    if outer.op is None or not is_constant(outer):
        return None
    if not sliced:
        return Op("constant", (), outer.op.attributes, [outer.type], location=outer.op.location)
    number = splat(outer)
    return None if number is None else splat_op(inner.type, number, outer.op.location)


def _drop_dead(loop: Loop) -> bool:
    """Remove states, operands and results that no used result depends on."""
    stacked = [each for each in loop.stacked if _is_used(loop.graph, each.outer)]
    live = [state for state in loop.states if _is_used(loop.graph, state.final)]
    if loop.is_unbounded and loop.condition not in live:
        live += [state for state in loop.states if state is loop.condition]
    needed = _needed([each.inner for each in stacked], [state.after for state in live])
    while more := [s for s in loop.states if s not in live and s.before in needed]:
        live += more
        needed |= _needed([state.after for state in more])
    states = [state for state in loop.states if state in live]
    scanned = [operand for operand in loop.scanned if operand.inner in needed]
    shared = [operand for operand in loop.shared if operand.inner in needed]
    after = (states, scanned, shared, stacked)
    before = (loop.states, loop.scanned, loop.shared, loop.stacked)
    if list(map(len, after)) == list(map(len, before)):
        return False
    loop.states, loop.scanned, loop.shared, loop.stacked = after
    loop.body.outputs = [*(s.after for s in states), *(s.inner for s in stacked)]
    for op in loop.body.reversed_ops:
        if not any(_is_used(loop.body, v) for v in op.outputs):
            loop.body.erase(op)
    return True


def _is_used(graph: Graph, value: Value) -> bool:
    return bool(value.users) or graph.is_output(value)


def _needed(*outputs: list[Value]) -> set[Value]:
    """The values that outputs of a body depend on, and the outputs themselves."""
    needed: set[Value] = set()
    stack = [value for values in outputs for value in values]
    while stack:
        value = stack.pop()
        if value not in needed:
            needed.add(value)
            stack += value.op.inputs if value.op is not None else ()
    return needed


_RULES: Final[tuple[Callable[[Loop], bool], ...]] = (
    _share_states,
    _merge_operands,
    _merge_results,
    _take_in_constants,
    _drop_dead,
)
