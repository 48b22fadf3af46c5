"""What operators of a model keep from one call to the next: the arrays, and the memory they lie in.

States that grow, as keys and values of a decoder do, lie in memory with room for more
(`nnefc.frontends.tract.names.room`): a call reads what is there and returns what comes behind it,
which is all that is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from nnefc.frontends.tract.names import GROWN, STATE, grown, room_for
from nnefc.runtime.large_pages import memory

if TYPE_CHECKING:
    import numpy as np

    from nnefc.runtime.tensors import TensorSpec

    Array = np.ndarray[Any, Any]

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Growing:
    """A state at the beginning of memory that is longer along one axis."""

    held: Array
    memory: Array


class States:
    """States by the names of the operators that keep them."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        """What is kept now; others may be put here."""
        self._growing: dict[str, _Growing] = {}

    @property
    def shapes(self) -> dict[str, Shape]:
        """Shapes of what is kept now."""
        return {name: array.shape for name, array in self.arrays.items()}

    def clear(self) -> None:
        """Keep nothing."""
        self.arrays.clear()
        self._growing.clear()

    def given(self, inputs: Iterable[TensorSpec]) -> dict[str, Array]:
        """What a graph takes for those of its `inputs` that are states, in their order."""
        return {
            spec.name: self._with_room(spec.name.removeprefix(STATE), tuple(spec.shape))
            for spec in inputs
            if spec.name.startswith(STATE)
        }

    def keep(self, outputs: Mapping[str, Array]) -> None:
        """Keep what a graph returns for the next call, by the names of its outputs."""
        for name, array in outputs.items():
            if name.startswith(GROWN):
                self._append(*grown(name), array)
            else:
                self.arrays[name.removeprefix(STATE)] = array

    def _with_room(self, name: str, shape: Shape) -> Array:
        """A state within memory of a shape; where it lies, if that is so."""
        array = self.arrays[name]
        if array.shape == shape:
            return array
        found = self._growing.get(name)
        # what has been put there instead of it is another array, were it a part of the same memory
        if found is None or found.held is not array or found.memory.shape != shape:
            found = self._growing[name] = _grown(array, shape)
            self.arrays[name] = found.held
        return found.memory

    def _append(self, name: str, axis: int, items: Array) -> None:
        """Put items behind those of a state that `_with_room` has given the memory of."""
        before = self._growing[name]
        begin = before.held.shape[axis]
        end = begin + items.shape[axis]
        shape = room_for((*items.shape[:axis], end, *items.shape[axis + 1 :]), axis)
        memory = before.memory
        if memory.shape != shape:
            memory = _grown(before.held, shape).memory
        along = (slice(None),) * axis
        memory[(*along, slice(begin, end))] = items
        held = memory[(*along, slice(0, end))]
        self._growing[name], self.arrays[name] = _Growing(held, memory), held


def _grown(array: Array, shape: Shape) -> _Growing:
    """A copy of an array at the beginning of memory of a shape that is nowhere less."""
    nbytes = prod(shape) * array.dtype.itemsize
    found = memory(nbytes, "a state").view(array.dtype).reshape(shape)
    held = found[tuple(map(slice, array.shape))]
    held[...] = array
    return _Growing(held, found)
