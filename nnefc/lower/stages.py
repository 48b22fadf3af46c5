"""Stages of a graph → launches: those of a stage run again and again, over slices of the batch."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nnefc.lower.repeated_launches import moving, repeat, slice_buffer
from nnefc.program.program import Buffer, Program, Ref

if TYPE_CHECKING:
    from nnefc.ir.stages import BatchTensor, Stage

Refs = list[Ref]


class Stages:
    """The stages of a program that is being made: what they pass on, and their turns."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._buffers: dict[BatchTensor, Buffer] = {}

    @contextmanager
    def lowering(self, stage: Stage) -> Generator[tuple[Refs, Refs]]:
        """Where the inputs and outputs of `stage` are in one turn.

        What is launched meanwhile is a turn: where a stage has several, the same launches are in
        the program as often, and between them others that let the slices of the batch move on.
        """
        program, taken = self._program, len(stage.inputs)
        passed = [Ref(self._buffer(carried)) for carried in (*stage.inputs, *stage.outputs)]
        if stage.turns == 1:
            yield passed[:taken], passed[taken:]
            return
        values = (*stage.graph.inputs, *stage.graph.outputs)
        views = [
            slice_buffer(program, value.type.nbytes, whole.buffer.label)
            for value, whole in zip(values, passed, strict=True)
        ]
        start = len(program.launches)
        places = [Ref(view) for view in views]
        yield places[:taken], places[taken:]
        moves = list(zip(views, passed, strict=True))
        cut = [view for view, whole in moves if view.nbytes < whole.buffer.nbytes]
        first = moving(moves, passed, "turn first")
        following = moving([(view, Ref(view, view.nbytes)) for view in cut], passed)
        repeat(program, start, stage.turns, first, [following], passed)

    def _buffer(self, carried: BatchTensor) -> Buffer:
        """Memory for a tensor of the whole batch."""
        found = self._buffers.get(carried)
        if found is None:
            nbytes, name = carried.type.nbytes, carried.name
            if carried.input is not None:
                found = Buffer("input", nbytes, carried.input, name)
            elif carried.output is not None:
                found = Buffer("output", nbytes, carried.output, name)
            else:
                found = Buffer("arena", nbytes, label=name)
            self._buffers[carried] = found
        return found
