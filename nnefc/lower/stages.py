"""Stages of a graph → launches: those of a stage run again and again, over slices of the batch."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nnefc.kernels import slices
from nnefc.kernels.template import Kernel
from nnefc.runtime.program import Buffer, Launch, Program, Ref

if TYPE_CHECKING:
    from nnefc.ir.stages import Carried, Stage

Buffers = list[Buffer]


class Stages:
    """The stages of a program that is being made: what they pass on, and their turns."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._buffers: dict[Carried, Buffer] = {}

    @contextmanager
    def lowering(self, stage: Stage) -> Generator[tuple[Buffers, Buffers]]:
        """The buffers of the inputs and outputs of `stage`, for one turn.

        What is launched meanwhile is a turn: where a stage has several, the same launches are in
        the program as often, and between them others that let the slices of the batch move on.
        """
        program, taken = self._program, len(stage.inputs)
        passed = [self._buffer(carried) for carried in (*stage.inputs, *stage.outputs)]
        if stage.turns == 1:
            yield passed[:taken], passed[taken:]
            return
        values = (*stage.graph.inputs, *stage.graph.outputs)
        views = [
            Buffer("slice", value.type.nbytes, program.slices + i, whole.label)
            for i, (value, whole) in enumerate(zip(values, passed, strict=True))
        ]
        program.slices += len(views)
        start = len(program.launches)
        yield views[:taken], views[taken:]
        turn = program.launches[start:]
        first, following = _moves(views, passed)
        program.launches[start:] = [first, *turn, *[following, *turn] * (stage.turns - 1)]

    def _buffer(self, carried: Carried) -> Buffer:
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


def _moves(views: list[Buffer], wholes: list[Buffer]) -> tuple[Launch, Launch]:
    """(what runs before the first turn, what runs before each of the others).

    Both name the tensors, which are therefore needed from before the launches of a turn to after
    them, whichever turn it is.
    """
    words = slices.pack(
        [
            slices.SLICE.pack(
                slice=Ref(view, writes=True),
                whole=Ref(whole),
                nbytes=view.nbytes if view.nbytes < whole.nbytes else 0,
            )
            for view, whole in zip(views, wholes, strict=True)
        ]
    )
    return (
        Launch(Kernel("slices.first"), words, 1, "turn first"),
        Launch(Kernel("slices.next"), words, 1, "turn next"),
    )
