"""The inputs of the calls that are compared: arrays of files, others random."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np

    from nnefc.ir import Value

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class CallInputs:
    """Where the arrays of the inputs come from."""

    turns: Sequence[Mapping[str, Array]]
    """The arrays of files for each call; those of the first serve all calls with their shape."""
    seed: int | None
    """Seed of the random arrays of the first call; each later call has the next seed.  None: 0, and
    nobody has asked for random inputs.
    """
    zero_integers: bool = False
    """Whether integers that no file gives are 0 instead of random."""
    values: Mapping[str, Array] = field(default_factory=dict[str, Any])
    """The arrays of inputs whose values decide shapes."""

    def arrays(self, inputs: Iterable[Value], step: int) -> dict[str, Array]:
        """The arrays of call `step`, counted from 0."""
        import numpy as np

        from nnefc.runtime.memory.caller_arrays import random_array

        arrays: dict[str, Array] = {}
        for value in inputs:
            array = self._of_file(value, step)
            if array is None:
                array = random_array(value.type, (self.seed or 0) + step, value.name)
                if self.zero_integers and array.dtype.kind in "iu":
                    array = np.zeros_like(array)
            arrays[value.name] = array
        return arrays

    def missing(self, inputs: Iterable[Value], step: int) -> list[str]:
        """The inputs of call `step` that no file gives, with their types."""
        absent = (value for value in inputs if self._of_file(value, step) is None)
        return [f"{value.name} ({value.type})" for value in absent]

    def _of_file(self, value: Value, step: int) -> Array | None:
        """The array of a file; a wrong shape is returned if the file is for this call."""
        if step < len(self.turns) and value.name in self.turns[step]:
            return self.turns[step][value.name]
        first = self.turns[0].get(value.name, self.values.get(value.name))
        return first if first is not None and first.shape == value.type.dims else None
