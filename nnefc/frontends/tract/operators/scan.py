"""Loops (`tract_core_scan`), whose body is a fragment of the document."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis, slice_in_dim
from nnefc.frontends.common.values import Operand, OperatorError, integers, operand
from nnefc.frontends.tract.registry import operator
from nnefc.ir import Location
from nnefc.syntax import ast

_OTHER = re.compile(r"[^0-9A-Za-z]")


@dataclass(frozen=True, slots=True)
class _Scanned:
    """A tensor that is cut into chunks along an axis, one per turn; backwards if `chunk` < 0."""

    name: str
    tensor: Operand
    axis: int
    chunk: int


@dataclass(frozen=True, slots=True)
class _State:
    """A tensor that a turn passes to the next one: parameter `name` becomes result `result`."""

    name: str
    initial: Operand
    result: int


@dataclass(frozen=True, slots=True)
class _Output:
    """A result of the loop: all chunks of a result of the body, or only that of the last turn."""

    result: int
    is_last: bool
    axis: int
    chunk: int


@dataclass(frozen=True, slots=True)
class _Stack:
    """A result of the body whose chunks are stacked along an axis; backwards on request."""

    result: int
    axis: int
    is_backwards: bool


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
    """A loop over chunks of tensors.  The results in the order of `output`: stacked over all turns
    (`full`), or of the last turn (`last`).

    `scan` lists (parameter, tensor, axis, chunk), `full` (parameter, tensor), `state` (parameter,
    initial value, result), `output` (result, kind, axis, chunk).  A negative chunk runs from the
    end.  Each call begins with the initial states, also with `reset_every_turn`; `skip` concerns
    streaming only.
    """
    del skip, reset_every_turn, external_state, seq_length
    evaluator = make.evaluator
    fragment = evaluator.context.fragments.get(body)
    if fragment is None or fragment.body is None:
        raise OperatorError("argument/scan", f"the document has no fragment '{body}'")
    spec = _Loop.of(fragment, make.location, scan, full, state, output)
    turns = _turns(spec.scanned)
    finals, stacked = loop(
        make,
        turns,
        [s.initial for s in spec.states],
        [_moved(make, s.tensor, s.axis, 0) for s in spec.scanned],
        [x for _, x in spec.shared],
        spec.turn,
        backwards=[s.chunk < 0 for s in spec.scanned] + [s.is_backwards for s in spec.stacks],
        chunks=[abs(s.chunk) for s in spec.scanned],
        inner=lambda graph: evaluator.within(graph).make,
    )
    last = {s.result: x for s, x in reversed([*zip(spec.states, finals, strict=True)])}
    by_result = {s.result: (s, x) for s, x in zip(spec.stacks, stacked, strict=True)}
    results = [
        last[o.result]
        if o.is_last and o.result in last
        else _unstacked(make, *by_result[o.result], turns, is_last=o.is_last)
        for o in spec.outputs
    ]
    return results[0] if len(results) == 1 else tuple(results)


@dataclass(frozen=True, slots=True)
class _Loop:
    """The arguments of a loop over a fragment, with names resolved."""

    fragment: ast.Fragment
    location: Location | None
    scanned: list[_Scanned]
    shared: list[tuple[str, Operand]]
    states: list[_State]
    outputs: list[_Output]
    stacks: list[_Stack]

    @classmethod
    def of(
        cls,
        fragment: ast.Fragment,
        location: Location | None,
        scan: Any,
        full: Any,
        state: Any,
        output: Any,
    ) -> _Loop:
        """The loop of the operator's arguments; raises OperatorError."""
        names = _FragmentNames(fragment)
        scanned = [_scanned(item, names) for item in _tuples(scan, (4,))]
        shared = [(names.parameter(n), operand(x)) for n, x in _tuples(full, (2,))]
        states = [
            _State(names.parameter(n), operand(x), names.result(r))
            for n, x, r in _tuples(state, (3,))
        ]
        outputs = [_output(item, names) for item in _tuples(output, (3, 4))]
        names.require({s.name for s in (*scanned, *states)} | {n for n, _ in shared})
        return cls(fragment, location, scanned, shared, states, outputs, _stacks(outputs, states))

    def turn(
        self, within: OpBuilder, before: list[Operand], slices: list[Operand], whole: list[Operand]
    ) -> tuple[Sequence[Operand], Sequence[Operand]]:
        """The states after one turn, and the chunks to stack (`common.loops`)."""
        values: dict[str, Any] = dict(zip((s.name for s in self.states), before, strict=True))
        for each, x in zip(self.scanned, slices, strict=True):
            values[each.name] = _moved(within, x, 0, each.axis)
        values.update(zip((n for n, _ in self.shared), whole, strict=True))
        results = within.evaluator.fragment_results(self.fragment, values, self.location)
        after = [operand(results[s.result]) for s in self.states]
        chunks = [(operand(results[s.result]), s.axis) for s in self.stacks]
        return after, [_moved(within, x, _axis_in(x, axis), 0) for x, axis in chunks]


class _FragmentNames:
    """Resolves the names of a fragment's parameters and results; raises OperatorError.

    The tuples may contain names from before the exporter escaped them to identifiers.
    """

    def __init__(self, fragment: ast.Fragment) -> None:
        self._fragment = fragment.name
        self._parameters = {_escaped(p.name): p.name for p in fragment.parameters}
        self._results = {_escaped(r.name): i for i, r in enumerate(fragment.results)}

    def parameter(self, name: Any) -> str:
        """The parameter of this name."""
        parameter = self._parameters.get(_escaped(str(name)))
        if parameter is None:
            raise OperatorError("argument/scan", f"'{self._fragment}' has no parameter '{name}'")
        return parameter

    def result(self, name: Any) -> int:
        """The index of the result of this name."""
        index = self._results.get(_escaped(str(name)))
        if index is None:
            raise OperatorError("argument/scan", f"'{self._fragment}' has no result '{name}'")
        return index

    def require(self, assigned: set[str]) -> None:
        """Raise OperatorError for a parameter that is not assigned."""
        if missing := [p for p in self._parameters.values() if p not in assigned]:
            message = f"parameter '{missing[0]}' of '{self._fragment}' has no value"
            raise OperatorError("argument/scan", message)


def _escaped(name: str) -> str:
    """A name as an identifier: torch_to_nnef replaces other characters by underscores."""
    return _OTHER.sub("_", name)


def _tuples(value: Any, lengths: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """The items of an array of tuples of these lengths; raises OperatorError."""
    if not isinstance(value, tuple):
        raise OperatorError("argument/scan", "an array of tuples is expected")
    items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
    for item in items:
        if not isinstance(item, tuple) or len(item) not in lengths:  # pyright: ignore[reportUnknownArgumentType]
            raise OperatorError("argument/scan", f"a tuple of {lengths[-1]} items is expected")
    return list(items)


def _scanned(item: tuple[Any, ...], names: _FragmentNames) -> _Scanned:
    """A tuple of `scan`: parameter, tensor, axis, chunk; raises OperatorError."""
    name = names.parameter(item[0])
    tensor = operand(item[1])
    chunk = integers(item[3])[0]
    if chunk == 0:
        raise OperatorError("argument/scan", "a chunk must not be 0")
    return _Scanned(name, tensor, normalize_axis(integers(item[2])[0], tensor.type.rank), chunk)


def _output(item: tuple[Any, ...], names: _FragmentNames) -> _Output:
    """A tuple of `output`: result, kind, axis, chunk (absent in old documents)."""
    name, kind, axis, *chunk = item
    if kind not in ("full", "last"):
        raise OperatorError("argument/scan", f"an output is 'full' or 'last', not {kind!r}")
    extent = integers(chunk[0])[0] if chunk else 1
    return _Output(names.result(name), kind == "last", integers(axis)[0], extent)


def _stacks(outputs: Sequence[_Output], states: Sequence[_State]) -> list[_Stack]:
    """The results to stack: all with a `full` output, and `last` outputs that are not states."""
    full = {o.result: _Stack(o.result, o.axis, o.chunk < 0) for o in outputs if not o.is_last}
    ends = {s.result for s in states}
    wanted = dict.fromkeys(o.result for o in outputs)
    return [full.get(r, _Stack(r, 0, False)) for r in wanted if r in full or r not in ends]


def _turns(scanned: Sequence[_Scanned]) -> int:
    """The number of turns, which all scanned tensors agree on; raises OperatorError."""
    counts: list[int] = []
    for each in scanned:
        extent, chunk = each.tensor.type.dims[each.axis], abs(each.chunk)
        if extent % chunk:
            message = f"'{each.name}': extent {extent} is not a multiple of the chunk {chunk}"
            raise OperatorError("argument/scan", message)
        counts.append(extent // chunk)
    if not counts or any(count != counts[0] for count in counts):
        message = f"the scanned tensors do not determine the number of turns: {counts}"
        raise OperatorError("argument/scan", message)
    return counts[0]


def _unstacked(make: OpBuilder, stack: _Stack, x: Operand, turns: int, *, is_last: bool) -> Operand:
    """A stacked result with its axis moved back, of all turns or of the last one."""
    if is_last and turns == 0:
        raise OperatorError("operator/empty", "a loop without turns has no last chunk")
    if is_last:
        extent = x.type.dims[0]
        length = extent // turns
        begin = 0 if stack.is_backwards else extent - length
        x = slice_in_dim(make, x, 0, begin, begin + length)
    return _moved(make, x, 0, _axis_in(x, stack.axis))


def _axis_in(x: Operand, axis: int) -> int:
    """A normalized axis of `x`, where a scalar counts as rank 1."""
    return normalize_axis(axis, max(x.type.rank, 1))


def _moved(make: OpBuilder, x: Operand, axis: int, to: int) -> Operand:
    """A tensor with dimension `axis` moved to `to`, as `numpy.moveaxis`."""
    order = [i for i in range(x.type.rank) if i != axis]
    if x.type.rank:
        order.insert(to, axis)
    return make.transpose(x, order)
