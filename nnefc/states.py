"""What operators of a model keep from one call to the next: the arrays, and the memory they lie in.

States that grow, as keys and values of a decoder do, lie in memory with room for more
(`nnefc.frontends.tract.names.room_for`): a call reads what is there and puts what comes behind it,
so that nothing is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from nnefc.errors import Diagnostic, NnefError
from nnefc.frontends.tract.names import STATE, kept_by
from nnefc.runtime.large_pages import memory
from nnefc.runtime.tensors import TensorSpec, address, array_of, is_ready, mismatch

if TYPE_CHECKING:
    import numpy as np

    from nnefc.runtime.program import Appended

    Array = np.ndarray[Any, Any]

Shape = tuple[int, ...]


class States(MutableMapping[str, "Array"]):
    """What is kept now, by the names of the operators that keep it; others may be put there."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        """States, or memory that they are at the beginning of."""
        self._shapes: Mapping[str, Shape] = {}
        """Of the states; never changed, but another one."""
        self._unchecked: set[str] = set()
        """Names of states that a caller has put here, and no graph has taken."""
        self._given: tuple[Sequence[TensorSpec], list[int]] | None = None
        """What was given to a graph with some inputs, if it is where it was."""

    def __getitem__(self, name: str) -> Array:
        array, shape = self._arrays[name], self._shapes[name]
        return array if array.shape == shape else _beginning(array, shape)

    def __setitem__(self, name: str, value: Any) -> None:
        problems: list[Diagnostic] = []
        hint = "an array that a session of this model has kept, or one like it"
        array = array_of(value, f"state {name!r}", "an array", hint, problems)
        if array is None:
            raise NnefError(problems)
        self._put({name: array})
        self._unchecked.add(name)

    def __delitem__(self, name: str) -> None:
        del self._arrays[name]
        self._shapes = {other: self._shapes[other] for other in self._arrays}
        self._unchecked.discard(name)
        self._given = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return repr(dict(self))

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """Shapes of what is kept now."""
        return self._shapes

    def clear(self) -> None:
        """Keep nothing."""
        self._arrays.clear()
        self._shapes, self._given = {}, None
        self._unchecked.clear()

    def _put(self, arrays: Mapping[str, Array]) -> None:
        """Keep arrays instead of what was there."""
        self._arrays.update(arrays)
        self._shapes = {**self._shapes, **{name: x.shape for name, x in arrays.items()}}
        self._given = None

    def given(self, inputs: Sequence[TensorSpec], outputs: Iterable[TensorSpec]) -> list[int]:
        """Addresses of what a graph takes for those of its `inputs` that are states, in order.

        Raises NnefError for what a caller has put here and is of another type than the input, or of
        a name under which no operator keeps anything, as inputs and `outputs` of the graph tell.
        """
        if self._given is not None and self._given[0] is inputs:
            return self._given[1]
        wanted = [spec for spec in inputs if spec.name.startswith(STATE)]
        if self._unchecked:
            self._check(wanted, outputs)
        addresses = [
            address(self._with_room(spec.name.removeprefix(STATE), spec.shape)) for spec in wanted
        ]
        self._given = inputs, addresses
        return addresses

    def keep(self, arrays: Mapping[str, Array], appended: Iterable[Appended]) -> None:
        """Keep what a graph returns for the next call, and what it has put behind other states."""
        if arrays:
            self._put(arrays)
        longer = {
            key: _longer(self._shapes[key], axis, more)
            for name, axis, more in appended
            for key in [name.removeprefix(STATE)]
        }
        if longer:
            self._shapes = {**self._shapes, **longer}

    def _check(self, wanted: Sequence[TensorSpec], outputs: Iterable[TensorSpec]) -> None:
        """Raise NnefError for what a caller has put here and a graph does not take."""
        kept = list(dict.fromkeys(kept_by(spec.name for spec in (*wanted, *outputs))))
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
                array = self[name]
                like = TensorSpec(name, array.shape, spec.dtype)
                problems += filter(None, [mismatch(array, like, "state")])
        if problems:
            raise NnefError(problems)
        self._unchecked.clear()

    def _with_room(self, name: str, shape: Shape) -> Array:
        """A state at the beginning of memory of a shape; where it lies, if that is so."""
        array = self._arrays[name]
        if array.shape == shape and is_ready(array):
            return array
        held = self[name]
        nbytes = prod(shape) * array.dtype.itemsize
        found = memory(nbytes, "a state").view(array.dtype).reshape(shape)
        _beginning(found, held.shape)[...] = held
        self._arrays[name] = found
        return found


def _beginning(memory: Array, shape: Shape) -> Array:
    """The first items along each axis."""
    return memory[tuple(map(slice, shape))]


@lru_cache(64)  # of a token they are all the same, but for very few
def _longer(shape: Shape, axis: int, more: int) -> Shape:
    """A shape with so many more items along an axis."""
    return (*shape[:axis], shape[axis] + more, *shape[axis + 1 :])


def only_sessions(what: str, kept: Iterable[str]) -> NnefError:
    """The error of what has no place for states that operators keep under these names."""
    return NnefError.of(
        "input/state",
        f"{what}: operators of this model keep states ({', '.join(kept)}), which only sessions "
        "have a place for",
        hint="nnefc.compile(DOCUMENT) keeps them from call to call, and has .session(); a document "
        "that takes its states as inputs and returns them can be saved and written in C",
    )
