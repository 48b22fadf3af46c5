"""The states of a session: arrays that operators keep between calls, and their memory.

Growing states, such as keys and values of a decoder, have memory with spare capacity
(`nnefc.frontends.common.graph_names.room_for`).  A call appends items in place, without a copy.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnefc.runtime.memory.caller_arrays import TensorSpec, array_of, mismatch
from nnefc.support.array_memory import address, is_ready
from nnefc.support.errors import Diagnostic, NnefError
from nnefc.support.fork_safe import renew_after_fork
from nnefc.support.large_pages import large_page_memory
from nnefc.support.wording import wording

if TYPE_CHECKING:
    from nnefc.ir import Count, State
    from nnefc.program.program import AppendedInput

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


class _Snapshot(NamedTuple):
    """All states at a time; replaced as a whole, so that an interrupt leaves them consistent."""

    arrays: dict[str, Array]
    """Memory by name; a state is its leading items."""
    shapes: Mapping[str, Shape]
    """Shapes of the states; replaced, never modified."""
    unchecked: frozenset[str]
    """Names of states that a caller has assigned and no graph has checked."""


class StateMemory(NamedTuple):
    """The memory of the states that a graph takes as inputs."""

    inputs: Sequence[TensorSpec]
    source: Mapping[str, Array]
    """The `arrays` of the snapshot."""
    addresses: list[int]
    arrays: list[Array]
    """The owners of the addresses, which must live as long as a run."""


class States(MutableMapping[str, Array]):
    """The current states by the names of their operators; callers may assign other arrays."""

    def __init__(self) -> None:
        self._snapshot = _Snapshot({}, {}, frozenset())
        self._memory: StateMemory | None = None
        """The last result of `memory_for`."""
        self.lock: AbstractContextManager[object] = threading.Lock()
        """Held during a call, and while states are assigned."""
        renew_after_fork(self)

    def renew_lock(self) -> None:
        """After a fork the calls of other threads do not continue in the child."""
        self.lock = threading.Lock()

    def __getitem__(self, name: str) -> Array:
        snapshot = self._snapshot
        array = _leading_items(snapshot.arrays[name], snapshot.shapes[name])
        array.flags.writeable = False  # other sessions and callers may share the memory
        return array

    def __setitem__(self, name: str, value: Any) -> None:
        problems: list[Diagnostic] = []
        hint = "assign an array like the one in session.states of this model"
        array = array_of(value, f"state {name!r}", "an array", hint, problems)
        if array is None:
            raise NnefError(problems)
        array = np.array(array)  # the caller may modify its array
        with self.lock:
            before = self._snapshot
            self._snapshot = _Snapshot(
                {**before.arrays, name: array},
                {**before.shapes, name: array.shape},
                before.unchecked | {name},
            )

    def __delitem__(self, name: str) -> None:
        with self.lock:
            arrays, shapes = dict(self._snapshot.arrays), dict(self._snapshot.shapes)
            del arrays[name], shapes[name]
            self._snapshot = _Snapshot(arrays, shapes, self._snapshot.unchecked - {name})
            self._memory = None  # it would hold the deleted array

    def __iter__(self) -> Iterator[str]:
        return iter(self._snapshot.arrays)

    def __len__(self) -> int:
        return len(self._snapshot.arrays)

    def __repr__(self) -> str:
        return repr(dict(self))

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """Shapes of the current states."""
        return self._snapshot.shapes

    def fork(self) -> States:
        """The same states for another session; a growing state is copied when it grows."""
        fork, snapshot = States(), self._snapshot
        arrays = {name: self[name] for name in snapshot.arrays}
        fork._snapshot = _Snapshot(arrays, dict(snapshot.shapes), frozenset(arrays))
        return fork

    def clear(self) -> None:
        """Discard all states."""
        with self.lock:
            self._snapshot, self._memory = _Snapshot({}, {}, frozenset()), None

    # -- for calls, which hold the lock

    def memory_for(self, inputs: Sequence[TensorSpec], states: Sequence[State]) -> StateMemory:
        """The memory of the `states` that a graph takes, in the order of its `inputs`.

        Raises NnefError for an assigned array whose type is not that of the input, or if no
        operator of the graph has a state of its name.
        """
        before, snapshot = self._memory, self._snapshot
        if before is not None and before.inputs is inputs and before.source is snapshot.arrays:
            return before
        del before
        self._memory = None
        pairs = ((inputs[each.input], each) for each in states if each.input is not None)
        wanted = [TensorSpec(state.name, spec.shape, spec.dtype) for spec, state in pairs]
        if snapshot.unchecked:
            self._check(wanted, states)
            snapshot = self._snapshot = snapshot._replace(unchecked=frozenset())
        arrays = list(map(self._with_capacity, wanted))
        self._memory = StateMemory(inputs, snapshot.arrays, list(map(address, arrays)), arrays)
        return self._memory

    def store(self, arrays: Mapping[str, Array], appended: Iterable[AppendedInput]) -> None:
        """Store the states that a graph returned, and the new shapes of states it appended to."""
        before = self._snapshot
        changed = {
            name: _grown(before.shapes[name], axis, extent) for name, axis, extent in appended
        }
        changed |= {name: array.shape for name, array in arrays.items()}
        if changed:
            every = {**before.arrays, **arrays} if arrays else before.arrays
            self._snapshot = _Snapshot(every, {**before.shapes, **changed}, before.unchecked)

    def _check(self, wanted: Sequence[TensorSpec], states: Sequence[State]) -> None:
        """Raise NnefError for assigned states that a graph does not take."""
        unchecked = self._snapshot.unchecked
        known = [state.name for state in sorted(states, key=lambda state: state.input is None)]
        problems = [
            Diagnostic(
                "input/state",
                f"no operator of the model keeps a state {name!r}",
                hint=f"states of the model: {', '.join(map(repr, known)) or 'none'}; "
                f"del session.states[{name!r}] removes it",
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

    def _with_capacity(self, spec: TensorSpec) -> Array:
        """The memory of a state, moved to memory of this shape if it has another one."""
        name, shape = spec.name, spec.shape
        array = self._snapshot.arrays[name]
        if array.shape == shape and is_ready(array):
            return array
        state = self[name]
        nbytes = prod(shape) * spec.dtype.itemsize
        memory = large_page_memory(nbytes, "a state").view(spec.dtype).reshape(shape)
        _leading_items(memory, state.shape)[...] = state
        self._snapshot.arrays[name] = memory  # frees the former memory before the next state moves
        return memory


def _leading_items(memory: Array, shape: Shape) -> Array:
    """A view of the first items along each axis."""
    return memory[(*map(slice, shape), ...)]  # the ellipsis makes rank 0 an array, too


@lru_cache(64)  # most states of a decoder have the same shape
def _grown(shape: Shape, axis: int, extent: int) -> Shape:
    """A shape with `extent` more items along an axis."""
    return (*shape[:axis], shape[axis] + extent, *shape[axis + 1 :])


def split_outputs(
    outputs: Sequence[Array], states: Iterable[State], counts: Iterable[Count]
) -> tuple[list[Array], dict[str, Array]]:
    """The results of the document, cut to their valid items, and the new states by name."""
    arrays, hidden = list(outputs), set[int]()
    for count in counts:
        valid = range(int(outputs[count.output]))
        arrays[count.of] = arrays[count.of].take(valid, count.axis)
        hidden.add(count.output)
    new_states: dict[str, Array] = {}
    for state in states:
        if state.output is not None:
            new_states[state.name] = arrays[state.output]
            hidden.add(state.output)
    return [array for i, array in enumerate(arrays) if i not in hidden], new_states


def stateful_model_error(what: str, names: Iterable[str]) -> NnefError:
    """The error of a request that a model with states of these `names` refuses."""
    return NnefError.of(
        "input/state",
        f"{what}: operators of this model keep states ({', '.join(names)}), which only sessions "
        "can hold",
        hint=wording(
            "the model of nnefc.compile and its .session() keep them from call to call, and so "
            "does a C program of model.emit_c(folder, shapes=..., state_capacity=...)",
            "nnefc compile MODEL --dynamic -o net.nnefc writes a file of the model, and so does "
            "--dynamic --emit c --state-capacity N; nnefc run MODEL --steps N makes N calls",
        ),
    )
