"""`tract_core_scan`: a fragment of the document as the body of a loop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError, integers, operand
from nnefc.frontends.tract.operators.movement import normalize_axis, slice_in_dim
from nnefc.frontends.tract.registry import operator

_OTHER = re.compile(r"[^0-9A-Za-z]")


@dataclass(frozen=True, slots=True)
class _Scanned:
    name: str
    tensor: Operand
    axis: int
    chunk: int


@dataclass(frozen=True, slots=True)
class _Output:
    name: str
    kind: str
    axis: int
    chunk: int


@operator("tract_core")
def tract_core_scan(
    make: OpBuilder,
    body: str,
    scan: Any,
    full: Any = (),
    state: Any = (),
    output: Any = (),
    skip: int = 0,
    reset_every_turn: bool = False,
    external_state: bool = False,
    seq_length: int = -1,
) -> Any:
    """The results in the order of `output`: all slices, or what the last turn gave.

    A negative chunk lets the turns begin at the end.  `skip` is of streaming alone.  Each call
    begins with the initial states, whatever `reset_every_turn` says of calls that follow another.
    """
    del skip, reset_every_turn, external_state, seq_length
    evaluator = make.evaluator
    fragment = evaluator.context.fragments.get(body)
    if fragment is None or fragment.body is None:
        raise OperatorError("argument/scan", f"the document has no fragment '{body}'")
    names = {_escaped(p.name): p.name for p in fragment.parameters}
    results = {_escaped(r.name): i for i, r in enumerate(fragment.results)}

    def parameter(name: Any) -> str:
        found = names.get(_escaped(str(name)))
        if found is None:
            raise OperatorError("argument/scan", f"'{body}' has no parameter '{name}'")
        return found

    def result(name: Any) -> int:
        found = results.get(_escaped(str(name)))
        if found is None:
            raise OperatorError("argument/scan", f"'{body}' has no result '{name}'")
        return found

    scanned = [_scanned(item, parameter(item[0])) for item in _tuples(scan, (4,))]
    shared = [(parameter(n), operand(x)) for n, x in _tuples(full, (2,))]
    states = [(parameter(n), operand(x), result(r)) for n, x, r in _tuples(state, (3,))]
    outputs = [_output(item) for item in _tuples(output, (3, 4))]
    if missing := [p for p in names.values()
                   if p not in {s.name for s in scanned} | {n for n, _ in shared}
                   | {n for n, _, _ in states}]:  # fmt: skip
        raise OperatorError("argument/scan", f"parameter '{missing[0]}' of '{body}' has no value")
    turns = _turns(scanned)
    wanted = list(dict.fromkeys(result(o.name) for o in outputs))
    kept = [r for r in wanted if r not in {s[2] for s in states}
            or any(o.kind == "full" for o in outputs if result(o.name) == r)]  # fmt: skip
    axes = {result(o.name): o.axis for o in outputs if o.kind == "full"}
    chunks = {result(o.name): o.chunk for o in outputs if o.kind == "full"}

    def run(
        within: OpBuilder, before: list[Operand], slices: list[Operand], whole: list[Operand]
    ) -> tuple[Sequence[Operand], Sequence[Operand]]:
        values: dict[str, Any] = dict(zip((n for n, _, _ in states), before, strict=True))
        for each, x in zip(scanned, slices, strict=True):
            values[each.name] = _moved(within, x, 0, each.axis)
        values.update(zip((n for n, _ in shared), whole, strict=True))
        given = within.evaluator.fragment_results(fragment, values, make.location)
        after = [operand(given[r]) for _, _, r in states]
        stacked: list[Operand] = []
        for r in kept:
            x = operand(given[r])
            stacked.append(
                _moved(within, x, normalize_axis(axes.get(r, 0), max(x.type.rank, 1)), 0)
            )
        return after, stacked

    initial = [operand(x) for _, x, _ in states]
    first = [_moved(make, s.tensor, s.axis, 0) for s in scanned]
    backwards = [s.chunk < 0 for s in scanned] + [chunks.get(r, 1) < 0 for r in kept]
    finals, stacked = loop(
        make,
        turns,
        initial,
        first,
        [x for _, x in shared],
        run,
        backwards=backwards,
        inner=lambda graph: evaluator.within(graph).make,
    )
    found: list[Any] = []
    for o in outputs:
        r = result(o.name)
        if o.kind == "last" and r in (of := [s[2] for s in states]):
            found.append(finals[of.index(r)])
            continue
        x = stacked[kept.index(r)]
        if o.kind == "last":
            extent = x.type.dims[0]
            length = extent // turns
            begin = 0 if chunks.get(r, 1) < 0 else extent - length
            x = slice_in_dim(make, x, 0, begin, begin + length)
        at = normalize_axis(axes.get(r, 0), max(x.type.rank, 1))
        found.append(_moved(make, x, 0, at))
    return found[0] if len(found) == 1 else tuple(found)


def _escaped(name: str) -> str:
    """Names in the tuples may be as they were before they became identifiers."""
    return _OTHER.sub("_", name)


def _tuples(value: Any, lengths: tuple[int, ...]) -> list[tuple[Any, ...]]:
    if not isinstance(value, tuple):
        raise OperatorError("argument/scan", "an array of tuples is expected")
    items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
    for item in items:
        if not isinstance(item, tuple) or len(item) not in lengths:  # pyright: ignore[reportUnknownArgumentType]
            raise OperatorError("argument/scan", f"a tuple of {lengths[-1]} items is expected")
    return list(items)


def _scanned(item: tuple[Any, ...], name: str) -> _Scanned:
    tensor = operand(item[1])
    chunk = integers(item[3])[0]
    if chunk == 0:
        raise OperatorError("argument/scan", "a chunk must not be 0")
    return _Scanned(name, tensor, normalize_axis(integers(item[2])[0], tensor.type.rank), chunk)


def _output(item: tuple[Any, ...]) -> _Output:
    """Old documents do not say the chunk."""
    name, kind, axis, *chunk = item
    if kind not in ("full", "last"):
        raise OperatorError("argument/scan", f"an output is 'full' or 'last', not {kind!r}")
    return _Output(str(name), kind, integers(axis)[0], integers(chunk[0])[0] if chunk else 1)


def _turns(scanned: Sequence[_Scanned]) -> int:
    counts: list[int] = []
    for each in scanned:
        extent, chunk = each.tensor.type.dims[each.axis], abs(each.chunk)
        if extent % chunk:
            message = f"'{each.name}': extent {extent} is no multiple of the chunk {chunk}"
            raise OperatorError("argument/scan", message)
        counts.append(extent // chunk)
    if not counts or any(count != counts[0] for count in counts):
        raise OperatorError("argument/scan", f"the number of turns is not clear: {counts}")
    turns = counts[0]
    if turns == 0:
        raise OperatorError("argument/scan", "there is nothing to scan: an extent is 0")
    return turns


def _moved(make: OpBuilder, x: Operand, axis: int, to: int) -> Operand:
    """A tensor with one of its dimensions at another place."""
    order = [i for i in range(x.type.rank) if i != axis]
    if x.type.rank:
        order.insert(to, axis)
    return make.transpose(x, order)
