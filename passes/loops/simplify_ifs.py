"""Remove branches that are known or cheap, and values that branches do not need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from nnefc.ir import Graph, Op, Value
from nnefc.ops.tools.build import build
from nnefc.ops.tools.cost import computes, flops, traffic_bytes
from nnefc.ops.tools.table import traits_of
from nnefc.passes.analysis.editable_if import Branches, conditionals
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.loops.inline_body import inline_body
from nnefc.passes.op_queries import is_elementwise_or_fused, is_pure, replace
from nnefc.support.machine_model import COPY_NS, LAUNCH_NS, VECTOR_ITEMS_PER_NS
from nnefc.symbolic.integers import hint


@dataclass(frozen=True)
class SimplifyIfs:
    """Inline branches that are known or cheap; give bodies their data; remove unused values.

        %y: float32[4] = if(%c, %x, %w) {
          then = graph then(%x: float32[4], %w: float32[4]) -> (y = %y) {
            %y: float32[4] = mul(%x, %w)
          },
          else = graph else(%x: float32[4], %w: float32[4]) -> (y = %x) {
          }}

    becomes

        %0: float32[4] = mul(%x, %w)
        %y: float32[4] = select(%c, %0, %x)

    The rules, in order: inline the body that a known condition chooses; inline bodies that together
    cost less than `nanoseconds`, and choose between their results; forward results that both bodies
    take from the same operand, and merge equal results; remove unused results; merge equal
    operands; move constants, and variables that the graph never updates, into the bodies; remove
    unused operands.

    Only arithmetic and movement at fixed places are inlined: the index of a gather may be out of
    range in the branch that is not taken.
    """

    name: ClassVar[str] = "simplify_ifs"
    enters_loops: ClassVar[bool] = True
    nanoseconds: float = 2 * LAUNCH_NS

    def run(self, graph: Graph) -> bool:
        known = KnownValues(graph)
        changed = False
        for each in conditionals(graph):
            condition = known.items(each.condition)
            if condition is not None:
                _inline(each, 0 if condition.all() else 1)
                changed = True
            elif sum(map(_nanoseconds, each.bodies)) <= self.nanoseconds:
                select_results(each)
                changed = True
            else:
                applied = [rule(each) for rule in _RULES]
                if any(applied) | _take_in_data(each, known) | _drop_operands(each):
                    each.write()
                    if not each.results:
                        graph.erase(each.op)
                    for body in each.bodies:  # whose inner branches may take in the data as well
                        self.run(body)
                    changed = True
        return changed


def inline_branches(graph: Graph) -> None:
    """Replace all `if`s of a graph and its bodies: both branches run, and results are chosen."""
    for op in graph.ops:
        for body in op.bodies:
            inline_branches(body)
    for each in conditionals(graph):
        select_results(each)


def select_results(branches: Branches) -> None:
    """Replace an `if` by the operations of both bodies and choices between their results."""
    graph, op = branches.graph, branches.op
    operands = [operand.outer for operand in branches.operands]
    results = [inline_body(graph, body, operands, op) for body in branches.bodies]
    condition = branches.condition
    if condition.type.rank:
        condition = build(graph, "reshape", [condition], {"shape": ()}, before=op).output
    chosen = [
        a
        if a is b
        else build(graph, "select", [condition, a, b], {}, before=op, location=op.location).output
        for a, b in zip(*results, strict=True)
    ]
    replace(graph, op, chosen)


def _inline(branches: Branches, index: int) -> None:
    operands = [operand.outer for operand in branches.operands]
    results = inline_body(branches.graph, branches.bodies[index], operands, branches.op)
    replace(branches.graph, branches.op, results)


def _nanoseconds(body: Graph) -> float:
    """Time of a body that is inlined; infinite if it must not be."""
    total = COPY_NS / 2 * hint(traffic_bytes(body))
    for op in filter(computes, body.ops):
        if is_elementwise_or_fused(op):
            total += hint(flops(op)) / VECTOR_ITEMS_PER_NS
        elif traits_of(op).slices is not None or op.name == "transpose":
            total += LAUNCH_NS
        else:
            return float("inf")
    return total


def _forward_results(branches: Branches) -> bool:
    """Forward results that both bodies take from one operand; merge equal results."""
    graph, first = branches.graph, dict[tuple[Value, ...], Value]()
    first |= {operand.inner: operand.outer for operand in branches.operands}
    changed = False
    for result in list(branches.results):
        twin = first.setdefault(tuple(result.inner), result.outer)
        if twin is not result.outer:
            graph.replace_value(result.outer, twin)
            branches.results.remove(result)
            changed = True
    return changed


def _drop_results(branches: Branches) -> bool:
    """Remove results that nothing uses, and operations that nothing needs then."""
    graph, before = branches.graph, len(branches.results)
    branches.results = [r for r in branches.results if r.outer.users or graph.is_output(r.outer)]
    if len(branches.results) == before:
        return False
    for i, body in enumerate(branches.bodies):
        body.outputs = [result.inner[i] for result in branches.results]
        body.output_names = [result.name for result in branches.results]
        for op in body.reversed_ops:
            if is_pure(op) and not any(v.users or body.is_output(v) for v in op.outputs):
                body.erase(op)
    return True


def _merge_operands(branches: Branches) -> bool:
    """Merge equal operands."""
    first: dict[Value, tuple[Value, Value]] = {}
    changed = False
    for operand in list(branches.operands):
        twins = first.setdefault(operand.outer, operand.inner)
        if twins is not operand.inner:
            for i, (old, new) in enumerate(zip(operand.inner, twins, strict=True)):
                branches.replace(i, old, new)
            branches.operands.remove(operand)
            changed = True
    return changed


def _take_in_data(branches: Branches, known: KnownValues) -> bool:
    """Move operands that are data, or views of data, into the bodies that use them."""
    changed = False
    for operand in list(branches.operands):
        if operand.outer not in known:
            continue
        for i, (body, inner) in enumerate(zip(branches.bodies, operand.inner, strict=True)):
            if _is_used(body, inner):
                first = next(body.ops, None)
                branches.replace(i, inner, _copied(branches.graph, body, operand.outer, first))
        branches.operands.remove(operand)
        changed = True
    return changed


def _copied(graph: Graph, body: Graph, value: Value, before: Op | None) -> Value:
    """Insert the operations that data comes from into a body."""
    op = value.op
    assert op is not None
    inputs = [_copied(graph, body, each, before) for each in op.inputs]
    if op.name == "variable":
        key = op.attributes["label"].lower()
        body.variables[key] = graph.variables[key]
    copy = Op(op.name, inputs, op.attributes, [value.type], location=op.location)
    return body.insert(copy, before).output


def _drop_operands(branches: Branches) -> bool:
    """Remove operands that no body uses."""
    before = len(branches.operands)
    branches.operands = [
        operand
        for operand in branches.operands
        if any(map(_is_used, branches.bodies, operand.inner))
    ]
    return len(branches.operands) != before


def _is_used(graph: Graph, value: Value) -> bool:
    return bool(value.users) or graph.is_output(value)


_RULES: Final[tuple[Callable[[Branches], bool], ...]] = (
    _forward_results,
    _drop_results,
    _merge_operands,
)
