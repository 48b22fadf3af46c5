"""What operators of a model keep from one call to the next: the arrays, and the memory they lie in.

States that grow, as keys and values of a decoder do, lie in memory with room for more
(`nnefc.frontends.tract.names.room`): a call reads what is there and returns what comes behind it,
which is all that is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from nnefc.errors import Diagnostic, NnefError
from nnefc.frontends.tract.names import GROWN, STATE, grown, kept_by, room_for
from nnefc.runtime.large_pages import memory
from nnefc.runtime.tensors import TensorSpec, array_of, mismatch

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Growing:
    """A state at the beginning of memory that is longer along one axis."""

    held: Array
    memory: Array


class States(MutableMapping[str, "Array"]):
    """What is kept now, by the names of the operators that keep it; others may be put there."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self._growing: dict[str, _Growing] = {}
        self._unchecked: set[str] = set()
        """Names of states that a caller has put here, and no graph has taken."""

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __setitem__(self, name: str, value: Any) -> None:
        problems: list[Diagnostic] = []
        hint = "an array that a session of this model has kept, or one like it"
        array = array_of(value, f"state {name!r}", "an array", hint, problems)
        if array is None:
            raise NnefError(problems)
        self._arrays[name] = array
        self._unchecked.add(name)

    def __delitem__(self, name: str) -> None:
        del self._arrays[name]
        self._growing.pop(name, None)
        self._unchecked.discard(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return repr(self._arrays)

    @property
    def shapes(self) -> dict[str, Shape]:
        """Shapes of what is kept now."""
        return {name: array.shape for name, array in self._arrays.items()}

    def clear(self) -> None:
        """Keep nothing."""
        self._arrays.clear()
        self._growing.clear()
        self._unchecked.clear()

    def given(
        self, inputs: Iterable[TensorSpec], outputs: Iterable[TensorSpec]
    ) -> dict[str, Array]:
        """What a graph takes for those of its `inputs` that are states, in their order.

        Raises NnefError for what a caller has put here and is of another type than the input, or of
        a name under which no operator keeps anything, as the `outputs` of the graph tell.
        """
        wanted = [spec for spec in inputs if spec.name.startswith(STATE)]
        if self._unchecked:
            self._check(wanted, outputs)
        return {
            spec.name: self._with_room(spec.name.removeprefix(STATE), tuple(spec.shape))
            for spec in wanted
        }

    def keep(self, outputs: Mapping[str, Array]) -> None:
        """Keep what a graph returns for the next call, by the names of its outputs."""
        grown_by = {grown(name): x for name, x in outputs.items() if name.startswith(GROWN)}
        for (name, axis), items in grown_by.items():
            self._make_room(name, axis, items.shape[axis])
        # from here on no memory is needed: states grow all of them, or none
        for name, array in outputs.items():
            if not name.startswith(GROWN):
                self._arrays[name.removeprefix(STATE)] = array
        for (name, axis), items in grown_by.items():
            self._append(name, axis, items)

    def _check(self, wanted: Iterable[TensorSpec], outputs: Iterable[TensorSpec]) -> None:
        """Raise NnefError for what a caller has put here and a graph does not take."""
        kept = kept_by(spec.name for spec in outputs)
        problems = [
            Diagnostic(
                "input/state",
                f"no operator of the model keeps a state {name!r}",
                hint=f"those that there are: {', '.join(map(repr, kept)) or 'none'}; "
                f"del session.states[{name!r}] takes it away",
            )
            for name in sorted(self._unchecked.difference(kept))
        ]
        for spec in wanted:
            name = spec.name.removeprefix(STATE)
            if name in self._unchecked:
                array = self._arrays[name]
                like = TensorSpec(name, array.shape, spec.dtype)
                problems += filter(None, [mismatch(array, like, "state")])
        if problems:
            raise NnefError(problems)
        self._unchecked.clear()

    def _with_room(self, name: str, shape: Shape) -> Array:
        """A state within memory of a shape; where it lies, if that is so."""
        array = self._arrays[name]
        if array.shape == shape:
            return array
        found = self._growing.get(name)
        # what has been put there instead of it is another array, were it a part of the same memory
        if found is None or found.held is not array or found.memory.shape != shape:
            found = self._growing[name] = _grown(array, shape)
            self._arrays[name] = found.held
        return found.memory

    def _make_room(self, name: str, axis: int, count: int) -> None:
        """Let a state that `_with_room` has given the memory of lie where so many items fit behind
        it.
        """
        before = self._growing[name]
        shape = before.held.shape
        end = shape[axis] + count
        if end >= before.memory.shape[axis]:
            room = room_for((*shape[:axis], end, *shape[axis + 1 :]), axis)
            found = self._growing[name] = _grown(before.held, room)
            self._arrays[name] = found.held

    def _append(self, name: str, axis: int, items: Array) -> None:
        """Put items behind those of a state, for which there is room."""
        before = self._growing[name]
        begin = before.held.shape[axis]
        end = begin + items.shape[axis]
        along = (slice(None),) * axis
        before.memory[(*along, slice(begin, end))] = items
        held = before.memory[(*along, slice(0, end))]
        self._growing[name], self._arrays[name] = _Growing(held, before.memory), held


def _grown(array: Array, shape: Shape) -> _Growing:
    """A copy of an array at the beginning of memory of a shape that is nowhere less."""
    nbytes = prod(shape) * array.dtype.itemsize
    found = memory(nbytes, "a state").view(array.dtype).reshape(shape)
    held = found[tuple(map(slice, array.shape))]
    held[...] = array
    return _Growing(held, found)


def only_sessions(what: str, kept: Iterable[str]) -> NnefError:
    """The error of what has no place for states that operators keep under these names."""
    return NnefError.of(
        "input/state",
        f"{what}: operators of this model keep states ({', '.join(kept)}), which only sessions "
        "have a place for",
        hint="nnefc.compile(DOCUMENT) keeps them from call to call, and has .session(); a document "
        "that takes its states as inputs and returns them can be saved and written in C",
    )
