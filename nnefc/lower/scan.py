"""scan: the launches of its body, turn after turn, over slices and states that move on.

What the body takes and gives are slices (`nnefc.lower.repeated_launches`), so that no turn copies:
a scanned or stacked tensor is looked at piece by piece, and a state is where the turn before has
left it.  That is in one of two buffers by turns, the last time in that of the final state; or, if
the new state is stacked as well, in the stacked tensor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnefc.ir import Op, Value
from nnefc.lower.buffer_aliasing import source
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.graphs import is_computed, lower_graph
from nnefc.lower.repeated_launches import Move, moving, repeat, slice_buffer
from nnefc.ops.internal.scan import NAME, ScanSignature
from nnefc.program.program import Buffer, Launch, Ref
from nnefc.symbolic.integers import SymInt


@lowering(NAME)
def scan(lower: Lowering, op: Op) -> None:
    """The body's launches once for every turn, or as they are if there is only one."""
    parts, loop = ScanSignature(op), _Loop(lower, op)
    context = lower.within(parts.body)
    inputs: list[Ref | None] = [Ref(state.before) for state in loop.states]
    inputs += [Ref(each.view) for each in loop.scanned]
    for outer, inner in zip(
        op.inputs[parts.first_shared :], parts.body.inputs[parts.first_shared :], strict=True
    ):
        data = lower.data(outer)
        if data is not None:
            context.know(inner, data)
        inputs.append(lower.read(outer) if data is None else None)
        loop.keep += [ref for ref in inputs[-1:] if ref is not None]
    outputs = [state.after and Ref(state.after) for state in loop.states]
    outputs += [Ref(each.view) for each in loop.stacked]
    start = len(lower.program.launches)
    lower_graph(context, inputs, outputs)
    repeat(lower.program, start, parts.turns, loop.first(), loop.following(), loop.keep)
    for state, value in zip(loop.states, op.outputs[: parts.states], strict=True):
        if state.home is not None:
            lower.alias(value, op.outputs[state.home], loop.last_offset(state.home))
        elif lower.find(value) is None:
            lower.place(value, loop.last_place(state))


@dataclass(frozen=True, slots=True)
class _SlicedTensor:
    """A tensor that is taken or given slice by slice."""

    view: Buffer
    whole: Ref
    turns: int
    backwards: bool

    def offset(self, turn: int) -> int:
        """Where the slice of a turn starts, in bytes."""
        return self.view.nbytes * (self.turns - 1 - turn if self.backwards else turn)

    def move(self, turn: int) -> Move:
        """To the slice of a turn, from the one of the turn before."""
        if not turn:
            return self.view, replace(self.whole, offset=self.whole.offset + self.offset(0))
        return self.view, Ref(self.view, self.offset(1) - self.offset(0))


@dataclass(frozen=True, slots=True)
class _LoopState:
    """A state: the slice that a turn reads, and the one that it writes.

    `places`: where the new state is by turns, the first time in the first of them.  `home`: the
    result of the scan that has the new state already, instead of both.
    """

    before: Buffer
    initial: Ref
    after: Buffer | None = None
    places: tuple[Ref, ...] = ()
    home: int | None = None


class _Loop:
    """The slices of a scan, and how they move."""

    def __init__(self, lower: Lowering, op: Op) -> None:
        self._lower, self._op, self._parts = lower, op, ScanSignature(op)
        self.keep: list[Ref] = []
        """What has to be in memory all the time."""
        states, body = self._parts.states, self._parts.body
        self.scanned = [
            self._cut(lower.read(op.inputs[i]), body.inputs[i], self._parts.takes_backwards(i))
            for i in range(states, self._parts.first_shared)
        ]
        self.stacked = [
            self._cut(lower.write(op.outputs[i]), body.outputs[i], self._parts.gives_backwards(i))
            for i in range(states, len(op.outputs))
        ]
        self.states: list[_LoopState] = []
        for i in range(states):
            self.states.append(self._state(i))

    def _slice(self, value: Value) -> Buffer:
        return slice_buffer(self._lower.program, value.type.nbytes, value.name)

    def _cut(self, whole: Ref, piece: Value, backwards: bool) -> _SlicedTensor:
        self.keep.append(whole)
        return _SlicedTensor(self._slice(piece), whole, self._parts.turns, backwards)

    def _state(self, number: int) -> _LoopState:
        """The state of that number, to those before it."""
        body = self._parts.body
        initial, new = self._lower.read(self._op.inputs[number]), body.outputs[number]
        before = self._slice(body.inputs[number])
        self.keep.append(initial)
        home = self._home(number)
        if home is not None:
            return _LoopState(before, initial, home=home)
        nbytes, turns = new.type.nbytes, self._parts.turns
        if isinstance(turns, SymInt):  # either may be the last
            both = self._lower.scratch(2 * nbytes, new.name)
            places = both, replace(both, offset=nbytes)
        else:
            final = self._lower.write(self._op.outputs[number])
            places = final, self._lower.scratch(nbytes, new.name)
            places = places if turns % 2 else places[::-1]
        self.keep += places
        return _LoopState(before, initial, self._slice(new), places)

    def _home(self, number: int) -> int | None:
        """The result that has the new state in any case: a stacked one, or that of a state before.

        None if there is none, or the new state is not computed but copied.
        """
        values = [source(value) for value in self._parts.body.outputs]
        if not is_computed(values[number]):
            return None
        stacked = range(self._parts.states, len(values))
        return next((i for i in (*stacked, *range(number)) if values[i] is values[number]), None)

    def first(self) -> Launch:
        """What lets the slices be those of the first turn."""
        return moving(self._moves(0), self.keep, "turn first")

    def following(self) -> list[Launch]:
        """What moves the slices before each further turn: one of these, by turns."""
        turns = range(1, 2 if all(state.after is None for state in self.states) else 3)
        return [moving(self._moves(turn), self.keep) for turn in turns]

    def _moves(self, turn: int) -> list[Move]:
        """Of all slices, before a turn; where states are is taken from other slices first."""
        moves = [
            (state.before, self._given(state, turn) if turn else state.initial)
            for state in self.states
        ]
        moves += [(state.after, self._place(state, turn)) for state in self.states if state.after]
        return [*moves, *(each.move(turn) for each in (*self.scanned, *self.stacked))]

    def _given(self, state: _LoopState, turn: int) -> Ref:
        """Where a state is that the turn before has computed."""
        if state.home is None:
            return self._place(state, turn - 1)
        if state.home < self._parts.states:
            return self._given(self.states[state.home], turn)
        return Ref(self.stacked[state.home - self._parts.states].view)

    def _place(self, state: _LoopState, turn: int) -> Ref:
        """Where a turn puts a state that is not stacked."""
        return state.places[turn % 2]

    def last_place(self, state: _LoopState) -> Ref:
        """Where the last turn has put a state, of places that lie side by side."""
        first, second = state.places
        last = (self._parts.turns - 1) % 2
        offset = first.offset + last * (second.offset - first.offset)
        return replace(first, offset=offset, writes=False)

    def last_offset(self, result: int) -> int:
        """Where in a result the last turn has put its slice."""
        if result < self._parts.states:
            return 0
        return self.stacked[result - self._parts.states].offset(self._parts.turns - 1)
