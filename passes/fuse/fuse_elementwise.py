"""Fuse connected element-wise operations into one operation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from nnefc.ir import Expression, Graph, Op, Shape, Step, Value
from nnefc.ops.tools.table import traits_of
from nnefc.passes.op_queries import Number, is_elementwise, splat


@dataclass(eq=False)
class _Group:
    """Operations that become one; `root`, the last one in order, computes the result."""

    root: Op
    members: list[Op] = field(default_factory=list[Op])
    """The operations, in reverse order."""


@dataclass(frozen=True)
class FuseElementwise:
    """Fuse element-wise operations that only feed each other into `fused` operations.

        %0: float32[] = constant() {shape = [], value = [2.0]}
        %1: float32[4] = mul(%x, %0)
        %2: float32[4] = exp(%1)
        %y: float32[4] = add(%2, %b)

    becomes, without dead operations,

        %y: float32[4] = fused(%x, %b) {expression = (%0: float32, %1: float32) {
          %2: float32 = 2.0; %3: float32 = mul(%0, %2); %4: float32 = exp(%3);
          %5: float32 = add(%4, %1); return %5 }}

    An operation joins the group of its users if all of them are in one group and have the shape of
    its output.  A group thus has one result, and computes nothing twice or once per item of a
    broadcast result.  Values with users in several groups and outputs of the graph are stored;
    however, a cheap operation (`Traits.cheap`) that reads one tensor joins up to `copies` groups.
    Constants of one number become literals, also in single operations.

    `steps` and `inputs` bound the size of one kernel.
    """

    name: ClassVar[str] = "fuse_elementwise"
    enters_loops: ClassVar[bool] = True
    steps: int = 64
    inputs: int = 16
    copies: int = 4

    def run(self, graph: Graph) -> bool:
        groups = self._groups(graph)
        changed = False
        for group in reversed(groups):
            changed |= _fuse(graph, group)
        return changed

    def _groups(self, graph: Graph) -> list[_Group]:
        """The groups of a graph, in reverse order of their roots."""
        outputs = set(graph.outputs)
        groups: list[_Group] = []
        of: dict[Op, list[_Group]] = {}
        reads: dict[_Group, set[Value]] = {}
        for op in graph.reversed_ops:
            if not is_elementwise(op) or op.output.type.shape is None:
                continue
            joined: list[_Group] = [] if op.output in outputs else self._users(op, of)
            if not all(self._fits(op, group, reads[group]) for group in joined):
                joined = []
            if not joined:
                group = _Group(op)
                reads[group] = set()
                groups.append(group)
                joined = [group]
            of[op] = joined
            for group in joined:
                group.members.append(op)
                reads[group].discard(op.output)
                reads[group].update(v for v in op.inputs if splat(v) is None)
        return groups

    def _users(self, op: Op, of: dict[Op, list[_Group]]) -> list[_Group]:
        """The groups that `op` may join: those of all its users, or no group."""
        groups: dict[_Group, None] = {}
        for user in op.output.users:
            if user not in of or user.output.type.shape != op.output.type.shape:
                return []
            groups.update(dict.fromkeys(of[user]))
            if len(groups) > self.copies:
                return []
        if len(groups) > 1:
            tensors = [v for v in op.inputs if splat(v) is None]
            if not traits_of(op).cheap or len(tensors) != 1:
                return []
        return list(groups)

    def _fits(self, op: Op, group: _Group, reads: set[Value]) -> bool:
        """Whether `group`, which reads `reads`, stays within the bounds of a kernel with `op`."""
        if len(group.members) >= self.steps:
            return False
        operands = (v for v in op.inputs if splat(v) is None)
        return len((reads | set(operands)) - {op.output}) <= self.inputs


def _fuse(graph: Graph, group: _Group) -> bool:
    """Replace a group by a fused operation, unless it is a single operation without literals."""
    members = group.members[::-1]
    inside = {op.output for op in members}
    operands = list(dict.fromkeys(v for op in members for v in op.inputs if v not in inside))
    literals = _literals(operands, group.root.output.type.dims)
    if len(members) == 1 and not literals:
        return False
    inputs = [v for v in operands if v not in literals]
    number: dict[Value, int] = {v: i for i, v in enumerate(inputs)}
    steps: list[Step] = []

    def add(value: Value, step: Step) -> None:
        number[value] = len(inputs) + len(steps)
        steps.append(step)

    for value, literal in literals.items():
        add(value, Step("literal", (), value.type.dtype, literal))
    for op in members:
        operand_numbers = tuple(number[v] for v in op.inputs)
        add(op.output, Step(op.name, operand_numbers, op.output.type.dtype))
    result = group.root.output
    expression = Expression(tuple(v.type.dtype for v in inputs), tuple(steps), (number[result],))
    fused = Op(
        "fused",
        inputs,
        {"expression": expression},
        [result.type],
        [result.name],
        group.root.location,
    )
    graph.insert(fused, group.root)
    graph.replace_value(result, fused.output)
    _erase_dead(graph, members)
    return True


def _literals(operands: list[Value], dims: Shape) -> dict[Value, Number]:
    """The operands that become literals, with their numbers.

    The remaining operands must still broadcast to the shape of the result, since a fused operation
    broadcasts its inputs.  An expression needs at least one input.
    """
    numbers = {v: n for v in operands if (n := splat(v)) is not None}
    for candidates in (numbers, {v: n for v, n in numbers.items() if v.type.rank == 0}):
        rest = [v.type.dims for v in operands if v not in candidates]
        if rest and _broadcast(rest) == dims:
            return candidates
    return {}


def _broadcast(shapes: list[Shape]) -> Shape:
    rank = max(map(len, shapes))
    return tuple(max(s[d] if d < len(s) else 1 for s in shapes) for d in range(rank))


def _erase_dead(graph: Graph, members: list[Op]) -> None:
    """Erase the members of a group, except those that another group still uses."""
    for op in reversed(members):
        if not op.output.users and not graph.is_output(op.output):
            graph.erase(op)
