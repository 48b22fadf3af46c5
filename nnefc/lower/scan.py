"""Lowering of `scan`: the launches of its body, repeated over moving slices.

Inputs and outputs of the body are slices (`nnefc.lower.repeated_launches`), so no turn copies.
Slices of scanned and stacked tensors advance with every turn.  The slices of a state alternate
between two buffers, such that the last turn writes the final state; if the new state is stacked as
well, it is read from the stacked tensor.

A loop with a condition is left between turns, where the states are in the buffers that the last
turn would write: before every second turn.  All of its states have such buffers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnefc.ir import Op, Value
from nnefc.lower.buffer_aliasing import underlying
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.lower_graph import is_computed, lower_graph
from nnefc.lower.repeated_launches import (
    Move,
    jump,
    move_slices,
    repeat,
    slice_buffer,
    target,
)
from nnefc.lower.while_loop import while_loop
from nnefc.ops.internal.scan import NAME, ScanSignature
from nnefc.program.program import Buffer, Launch, Ref
from nnefc.symbolic.integers import SymInt


@lowering(NAME)
def scan(lower: Lowering, op: Op) -> None:
    """Lower the body once and repeat its launches, one turn per step of the scan."""
    signature = ScanSignature(op)
    if signature.is_unbounded:
        while_loop(lower, op)
        return
    loop = _Loop(lower, op)
    context = lower.for_body(signature.body)
    inputs: list[Ref | None] = [Ref(state.before) for state in loop.states]
    inputs += [Ref(each.view) for each in loop.scanned]
    first = signature.first_shared
    shared = lower.pass_operands(context, op.inputs[first:], signature.body.inputs[first:])
    loop.keep_alive += [ref for ref in shared if ref is not None]
    inputs += shared
    outputs = [state.after and Ref(state.after) for state in loop.states]
    outputs += [Ref(each.view) for each in loop.stacked]
    start = len(lower.program.launches)
    lower_graph(context, inputs, outputs)
    following, left = loop.following(), loop.leave()
    before = [[launch] for launch in following]
    if left is not None:  # the final states are where turn `turns` would read them
        before[(signature.turns - 1) % 2].insert(0, left[0])
    repeat(lower.program, start, signature.turns, loop.first(), before, loop.keep_alive)
    if left is not None:
        lower.program.launches.append(left[1])
    for state, value in zip(loop.states, op.outputs[: signature.states], strict=True):
        if state.alias_of is not None:
            lower.alias(value, op.outputs[state.alias_of], loop.final_offset(state.alias_of))
        elif lower.find(value) is None:
            lower.bind(value, loop.final_ref(state))


@dataclass(frozen=True, slots=True)
class _SlicedTensor:
    """A tensor that turns read or write slice by slice."""

    view: Buffer
    whole: Ref
    turns: int
    backwards: bool

    def offset(self, turn: int) -> int:
        """Byte offset of the slice of a turn."""
        return self.view.nbytes * (self.turns - 1 - turn if self.backwards else turn)

    def move(self, turn: int) -> Move:
        """Moves the view to the slice of a turn, from that of the previous turn."""
        if not turn:
            return self.view, replace(self.whole, offset=self.whole.offset + self.offset(0))
        return self.view, Ref(self.view, self.offset(1) - self.offset(0))


@dataclass(frozen=True, slots=True)
class _LoopState:
    """A state: the slice that a turn reads, and the slice that it writes.

    `targets`: the two ranges that turns write alternately, starting with the first.  `alias_of`:
    the result of the scan that holds the new state already, which needs no `after` and `targets`.
    """

    before: Buffer
    initial: Ref
    after: Buffer | None = None
    targets: tuple[Ref, ...] = ()
    alias_of: int | None = None


class _Loop:
    """The slices of a scan, and how they move."""

    def __init__(self, lower: Lowering, op: Op) -> None:
        self._lower, self._op, self._signature = lower, op, ScanSignature(op)
        self.keep_alive: list[Ref] = []
        """Memory that must stay allocated during all turns."""
        states, body = self._signature.states, self._signature.body
        self.scanned = [
            self._sliced(
                lower.read(op.inputs[i]), body.inputs[i], self._signature.takes_backwards(i)
            )
            for i in range(states, self._signature.first_shared)
        ]
        self.stacked = [
            self._sliced(
                lower.write(op.outputs[i]), body.outputs[i], self._signature.gives_backwards(i)
            )
            for i in range(states, len(op.outputs))
        ]
        self.states: list[_LoopState] = []
        for i in range(states):
            self.states.append(self._state(i))

    def _slice(self, value: Value) -> Buffer:
        return slice_buffer(self._lower.program, value.type.nbytes, value.name)

    def _sliced(self, whole: Ref, slice_value: Value, backwards: bool) -> _SlicedTensor:
        self.keep_alive.append(whole)
        return _SlicedTensor(self._slice(slice_value), whole, self._signature.turns, backwards)

    def _state(self, number: int) -> _LoopState:
        """Allocate state `number`; earlier states exist already."""
        body = self._signature.body
        initial, new = self._lower.read(self._op.inputs[number]), body.outputs[number]
        before = self._slice(body.inputs[number])
        self.keep_alive.append(initial)
        alias_of = self._find_alias(number)
        if alias_of is not None:
            return _LoopState(before, initial, alias_of=alias_of)
        nbytes, turns = new.type.nbytes, self._signature.turns
        if isinstance(turns, SymInt):  # either may be written last
            both = self._lower.scratch(2 * nbytes, new.name)
            targets = both, replace(both, offset=nbytes)
        else:
            final = self._lower.write(self._op.outputs[number])
            targets = final, self._lower.scratch(nbytes, new.name)
            targets = targets if turns % 2 else targets[::-1]
        self.keep_alive += targets
        return _LoopState(before, initial, self._slice(new), targets)

    def _find_alias(self, number: int) -> int | None:
        """The result that equals the new state: a stacked one, or that of an earlier state.

        None if no result does, or if the new state is copied instead of computed.
        """
        if self._signature.condition is not None:
            return None
        values = [underlying(value) for value in self._signature.body.outputs]
        if not is_computed(values[number]):
            return None
        stacked = range(self._signature.states, len(values))
        return next((i for i in (*stacked, *range(number)) if values[i] is values[number]), None)

    def first(self) -> Launch:
        """The launch that moves the slices to the first turn."""
        return move_slices(self._moves(0), self.keep_alive, "turn first")

    def following(self) -> list[Launch]:
        """Launches that move the slices to further turns; used cyclically."""
        turns = range(1, 2 if all(state.after is None for state in self.states) else 3)
        return [move_slices(self._moves(turn), self.keep_alive) for turn in turns]

    def leave(self) -> tuple[Launch, Launch] | None:
        """Launches that leave the loop and end it; None without a condition."""
        number, turns = self._signature.condition, self._signature.turns
        if number is None or isinstance(turns, SymInt) or turns < 3:
            return None
        condition = self.states[number].after
        assert condition is not None
        mark, alive = self._lower.program.new_mark(), self.keep_alive
        leave = jump(Ref(condition), mark, when=False, keep_alive=alive, label="leave")
        return leave, target(mark, alive, "left")

    def _moves(self, turn: int) -> list[Move]:
        """Moves of all slices before a turn.

        States come first, because their locations depend on slices before those move.
        """
        moves = [
            (state.before, self._computed_ref(state, turn) if turn else state.initial)
            for state in self.states
        ]
        moves += [(state.after, self._target(state, turn)) for state in self.states if state.after]
        return [*moves, *(each.move(turn) for each in (*self.scanned, *self.stacked))]

    def _computed_ref(self, state: _LoopState, turn: int) -> Ref:
        """The memory of a state that the previous turn has computed."""
        if state.alias_of is None:
            return self._target(state, turn - 1)
        if state.alias_of < self._signature.states:
            return self._computed_ref(self.states[state.alias_of], turn)
        return Ref(self.stacked[state.alias_of - self._signature.states].view)

    def _target(self, state: _LoopState, turn: int) -> Ref:
        """The memory that a turn writes a state to that is not an alias."""
        return state.targets[turn % 2]

    def final_ref(self, state: _LoopState) -> Ref:
        """The memory that the last turn wrote a state to; its two targets are adjacent."""
        first, second = state.targets
        last = (self._signature.turns - 1) % 2
        offset = first.offset + last * (second.offset - first.offset)
        return replace(first, offset=offset, writes=False)

    def final_offset(self, result: int) -> int:
        """Byte offset of the last turn's slice in a result."""
        if result < self._signature.states:
            return 0
        return self.stacked[result - self._signature.states].offset(self._signature.turns - 1)
