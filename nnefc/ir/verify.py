"""Verify the structure of graphs, for tests and between passes."""

# pyright: reportPrivateUsage=false
# (the checks read the links between operations)

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from nnefc.ir.expression import Expression
from nnefc.ir.graph import Graph, Op, Value
from nnefc.support.errors import Diagnostic, NnefError

Checker = Callable[[Op], Iterable[str]]
"""Returns the problems of one operation; `nnefc.ops` provides checkers for its operations."""


def verify(graph: Graph, checker: Checker | None = None) -> list[str]:
    """All problems of `graph` as sentences; empty for a valid graph.

    Checks links between operations, definition before use, lists of users, graph inputs and
    outputs, names, states and counts, variables and their data, and steps of expressions; applies
    `checker` to each operation; and verifies bodies in the same way.
    """
    problems = _links(graph)
    if problems:
        return problems
    uses: dict[Value, Counter[Op]] = {}
    names: set[str] = set()

    def define(value: Value, op: Op | None, index: int, what: str) -> None:
        if value.op is not op or value.index != index:
            problems.append(f"{what} has a wrong link to its definition")
        if value in uses:
            problems.append(f"{what} is defined twice")
        if value.name and value.name in names:
            problems.append(f"two values have the name %{value.name}")
        layout = value.type.layout
        if layout is not None and layout.itemsize != value.type.dtype.itemsize:
            have, want = value.type.dtype, layout.itemsize
            problems.append(f"{what} is {have}, its layout has items of {want} bytes")
        names.add(value.name)
        uses[value] = Counter()

    for i, value in enumerate(graph.inputs):
        define(value, None, i, f"input {i}, %{value.name},")
    for op in graph.ops:
        for i, value in enumerate(op.inputs):
            if value in uses:
                uses[value][op] += 1
            else:
                problems.append(f"{_title(op)}: operand {i}, %{value.name or '?'}, is not defined")
        for i, value in enumerate(op.outputs):
            define(value, op, i, f"{_title(op)}: output {i}")
        problems += [f"{_title(op)}: {p}" for p in _attributes(graph, op)]
        if checker is not None:
            problems += [f"{_title(op)}: {p}" for p in checker(op)]
        for body in op.bodies:
            problems += [f"{_title(op)}: body: {p}" for p in verify(body, checker)]
    for value, counter in uses.items():
        if value.users != counter:
            problems.append(
                f"%{value.name or '?'} lists {sum(value.users.values())} uses,"
                f" the graph has {counter.total()}"
            )
    return problems + _outputs(graph, uses) + _states(graph) + _counts(graph)


def check(graph: Graph, checker: Checker | None = None, *, after: str = "") -> None:
    """Raise NnefError (rule `internal/ir`) with all problems; `after`: the pass that ran last."""
    problems = verify(graph, checker)
    if problems:
        where = f"after {after}: " if after else ""
        raise NnefError(Diagnostic("internal/ir", where + problem) for problem in problems)


def _title(op: Op) -> str:
    results = ", ".join(f"%{v.name or '?'}" for v in op.outputs)
    return f"{results} = {op.name}" if results else op.name


def _links(graph: Graph) -> list[str]:
    """Problems of the linked list of operations, which prevent all other checks."""
    problems: list[str] = []
    previous: Op | None = None
    count = 0
    op = graph._first
    while op is not None:
        count += 1
        if count > len(graph):
            return [f"more than the {len(graph)} operations that the graph counts"]
        if op._previous is not previous:
            problems.append(f"{_title(op)}: the link to the operation before it is wrong")
        if op._graph is not graph:
            problems.append(f"{_title(op)}: belongs to another graph")
        previous, op = op, op._next
    if graph._last is not previous:
        problems.append("the link to the last operation is wrong")
    if count != len(graph):
        problems.append(f"{count} operations where the graph counts {len(graph)}")
    return problems


def _attributes(graph: Graph, op: Op) -> list[str]:
    problems: list[str] = []
    if op.name == "variable":
        label = op.attributes.get("label")
        variable = graph.variables.get(label.lower()) if isinstance(label, str) else None
        if variable is None:
            problems.append(f"no variable has the label {label!r}")
        elif variable.type != op.output.type:
            problems.append(f"has type {op.output.type}, its data {variable.type}")
        elif variable.data is not None and (
            variable.data.shape != variable.type.shape
            or variable.data.dtype != variable.type.dtype.numpy
        ):
            problems.append(
                f"has type {variable.type}, its array"
                f" {variable.data.dtype}{list(variable.data.shape)}"
            )
    for value in op.attributes.values():
        if isinstance(value, Expression):
            problems += _expression(value)
    return problems


def _expression(e: Expression) -> list[str]:
    problems: list[str] = []
    for i, step in enumerate(e.steps, len(e.inputs)):
        if any(not 0 <= operand < i for operand in step.operands):
            problems.append(f"step %{i} uses an operand that is not computed before it")
        if (step.op == "literal") != (step.value is not None):
            problems.append(f"step %{i}: a literal, and nothing else, has a value")
    if any(not 0 <= r < len(e.inputs) + len(e.steps) for r in e.results):
        problems.append("the expression returns an operand that it does not have")
    return problems


def _outputs(graph: Graph, defined: Iterable[Value]) -> list[str]:
    known = set(defined)
    problems: list[str] = []
    if len(graph.outputs) != len(graph.output_names):
        problems.append(f"{len(graph.outputs)} outputs with {len(graph.output_names)} names")
    for name, count in Counter(graph.output_names).items():
        if count > 1:
            problems.append(f"{count} outputs have the name {name!r}")
    for name, value in zip(graph.output_names, graph.outputs):
        if value not in known:
            problems.append(f"output {name!r} is not defined in the graph")
    return problems


def _states(graph: Graph) -> list[str]:
    problems: list[str] = []
    for kind, values, positions in (
        ("input", graph.inputs, [each.input for each in graph.states]),
        ("output", graph.outputs, [each.output for each in graph.states]),
    ):
        for position, count in Counter(i for i in positions if i is not None).items():
            if not 0 <= position < len(values):
                problems.append(f"a state refers to {kind} {position} of {len(values)}")
            elif count > 1:
                problems.append(f"{count} states refer to {kind} {position}")
    for name, count in Counter(each.name for each in graph.states).items():
        if count > 1:
            problems.append(f"{count} states have the name {name!r}")
    for state in graph.states:
        if state.input is None and state.output is None:
            problems.append(f"state {state.name!r} is neither an input nor an output")
        if state.axis is not None and state.input is None:
            problems.append(f"state {state.name!r} has an axis but no input to append to")
    return problems


def _counts(graph: Graph) -> list[str]:
    problems: list[str] = []
    for count in graph.counts:
        if not (0 <= count.output < len(graph.outputs) and 0 <= count.of < len(graph.outputs)):
            problems.append(f"{count} refers to outputs that the graph does not have")
            continue
        number, counted = graph.outputs[count.output].type, graph.outputs[count.of].type
        if number.rank or not number.dtype.is_integer:
            problems.append(f"{count}: output {count.output} is {number}, not one integer")
        if not 0 <= count.axis < counted.rank:
            problems.append(f"{count}: output {count.of} is {counted}")
    return problems
