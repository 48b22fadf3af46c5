"""Lowering of a `scan` without a bound: its body once, and a jump back while the condition holds.

    move the slices to the first turn
    HEAD: jump to END unless the condition holds
    the launches of the body
    move the slices to the next turn
    jump to HEAD if the condition holds
    END
    copy the states to the results

The states alternate between two buffers.  A turn reads the slice `before` of each state and writes
`after`; `spare` is the third buffer of the rotation, so that one launch moves on from any turn.
Behind the loop, `before` is the last state, or the initial one if no turn has run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnefc.ir import Op, Value
from nnefc.lower.context import Lowering
from nnefc.lower.elementwise.expression import copy_bytes
from nnefc.lower.lower_graph import lower_graph
from nnefc.lower.repeated_launches import Move, jump, move_slices, slice_buffer, target
from nnefc.ops.internal.scan import ScanSignature
from nnefc.program.program import Buffer, Ref


@dataclass(frozen=True, slots=True)
class _State:
    """A state: its slices, its initial value, and the two buffers that turns write alternately.

    The first buffer is that of the result, if anything uses the result.
    """

    before: Buffer
    after: Buffer
    spare: Buffer
    initial: Ref
    targets: tuple[Ref, Ref]
    result: Value | None

    @property
    def first(self) -> list[Move]:
        """Moves before the first turn."""
        first, second = self.targets
        return [(self.before, self.initial), (self.after, first), (self.spare, second)]

    @property
    def following(self) -> list[Move]:
        """Moves before any other turn, in this order."""
        return [
            (self.before, Ref(self.after)),
            (self.after, Ref(self.spare)),
            (self.spare, Ref(self.before)),
        ]


def while_loop(lower: Lowering, op: Op) -> None:
    """Append the launches of a `scan` without a bound."""
    signature, program, launches = ScanSignature(op), lower.program, lower.program.launches
    body, number = signature.body, signature.condition
    assert number is not None
    states = [_state(lower, op, i) for i in range(signature.states)]
    context = lower.for_body(body)
    first = signature.states
    shared = lower.pass_operands(context, op.inputs[first:], body.inputs[first:])
    alive = [ref for each in states for ref in (each.initial, *each.targets)]
    alive += [ref for ref in shared if ref is not None]
    condition = Ref(states[number].before)
    head, end = program.new_mark(), program.new_mark()
    moves = [move for each in states for move in each.first]
    launches.append(move_slices(moves, alive, "turn first"))
    leave = jump(condition, end, when=False, label="leave")
    leave.mark = head
    launches.append(leave)
    inputs = [Ref(each.before) for each in states]
    lower_graph(context, [*inputs, *shared], [Ref(each.after) for each in states])
    moves = [move for each in states for move in each.following]
    launches.append(move_slices(moves, alive))
    launches.append(jump(condition, head, when=True, backwards=True, label="repeat"))
    launches.append(target(end, label="left"))
    for each in states:  # no other memory comes to life before these copies
        if each.result is not None:
            written, nbytes = replace(each.targets[0], writes=True), each.result.type.nbytes
            copy_bytes(lower, Ref(each.before), written, nbytes)


def _state(lower: Lowering, op: Op, number: int) -> _State:
    """Allocate state `number`."""
    value, result = ScanSignature(op).body.outputs[number], op.outputs[number]
    nbytes = value.type.nbytes
    before, after, spare = (slice_buffer(lower.program, nbytes, value.name) for _ in range(3))
    is_used = bool(result.users) or lower.graph.is_output(result)
    first = lower.write(result) if is_used else lower.scratch(nbytes, value.name)
    targets = first, lower.scratch(nbytes, value.name)
    initial = lower.read(op.inputs[number])
    return _State(before, after, spare, initial, targets, result if is_used else None)
