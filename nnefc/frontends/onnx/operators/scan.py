"""Loops over the items of tensors (`Scan`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError, operand
from nnefc.frontends.onnx.control_flow.selection import int64_tensor
from nnefc.frontends.onnx.control_flow.subgraphs import Captured, captured_values, evaluated
from nnefc.frontends.onnx.control_flow.turns import Body, Turn, Turns, item, masked
from nnefc.frontends.onnx.node import Subgraph
from nnefc.frontends.onnx.registry import Integers, operator
from nnefc.ir import DType


@operator("Scan", since=9)
def scan_9(
    make: OpBuilder,
    *initial_state_and_scan_inputs: Operand,
    body: Subgraph,
    num_scan_inputs: int,
    scan_input_axes: Integers | None = None,
    scan_input_directions: Integers | None = None,
    scan_output_axes: Integers | None = None,
    scan_output_directions: Integers | None = None,
) -> Any:
    """The states after the last turn, then the other results of the body, stacked along axes."""
    states, scanned = _split(initial_state_and_scan_inputs, num_scan_inputs)
    outputs = len(body.proto.output) - len(states)
    axes = _listed(scan_input_axes, num_scan_inputs, "scan_input_axes")
    output_axes = _listed(scan_output_axes, outputs, "scan_output_axes")
    moved = [_moved(make, x, axis, 0) for x, axis in zip(scanned, axes, strict=True)]
    backwards = (
        *_flags(scan_input_directions, num_scan_inputs, "scan_input_directions"),
        *_flags(scan_output_directions, outputs, "scan_output_directions"),
    )
    finals, stacked = Turns(
        _turn_of(body), _count(moved), list(states), moved, captured_values(body), backwards
    ).run(make)
    pairs = zip(stacked, output_axes, strict=True)
    return (*finals, *(_moved(make, y, 0, axis) for y, axis in pairs))


@operator("Scan", until=8)
def scan_8(
    make: OpBuilder,
    sequence_lens: Operand | None = None,
    *initial_state_and_scan_inputs: Operand,
    body: Subgraph,
    num_scan_inputs: int,
    directions: Integers | None = None,
) -> Any:
    """The same for each item of a batch: states [batch, ...], scanned tensors [batch, time, ...].

    `sequence_lens`: the number of turns of each item; results behind them are 0.
    """
    every = initial_state_and_scan_inputs
    states, scanned = _split(every, num_scan_inputs)
    if not scanned or any(x.type.rank < 2 for x in scanned):
        shapes = [list(x.type.dims) for x in scanned]
        message = f"the scanned tensors have shapes {shapes}; [batch, time, ...] is expected"
        raise OperatorError("onnx/shape", message)
    batch, time = scanned[0].type.dims[:2]
    _check_batch(batch, time, states, scanned, sequence_lens)
    flags = _flags(directions, num_scan_inputs, "directions")
    rows: list[list[Operand]] = []
    for index in range(batch):
        length = None if sequence_lens is None else item(make, sequence_lens, index)
        before, slices = _split([item(make, x, index) for x in every], num_scan_inputs)
        rows.append(_row(make, body, before, slices, flags, length, time))
    columns = [[make.reshape(x, (1, *x.type.dims)) for x in c] for c in zip(*rows, strict=True)]
    return tuple(c[0] if batch == 1 else make("concat", c, axis=0) for c in columns)


def _check_batch(
    batch: int,
    time: int,
    states: Sequence[Operand],
    scanned: Sequence[Operand],
    lengths: Operand | None,
) -> None:
    """Raise OperatorError for tensors of another batch or time."""
    of_batch = [*states, *([] if lengths is None else [lengths])]
    if any(x.type.dims[:1] != (batch,) for x in of_batch) or any(
        x.type.dims[:2] != (batch, time) for x in scanned
    ):
        shapes = ", ".join(str(list(x.type.dims)) for x in (*of_batch, *scanned))
        message = f"tensors of a batch of {batch} and {time} turns have shapes {shapes}"
        raise OperatorError("onnx/shape", message)
    if batch == 0:
        raise OperatorError("onnx/unsupported", "a batch without items")


def _row(
    make: OpBuilder,
    body: Subgraph,
    states: Sequence[Operand],
    scanned: Sequence[Operand],
    backwards: Sequence[bool],
    length: Operand | None,
    time: int,
) -> list[Operand]:
    """The results of an item of a batch, whose scanned tensors are [time, ...]."""
    captured = captured_values(body)
    if length is None:
        outputs = len(body.proto.output) - len(states)
        flags = (*backwards, *(False,) * outputs)
        turns = Turns(_turn_of(body), time, list(states), list(scanned), captured, flags)
        finals, stacked = turns.run(make)
        return [*finals, *stacked]
    length = make.cast(length, DType.INT64)
    number = make.iota(time)
    is_active = make("lt", number, length)
    last = make("max", make("sub", make("sub", length, number), 1), 0)
    ordered = [
        make("gather", x, last, axis=0) if flag else x
        for x, flag in zip(scanned, backwards, strict=True)
    ]

    def turn(within: OpBuilder, before: list[Any], slices: list[Operand], names: Captured) -> Turn:
        first, *rest = slices
        inner = masked(_turn_of(body))(within, [first, int64_tensor(0), *before], rest, names)
        results = [within("select", first, y, 0) for y in inner.results]
        return Turn(inner.states[2:], results)

    finals, stacked = Turns(turn, time, list(states), [is_active, *ordered], captured).run(make)
    return [*finals, *stacked]


def _turn_of(body: Subgraph) -> Body:
    def turn(make: OpBuilder, states: list[Any], slices: list[Operand], captured: Captured) -> Turn:
        results = evaluated(make, body, [*states, *slices], captured)
        if len(results) < len(states):
            message = f"the body gives {len(results)} results, the loop has {len(states)} states"
            raise OperatorError("onnx/arguments", message)
        return Turn(results[: len(states)], [operand(y) for y in results[len(states) :]])

    return turn


def _split(inputs: Sequence[Operand], scanned: int) -> tuple[Sequence[Operand], Sequence[Operand]]:
    """The states and the scanned tensors; raises OperatorError."""
    if not 1 <= scanned <= len(inputs):
        message = f"num_scan_inputs is {scanned}; it must be from 1 to {len(inputs)}"
        raise OperatorError("onnx/arguments", message)
    states = len(inputs) - scanned
    return inputs[:states], inputs[states:]


def _count(scanned: Sequence[Operand]) -> int:
    """The number of turns, on which all scanned tensors agree; raises OperatorError."""
    counts = [x.type.dims[0] for x in scanned]
    if any(count != counts[0] for count in counts):
        message = f"the scanned tensors have different lengths: {counts}"
        raise OperatorError("onnx/shape", message)
    return counts[0]


def _listed(given: Integers | None, count: int, name: str) -> Integers:
    """An attribute with an item per tensor, by default 0; raises OperatorError."""
    if given is None:
        return (0,) * count
    if len(given) != count:
        message = f"{name} has {len(given)} items; {count} are expected"
        raise OperatorError("onnx/arguments", message)
    return given


def _flags(given: Integers | None, count: int, name: str) -> list[bool]:
    return [bool(each) for each in _listed(given, count, name)]


def _moved(make: OpBuilder, x: Operand, source: int, target: int) -> Operand:
    """A tensor with one axis moved, as `numpy.moveaxis`; raises OperatorError."""
    rank = x.type.rank
    for axis in (source, target):
        if not -rank <= axis < rank:
            message = f"a tensor of shape {list(x.type.dims)} has no axis {axis}"
            raise OperatorError("onnx/shape", message)
    order = [axis for axis in range(rank) if axis != source % rank]
    order.insert(target % rank, source % rank)
    return make.transpose(x, order)
