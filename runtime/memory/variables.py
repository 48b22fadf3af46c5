"""Variables of a model as a mapping: labels to values."""

from __future__ import annotations

from _thread import allocate_lock as Lock  # without `threading`: loading takes 1 ms less
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from nnefc.formats.files import require_unchanged
from nnefc.runtime.memory.caller_arrays import TensorSpec, accept
from nnefc.support.array_memory import aligned, copy
from nnefc.support.errors import Diagnostic, NnefError

if TYPE_CHECKING:
    from nnefc.ir import Variable

Array = np.ndarray[Any, Any]


class Variables(MutableMapping[str, Array]):
    """Maps labels, compared without case, to copies of the current values.

    Only variables that the graph updates can be set, to arrays of their shape and type.  The
    values of the others are part of the compiled code.
    """

    def __init__(self, variables: Mapping[str, Variable], mutable: Sequence[str]) -> None:
        """`variables` and `mutable` by label in lower case; `mutable` in the order of states."""
        self._variables = variables
        self.lock: AbstractContextManager[object] = nullcontext()
        """Held while a state is read or written; a fork replaces it, so do not store it."""
        self.states = [aligned(variables[key].type.nbytes, f"variable {key}") for key in mutable]
        """The memory of each state."""
        self._state = {
            key: memory.view(variables[key].type.dtype.numpy).reshape(variables[key].type.dims)
            for key, memory in zip(mutable, self.states)
        }
        if mutable:
            from nnefc.support.fork_safe import renew_after_fork

            self.renew_lock()
            renew_after_fork(self)
        self.reset()

    def renew_lock(self) -> None:
        """Replace the lock: at the start, and in the child of a fork.

        A run of another thread at the time of the fork does not continue in the child and may leave
        states half updated; `reset` restores defined values.
        """
        self.lock = Lock()

    def reset(self) -> None:
        """Restore the initial value of every variable."""
        with self.lock:
            for key, array in self._state.items():
                data = self._variables[key].data
                assert data is not None
                array[...] = data

    def __getitem__(self, label: str) -> Array:
        key = self._key(label)
        if key in self._state:
            with self.lock:
                return copy(self._state[key], f"a copy of variable {label!r}")
        require_unchanged([self._variables[key].data])
        data = np.asarray(self._variables[key].data, self._variables[key].type.dtype.numpy)
        return copy(data, f"a copy of variable {label!r}")

    def __setitem__(self, label: str, value: Array) -> None:
        key = self._key(label)
        if key not in self._state:
            raise NnefError.of(
                "input/variable",
                f"variable {label!r} is not updated by the graph: its value is compiled in",
                hint="change the data of the model and compile again",
            )
        spec = TensorSpec.of(label, self._variables[key].type)
        problems: list[Diagnostic] = []
        array = accept(value, spec, problems, "variable")
        if array is None:
            raise NnefError(problems)
        with self.lock:
            self._state[key][...] = array

    def __delitem__(self, label: str) -> None:
        raise NnefError.of("input/variable", f"variable {label!r} cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return (variable.label for variable in self._variables.values())

    def __len__(self) -> int:
        return len(self._variables)

    def _key(self, label: object) -> str:
        key = label.lower() if isinstance(label, str) else ""
        if key not in self._variables:
            labels = ", ".join(map(repr, self)) or "none"
            raise KeyError(f"there is no variable {label!r}; the variables are {labels}")
        return key
