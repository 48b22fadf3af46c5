"""Branches (`If`) and loops (`Loop`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from onnx import ValueInfoProto

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.counted_numbers import has_counts
from nnefc.frontends.common.value_bounds import bounds
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, integers, operand
from nnefc.frontends.onnx.control_flow.branches import branched
from nnefc.frontends.onnx.control_flow.selection import int64_tensor, selected_of_shapes
from nnefc.frontends.onnx.control_flow.subgraphs import Captured, captured_values, evaluated
from nnefc.frontends.onnx.control_flow.turns import (
    LIMIT,
    TRUE,
    Body,
    StopsAtRunTime,
    Turn,
    Turns,
    masked,
    masked_while,
)
from nnefc.frontends.onnx.node import BrokenBody, Failure, Subgraph
from nnefc.frontends.onnx.registry import operator
from nnefc.frontends.onnx.sequences import merged, tensors_in
from nnefc.frontends.onnx.tensors import dtype_of
from nnefc.ir import DType, TensorType, Value
from nnefc.ops.internal.scan import UNBOUNDED
from nnefc.support.errors import NnefError
from nnefc.symbolic.integers import is_symbolic

MAX_TURNS: Final = 1 << 24
"""The largest M that bounds the number of turns; exporters write 2^63 - 1 for a `while` loop."""


LISTED_TURNS: Final = 1 << 12
"""The largest known number of turns for which a plan lists the launches of each turn, if it need
not."""


@operator("If")
def if_(make: OpBuilder, cond: Operand, *, then_branch: Subgraph, else_branch: Subgraph) -> Any:
    """The results of one branch.

    If the condition is computed at run time, one branch runs; or both, if a branch must be
    evaluated in the graph around it, and their results are selected.
    """
    condition = _flag(make, cond, "cond")
    if isinstance(condition, KnownTensor):
        branch = then_branch if condition.array.all() else else_branch
        return tuple(evaluated(make, branch))
    branches = (then_branch, else_branch)
    failed: dict[int, Failure] = make.evaluator.failed
    if id(then_branch.proto) not in failed:
        try:
            return branched(make, condition, branches)
        except (OperatorError, NnefError) as wrong:  # reported below, if it fails there as well
            failed[id(then_branch.proto)] = Failure(then_branch.proto, str(wrong))
    results = [evaluated(make, branch) for branch in branches]
    if len(results[0]) != len(results[1]):
        message = f"one branch has {len(results[0])} results, the other {len(results[1])}"
        raise OperatorError("onnx/arguments", message)

    def choose(a: Operand, b: Operand) -> Operand:
        return selected_of_shapes(make, condition, a, b)

    return tuple(merged(a, b, choose) for a, b in zip(*results, strict=True))


@operator("Loop")
def loop(
    make: OpBuilder,
    M: Operand | None = None,
    cond: Operand | None = None,
    *v_initial: Any,
    body: Subgraph,
) -> Any:
    """The states after the last turn, then the other results of the body, stacked.

    Where the number of turns is only known at run time, the loop runs without a bound.  If results
    are stacked, or the body cannot be evaluated for all turns at once, turns up to the bound M are
    computed; the last of them leave the states as they are, and their results do not count.
    """
    most = make.value(M) if M is not None and has_counts(M) else M
    try:
        return _turns(make, most, cond, list(v_initial), body)
    except StopsAtRunTime as wrong:
        around = [M, cond, *tensors_in([*v_initial, *captured_values(body).values()])]
        raise StopsAtRunTime([*wrong.unknown, *around], wrong.reason) from None


def _turns(
    make: OpBuilder, M: Operand | None, cond: Operand | None, states: list[Any], body: Subgraph
) -> Any:
    """The results of a loop; raises OperatorError."""
    captured = captured_values(body)
    active = TRUE if cond is None else _flag(make, cond, "cond")
    most = _most_turns(make, M)
    if isinstance(active, KnownTensor) and not active.array.all():
        most = 0
    never_stops = _never_stops(body)
    turn = _turn_of(body, never_stops=never_stops)
    declared = _declared_types(body.proto.output[1 + len(states) :])
    loops = Turns(turn, most, states, None, captured, declared=declared, never_stops=never_stops)
    is_known = not isinstance(M, Value) and isinstance(active, KnownTensor)
    if (is_known and not _has_many_turns(M, most)) or (most is not None and most == 0):
        with suppress(StopsAtRunTime):
            finals, stacked = loops.run(make)
            return (*finals, *stacked)
    failed: dict[int, Failure] = make.evaluator.failed
    try:
        if len(body.proto.output) > 1 + len(states):
            raise OperatorError("onnx/unsupported", _STACKED)
        if most is not None and id(body.proto) in failed:  # once is enough where there is a bound
            raise OperatorError("onnx/unsupported", failed[id(body.proto)].reason)
        limit = None if M is None or _is_endless(M) else make.reshape(M, ())
        return tuple(loops.as_while(make, active, limit))
    except (OperatorError, NnefError) as wrong:
        reason = wrong.message if isinstance(wrong, OperatorError) else wrong.errors[0].message
        failed[id(body.proto)] = Failure(body.proto, reason)
    if is_known and _has_many_turns(M, most):
        with suppress(StopsAtRunTime):
            finals, stacked = loops.run(make)
            return (*finals, *stacked)
    try:
        return _masked(make, M, [active, int64_tensor(0)], loops)
    except BrokenBody:
        raise
    except OperatorError as wrong:
        if most is None or isinstance(wrong, StopsAtRunTime):
            raise StopsAtRunTime(wrong.unknown, reason) from None
        raise


def _masked(make: OpBuilder, M: Operand | None, head: list[Any], loops: Turns) -> Any:
    """The results of a loop that computes all turns up to its bound; raises OperatorError.

    `head`: whether the first turn runs, and 0.
    """
    states, captured = loops.states, loops.captured
    if loops.count is not None:
        if isinstance(M, Value):
            captured = {**captured, LIMIT: make.reshape(M, ())}
        body, count = masked(loops.body), loops.count
        turns = Turns(body, count, [*head, *states], None, captured, stops=True)
    elif not isinstance(M, Value):
        body = masked_while(loops.body)
        turns = Turns(body, None, [*head, *states, *states], None, captured)
    else:
        raise StopsAtRunTime
    (_, number, *finals), stacked = turns.run(make)
    for y in stacked:
        if isinstance(y, Value):
            make.counted[y] = 0, make.value(number)
    return (*finals[len(finals) - len(states) :], *stacked)


_STACKED: Final = "its body has results for each turn, and only a bound tells how many there may be"


def _is_endless(M: Operand) -> bool:
    """Whether M is the number that exporters write for a `while` loop."""
    return isinstance(M, KnownTensor) and not M.is_symbolic and integers(M)[0] == UNBOUNDED


def _has_many_turns(M: Operand | None, most: int | None) -> bool:
    """Whether a known number of turns is better counted by a run than listed in a plan."""
    if not isinstance(M, KnownTensor) or _is_endless(M):
        return False
    return most is None or is_symbolic([most]) or most > LISTED_TURNS


def _turn_of(body: Subgraph, *, never_stops: bool) -> Body:
    """The turn of a loop, whose only slice is the number of the turn."""

    def turn(make: OpBuilder, states: list[Any], slices: list[Operand], captured: Captured) -> Turn:
        given = [make.reshape(x, _declared(body, i)) for i, x in enumerate((slices[0], TRUE))]
        found = evaluated(make, body, [*given, *states], captured)
        if len(found) < 1 + len(states):
            message = f"the body gives {len(found)} results; a condition and {len(states)} states"
            raise OperatorError("onnx/arguments", f"{message} are expected")
        goes_on, *results = found
        stacked = [operand(y) for y in results[len(states) :]]
        flag = _flag(make, goes_on, "its condition")
        return Turn(results[: len(states)], stacked, None if never_stops else flag)

    return turn


def _never_stops(body: Subgraph) -> bool:
    """Whether the body of a loop passes its condition on, or a known one: it is a `for` loop."""
    proto = body.proto
    passed = {each.name for each in proto.input[1:2]}
    own = {name for node in proto.node for name in node.output}

    def goes_on(name: str) -> bool:
        known = None if name in own else body.scope.find(name)
        if isinstance(known, KnownTensor) and not known.is_symbolic:
            return bool(known.array.all())
        return name in passed

    for node in proto.node:
        if node.op_type in ("Identity", "Cast") and all(map(goes_on, node.input)):
            passed.update(node.output)
    return all(goes_on(each.name) for each in proto.output[:1])


def _declared(body: Subgraph, index: int) -> tuple[int, ...]:
    """The shape of an input with one item: [], or [1] in models that declare that."""
    inputs = body.proto.input
    return (1,) * (len(inputs[index].type.tensor_type.shape.dim) if index < len(inputs) else 0)


def _declared_types(outputs: Sequence[ValueInfoProto]) -> list[TensorType] | None:
    """The types of results as they are declared, 0 for unknown extents; None if one has no type."""
    types: list[TensorType] = []
    for each in outputs:
        tensor = each.type.tensor_type
        dtype = dtype_of(tensor.elem_type)
        if dtype is None:
            return None
        types.append(TensorType(dtype, tuple(max(dim.dim_value, 0) for dim in tensor.shape.dim)))
    return types


def _flag(make: OpBuilder, x: Any, name: str) -> Operand:
    """A condition as a tensor of rank 0; raises OperatorError."""
    condition = operand(x)
    if condition.type.dtype is not DType.BOOL or condition.type.volume != 1:
        message = f"{name} is {condition.type}; one boolean is expected"
        raise OperatorError("onnx/type", message)
    return make.reshape(condition, ())


def _most_turns(make: OpBuilder, M: Operand | None) -> int | None:
    """The number of turns, or a bound of it; None if there is none."""
    if M is None:
        return None
    if M.type.dtype is not DType.INT64 or M.type.volume != 1:
        raise OperatorError("onnx/type", f"M is {M.type}; one int64 is expected")
    if isinstance(M, Value):
        most = int(bounds(M, captured=make.captured)[1])
    else:
        (most,) = integers(M)
    if most < 0:
        return 0
    return None if most > MAX_TURNS else most
