"""The states of a session: arrays that operators keep from call to call, and their memory.

States that grow, as keys and values of a decoder do, lie in memory with room for more items
(`nnefc.frontends.common.graph_names.room_for`): a call reads the items that are there and appends
new ones, so that nothing is copied.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnefc.runtime.memory.tensors import TensorSpec, array_of, mismatch
from nnefc.support.array_memory import address, is_ready
from nnefc.support.errors import Diagnostic, NnefError
from nnefc.support.fork_safe import renew_after_fork
from nnefc.support.large_pages import large_page_memory

if TYPE_CHECKING:
    from nnefc.ir import Count, State
    from nnefc.program.program import AppendedInput

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


class _Snapshot(NamedTuple):
    """All that there is at a time: replaced as one, so that an interrupt leaves it whole."""

    arrays: dict[str, Array]
    """States, or memory that they are at the beginning of."""
    shapes: Mapping[str, Shape]
    """Of the states; never changed, but another one."""
    unchecked: frozenset[str]
    """Names of states that a caller has put here, and no graph has taken."""


class StateMemory(NamedTuple):
    """What a graph takes for some inputs."""

    inputs: Sequence[TensorSpec]
    of: Mapping[str, Array]
    """What it was found in."""
    addresses: list[int]
    arrays: list[Array]
    """What has the addresses: it must be there as long as a run goes on."""


class States(MutableMapping[str, Array]):
    """What is kept now, by the names of the operators that keep it; others may be put there."""

    def __init__(self) -> None:
        self._kept = _Snapshot({}, {}, frozenset())
        self._given: StateMemory | None = None
        """What was given last."""
        self.lock: AbstractContextManager[object] = threading.Lock()
        """Held by whoever makes a call, or changes what is here."""
        renew_after_fork(self)

    def renew_lock(self) -> None:
        """In the child of a fork a call that another thread was in does not go on."""
        self.lock = threading.Lock()

    def __getitem__(self, name: str) -> Array:
        kept = self._kept
        found = _beginning(kept.arrays[name], kept.shapes[name])
        found.flags.writeable = False  # states that were saved, or given away, are the same memory
        return found

    def __setitem__(self, name: str, value: Any) -> None:
        problems: list[Diagnostic] = []
        hint = "an array that a session of this model has kept, or one like it"
        array = array_of(value, f"state {name!r}", "an array", hint, problems)
        if array is None:
            raise NnefError(problems)
        array = np.array(array)  # whatever becomes of the other one
        with self.lock:
            kept = self._kept
            self._kept = _Snapshot(
                {**kept.arrays, name: array},
                {**kept.shapes, name: array.shape},
                kept.unchecked | {name},
            )

    def __delitem__(self, name: str) -> None:
        with self.lock:
            arrays, shapes = dict(self._kept.arrays), dict(self._kept.shapes)
            del arrays[name], shapes[name]
            self._kept = _Snapshot(arrays, shapes, self._kept.unchecked - {name})
            self._given = None  # memory is not held for it

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept.arrays)

    def __len__(self) -> int:
        return len(self._kept.arrays)

    def __repr__(self) -> str:
        return repr(dict(self))

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """Shapes of what is kept now."""
        return self._kept.shapes

    def fork(self) -> States:
        """The same for another session; what grows is copied when it does."""
        found, kept = States(), self._kept
        arrays = {name: self[name] for name in kept.arrays}
        found._kept = _Snapshot(arrays, dict(kept.shapes), frozenset(arrays))
        return found

    def clear(self) -> None:
        """Keep nothing."""
        with self.lock:
            self._kept, self._given = _Snapshot({}, {}, frozenset()), None

    # -- for calls, which hold the lock

    def given(self, inputs: Sequence[TensorSpec], states: Sequence[State]) -> StateMemory:
        """The memory of the `states` that a graph takes, in the order of its `inputs`.

        Raises NnefError for an array that a caller has put here, if its type is not that of the
        input, or if no operator of the graph has a state of that name.
        """
        before, kept = self._given, self._kept
        if before is not None and before.inputs is inputs and before.of is kept.arrays:
            return before
        del before
        self._given = None
        pairs = ((inputs[each.input], each) for each in states if each.input is not None)
        wanted = [TensorSpec(state.name, spec.shape, spec.dtype) for spec, state in pairs]
        if kept.unchecked:
            self._check(wanted, states)
            kept = self._kept = kept._replace(unchecked=frozenset())
        arrays = list(map(self._with_room, wanted))
        self._given = StateMemory(inputs, kept.arrays, list(map(address, arrays)), arrays)
        return self._given

    def keep(self, arrays: Mapping[str, Array], appended: Iterable[AppendedInput]) -> None:
        """Store the states that a graph has returned, and the lengths of those it appended to."""
        kept = self._kept
        changed = {name: _longer(kept.shapes[name], axis, more) for name, axis, more in appended}
        changed |= {name: array.shape for name, array in arrays.items()}
        if changed:
            every = {**kept.arrays, **arrays} if arrays else kept.arrays
            self._kept = _Snapshot(every, {**kept.shapes, **changed}, kept.unchecked)

    def _check(self, wanted: Sequence[TensorSpec], states: Sequence[State]) -> None:
        """Raise NnefError for what a caller has put here and a graph does not take."""
        unchecked = self._kept.unchecked
        known = [state.name for state in sorted(states, key=lambda state: state.input is None)]
        problems = [
            Diagnostic(
                "input/state",
                f"no operator of the model keeps a state {name!r}",
                hint=f"those that there are: {', '.join(map(repr, known)) or 'none'}; "
                f"del session.states[{name!r}] takes it away",
            )
            for name in sorted(unchecked.difference(known))
        ]
        for spec in wanted:
            if spec.name in unchecked:
                array = self[spec.name]
                like = TensorSpec(spec.name, array.shape, spec.dtype)
                problems += filter(None, [mismatch(array, like, "state")])
        if problems:
            raise NnefError(problems)

    def _with_room(self, spec: TensorSpec) -> Array:
        """A state at the beginning of memory of a shape; where it lies, if that is so."""
        name, shape = spec.name, spec.shape
        array = self._kept.arrays[name]
        if array.shape == shape and is_ready(array):
            return array
        held = self[name]
        nbytes = prod(shape) * spec.dtype.itemsize
        found = large_page_memory(nbytes, "a state").view(spec.dtype).reshape(shape)
        _beginning(found, held.shape)[...] = held
        self._kept.arrays[name] = found  # one after the other: the memory before is not needed
        return found


def _beginning(memory: Array, shape: Shape) -> Array:
    """The first items along each axis."""
    return memory[(*map(slice, shape), ...)]  # which is an array for rank 0, too


@lru_cache(64)  # of a token they are all the same, but for very few
def _longer(shape: Shape, axis: int, more: int) -> Shape:
    """A shape with so many more items along an axis."""
    return (*shape[:axis], shape[axis] + more, *shape[axis + 1 :])


def split_outputs(
    outputs: Sequence[Array], states: Iterable[State], counts: Iterable[Count]
) -> tuple[list[Array], dict[str, Array]]:
    """The results of the document, cut to the items that are valid, and the new states by name."""
    arrays, beside = list(outputs), set[int]()
    for count in counts:
        valid = range(int(outputs[count.output]))
        arrays[count.of] = arrays[count.of].take(valid, count.axis)
        beside.add(count.output)
    kept: dict[str, Array] = {}
    for state in states:
        if state.output is not None:
            kept[state.name] = arrays[state.output]
            beside.add(state.output)
    return [array for i, array in enumerate(arrays) if i not in beside], kept


def only_sessions(what: str, kept: Iterable[str]) -> NnefError:
    """The error of what has no place for states that operators keep under these names."""
    return NnefError.of(
        "input/state",
        f"{what}: operators of this model keep states ({', '.join(kept)}), which only sessions "
        "have a place for",
        hint="what nnefc.compile makes of the document keeps them from call to call, as its"
        " .session() do; a document that takes its states as inputs and returns them can be saved"
        " and written in C",
    )
