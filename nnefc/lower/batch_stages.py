"""Lowering of stages: the launches of a stage are repeated over slices of the batch."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nnefc.lower.repeated_launches import move_slices, repeat, slice_buffer
from nnefc.program.program import Buffer, Program, Ref

if TYPE_CHECKING:
    from nnefc.ir.stages import BatchTensor, Stage

Refs = list[Ref]


class Stages:
    """The stages of a program under construction: buffers between stages, and repetition."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._buffers: dict[BatchTensor, Buffer] = {}

    @contextmanager
    def lowering(self, stage: Stage) -> Generator[tuple[Refs, Refs]]:
        """Context manager: the memory of the inputs and outputs of `stage` during one turn.

        The launches appended inside form one turn.  On exit a stage of several turns repeats them,
        with launches in between that move the slices of the batch.
        """
        program, taken = self._program, len(stage.inputs)
        passed = [Ref(self._buffer(tensor)) for tensor in (*stage.inputs, *stage.outputs)]
        if stage.turns == 1:
            yield passed[:taken], passed[taken:]
            return
        values = (*stage.graph.inputs, *stage.graph.outputs)
        views = [
            slice_buffer(program, value.type.nbytes, whole.buffer.label)
            for value, whole in zip(values, passed, strict=True)
        ]
        start = len(program.launches)
        refs = [Ref(view) for view in views]
        yield refs[:taken], refs[taken:]
        moves = list(zip(views, passed, strict=True))
        cut = [view for view, whole in moves if view.nbytes < whole.buffer.nbytes]
        first = move_slices(moves, passed, "turn first")
        following = move_slices([(view, Ref(view, view.nbytes)) for view in cut], passed)
        repeat(program, start, stage.turns, first, [[following]], passed)

    def _buffer(self, tensor: BatchTensor) -> Buffer:
        """The buffer of a tensor of the whole batch."""
        buffer = self._buffers.get(tensor)
        if buffer is None:
            nbytes, name = tensor.type.nbytes, tensor.name
            if tensor.input is not None:
                buffer = Buffer("input", nbytes, tensor.input, name)
            elif tensor.output is not None:
                buffer = Buffer("output", nbytes, tensor.output, name)
            else:
                buffer = Buffer("arena", nbytes, label=name)
            self._buffers[tensor] = buffer
        return buffer
