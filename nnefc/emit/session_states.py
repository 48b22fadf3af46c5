"""The states that a session of a C program keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from nnefc.emit.shape_code import ShapeCode
from nnefc.kernels.embedded.model_layout import SESSION, SESSION_USE
from nnefc.runtime.artifact.build_dynamic import PatternBuild
from nnefc.runtime.memory.caller_arrays import TensorSpec
from nnefc.support.alignment import ALIGNMENT


@dataclass(frozen=True, slots=True)
class SessionStates:
    """The states of a model, in the order of their operators.

    Their lengths are the parameters of a plan behind the symbols, followed by whether a call has
    stored the other states.
    """

    specs: tuple[TensorSpec, ...] = ()
    """Names and memory; a growing state has its capacity as extent."""
    axes: tuple[int | None, ...] = ()
    """The axis along which a state grows."""

    @classmethod
    def of(cls, patterns: Sequence[PatternBuild]) -> SessionStates:
        """The states of patterns, which all have the same ones."""
        specs: dict[str, TensorSpec] = {}
        axes: dict[str, int | None] = {}
        for pattern in patterns:
            for name, taken, returned, axis in pattern.session.states:
                if taken is not None:
                    memory = pattern.inputs[taken]
                else:
                    assert returned is not None
                    memory = pattern.outputs[returned]
                specs[name] = TensorSpec(name, memory.shape, memory.dtype)
                axes[name] = axis
        return cls(tuple(specs.values()), tuple(axes.values()))

    def rows(self, offset: int) -> tuple[list[int], int]:
        """The words of the table of states, whose memory begins at `offset`; and its end."""
        words: list[int] = []
        for spec, axis in zip(self.specs, self.axes, strict=True):
            place, offset = offset, _after(offset, _nbytes(spec))
            new_place = place
            if axis is None:
                new_place, offset = offset, _after(offset, _nbytes(spec))
            words += SESSION.pack(  # pyright: ignore[reportArgumentType]
                place=place,
                new_place=new_place,
                nbytes=_nbytes(spec),
                capacity=0 if axis is None else spec.shape[axis],
            )
        return words, offset

    def uses(self, pattern: PatternBuild, first_input: int, appended: Sequence[int]) -> list[int]:
        """The words that tell how a pattern uses each state.

        `first_input`: entry in the base table; `appended`: registers of `session.appended`.
        """
        session, first_output = pattern.session, first_input + len(pattern.inputs)
        states = {state.name: state for state in session.states}
        registers = {each.name: i for each, i in zip(session.appended, appended, strict=True)}
        words: list[int] = []
        for spec in self.specs:
            state = states[spec.name]
            words += SESSION_USE.pack(  # pyright: ignore[reportArgumentType]
                taken=-1 if state.input is None else first_input + state.input,
                returned=-1 if state.output is None else first_output + state.output,
                appended=registers.get(spec.name, -1),
            )
        return words

    def positions(self, pattern: PatternBuild) -> tuple[set[int], set[int]]:
        """The numbers of the inputs and of the outputs of a pattern that are states."""
        states = pattern.session.states
        taken = {state.input for state in states if state.input is not None}
        return taken, {state.output for state in states if state.output is not None}

    def extents(self, pattern: PatternBuild) -> dict[str, int]:
        """The numbers of parameters by the names of the extents of states in a trace."""
        first = len(pattern.conditions.symbols)
        lengths = self._lengths(pattern)
        return {
            f"s{first + number}": lengths[group[0]]
            for number, group in enumerate(pattern.conditions.groups)
        }

    def require(self, pattern: PatternBuild, code: ShapeCode) -> None:
        """Add the guards of a pattern on lengths, and on whether states have values."""
        conditions, lengths = pattern.conditions, self._lengths(pattern)
        fixed = set(conditions.fixed)
        for index, parameter in lengths.items():
            if index in fixed:
                code.require_equal(parameter, conditions.traced.extents[index])
        for first, *others in conditions.groups:
            for index in others:
                code.require_equal(lengths[index], other=lengths[first])
        others = [
            spec.name for spec, axis in zip(self.specs, self.axes, strict=True) if axis is None
        ]
        if others:
            has_values = int(others[0] in conditions.traced.names)
            code.require_equal(len(conditions.symbols) + len(self.specs), has_values)

    def _lengths(self, pattern: PatternBuild) -> dict[int, int]:
        """The numbers of parameters by the indices of growing extents in `ShapeKey.extents`."""
        key, first = pattern.conditions.traced, len(pattern.conditions.symbols)
        numbers = {spec.name: i for i, spec in enumerate(self.specs)}
        lengths: dict[int, int] = {}
        begin = 0
        for name, rank in zip(key.names, key.ranks, strict=True):
            number = numbers.get(name)
            axis = None if number is None else self.axes[number]
            if number is not None and axis is not None and begin >= self._states_begin(pattern):
                lengths[begin + axis] = first + number
            begin += rank
        return lengths

    def _states_begin(self, pattern: PatternBuild) -> int:
        """The index of the first extent of a state in `ShapeKey.extents`."""
        inputs = len(pattern.inputs) - len(self.positions(pattern)[0])
        return sum(pattern.conditions.traced.ranks[:inputs])


def _nbytes(spec: TensorSpec) -> int:
    return prod(spec.shape) * spec.dtype.itemsize


def _after(offset: int, nbytes: int) -> int:
    """The next aligned offset behind `nbytes` bytes."""
    return -(-(offset + nbytes) // ALIGNMENT) * ALIGNMENT
