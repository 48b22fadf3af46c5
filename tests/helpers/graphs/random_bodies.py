"""Random operations with bodies, for random graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnefc.ir import DType, TensorType, Value
from nnefc.ops.internal.branches import build_if
from nnefc.ops.internal.scan import UNBOUNDED, build_scan
from nnefc.ops.tools.build import build, constant

if TYPE_CHECKING:
    from tests.helpers.graphs.random_graphs import _Generator as Generator  # pyright: ignore[reportPrivateUsage]

_KINDS = (
    *("unary", "binary", "binary", "select", "matmul", "literal", "variable", "slice"),
    *("transpose", "join", "reshape", "reduce", "compound"),
)


def random_scan(outer: Generator) -> list[Value]:
    """A loop over slices of some values, with others as states or invariants."""
    rng = outer.rng
    some = rng.sample(outer.values, min(len(outer.values), rng.randint(1, 5)))
    lengths = [v.type.dims[0] for v in some if v.type.rank and rng.random() < 0.7]
    turns = rng.choice([d for d in range(1, 4) if not lengths or lengths[0] % d == 0])
    states, scanned, shared = list[Value](), list[Value](), list[Value]()
    for v in some:
        cut = v.type.rank and v.type.dims[0] % turns == 0
        rng.choice((states, shared, scanned) if cut else (states, shared)).append(v)
    inner = outer.inner()
    body = inner.graph
    for i, v in enumerate((*states, *scanned, *shared)):
        dims, is_cut = v.type.dims, len(states) <= i < len(states) + len(scanned)
        type_ = v.type.with_shape((dims[0] // turns, *dims[1:])) if is_cut else v.type
        inner.values.append(body.add_input(type_, f"x{i}"))
    inner.fill(_inside(inner), rng.randint(0, 6))
    for i, v in enumerate(states):
        body.add_output(rng.choice([x for x in inner.values if x.type == v.type]), f"s{i}")
    fitting = [x for x in inner.values if x.type.rank]
    for i in range(rng.randint(0 if states else 1, 2) if fitting else 0):
        body.add_output(rng.choice(fitting[-4:]), f"y{i}")
    stacked = len(body.outputs) - len(states)
    if not body.outputs:
        return []
    backwards = [rng.random() < 0.3 for _ in range(len(scanned) + stacked)]
    made = build_scan(outer.graph, body, states, scanned, shared, turns=turns, backwards=backwards)
    return list(made.outputs)


def random_while(outer: Generator) -> list[Value]:
    """A loop without a bound, which counts its turns: 0 to 4."""
    rng, graph = outer.rng, outer.graph
    some = rng.sample(outer.values, min(len(outer.values), rng.randint(1, 4)))
    states = rng.randint(1, len(some))
    limit, start = (constant(graph, n, DType.INT64) for n in (rng.randint(0, 4), 0))
    goes_on = build(graph, "lt", [start, limit]).output
    inner = outer.inner()
    body = inner.graph
    body.add_input(goes_on.type, "go")
    number = body.add_input(start.type, "number")
    inner.values = [body.add_input(v.type, f"x{i}") for i, v in enumerate(some)]
    most = body.add_input(limit.type, "limit")
    inner.fill(_inside(inner), rng.randint(0, 6))
    after = build(body, "add", [number, constant(body, 1, DType.INT64)]).output
    body.add_output(build(body, "lt", [after, most]).output, "go")
    body.add_output(after, "number")
    for i, v in enumerate(some[:states]):
        body.add_output(rng.choice([x for x in inner.values if x.type == v.type]), f"s{i}")
    initial, shared = [goes_on, start, *some[:states]], [*some[states:], limit]
    made = build_scan(graph, body, initial, [], shared, turns=UNBOUNDED, condition=0)
    return list(made.outputs[2:])


def random_if(outer: Generator) -> list[Value]:
    """An `if` with some values as operands; conditions are inputs of the graph."""
    rng = outer.rng
    conditions = [v for v in outer.values if v.type.dtype is DType.BOOL and v.type.volume == 1]
    if not outer.is_body and len(conditions) < 2:
        shape = (1,) * rng.randint(0, 2)
        name = f"c{len(outer.graph.inputs)}"
        conditions.append(outer.graph.add_input(TensorType(DType.BOOL, shape), name))
        outer.values.append(conditions[-1])
    if not conditions:
        return []
    some = rng.sample(outer.values, min(len(outer.values), rng.randint(1, 5)))
    branches = outer.inner(), outer.inner()
    for inner in branches:
        inner.values = [inner.graph.add_input(v.type, f"x{i}") for i, v in enumerate(some)]
        inner.fill(_inside(inner), rng.randint(0, 6))
    first, second = branches
    for i in range(rng.randint(1, 3)):
        x = rng.choice(first.values[-4:])
        fitting = [y for y in second.values if y.type == x.type]
        if not fitting:
            x = first.values[0]
            fitting = [y for y in second.values if y.type == x.type]
        first.graph.add_output(x, f"y{i}")
        second.graph.add_output(rng.choice(fitting), f"y{i}")
    made = build_if(outer.graph, rng.choice(conditions), some, (first.graph, second.graph))
    return list(made.outputs)


def _inside(inner: Generator) -> list[str]:
    """The kinds of operations in a body."""
    return [*_KINDS, *(["scan", "branches", "unbounded"] if inner.loops else [])]
