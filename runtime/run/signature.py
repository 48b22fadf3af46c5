"""What a model takes and returns, and whether arrays of callers are that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np

from nnefc.runtime.memory.tensors import BY_NAME, TensorSpec, accept, accept_target, fits
from nnefc.support.errors import Diagnostic, NnefError

Array = np.ndarray[Any, Any]


class Signature:
    """The tensors of a call, in order; NnefError says all that is wrong with what is given."""

    def __init__(self, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]) -> None:
        self.inputs = inputs
        self.outputs = outputs

    def check_count(self, arrays: Sequence[Any]) -> None:
        if len(arrays) != len(self.inputs):
            raise NnefError.of(
                "input/count",
                f"{len(arrays)} arrays given, expected {len(self.inputs)}: "
                + (", ".join(map(str, self.inputs)) or "none"),
                hint=BY_NAME if any(isinstance(x, Mapping) for x in arrays) else "",
            )

    def check_names(self, what: Literal["inputs", "outputs"], given: Mapping[str, Any]) -> None:
        """Whether there is an array for every input, or only for outputs that there are."""
        specs = self.inputs if what == "inputs" else self.outputs
        check_names(what, given, [spec.name for spec in specs])

    def accept(self, arrays: Sequence[Any]) -> Sequence[Array]:
        """Arrays that kernels can read, for the first inputs or all; usually those that were
        given.
        """
        if all(map(fits, arrays, self.inputs)):
            return arrays
        problems: list[Diagnostic] = []
        taken = [accept(x, spec, problems) for x, spec in zip(arrays, self.inputs)]
        if problems:
            raise NnefError(problems)
        return [x for x in taken if x is not None]

    def is_target(self, out: object, taken: Sequence[Array]) -> bool:
        """Whether `out` can be written as it is; the common case, quickly."""
        if len(self.outputs) != 1 or not fits(out, self.outputs[0]):
            return False
        array = cast(Array, out)
        return array.flags.writeable and not any(np.may_share_memory(x, array) for x in taken)

    def targets(self, given: list[Any]) -> list[Array]:
        """The memory of what is given for the outputs."""
        if len(given) != len(self.outputs):
            raise NnefError.of(
                "input/out",
                f"{len(given)} arrays in out, expected {len(self.outputs)}: "
                + ", ".join(map(str, self.outputs)),
            )
        problems: list[Diagnostic] = []
        targets: list[Array] = []
        for y, spec in zip(given, self.outputs):
            target = accept_target(y, spec, problems)
            if target is None:
                continue
            if any(np.may_share_memory(target, other) for other in targets):
                problems.append(
                    Diagnostic("input/out", f"out for {spec.name!r} overlaps another one")
                )
            targets.append(target)
        if problems:
            raise NnefError(problems)
        return targets


def check_names(
    what: Literal["inputs", "outputs"], given: Mapping[str, Any], expected: Sequence[str]
) -> None:
    """Whether there is an array for every input that is expected, or only for such outputs."""
    if not isinstance(given, Mapping):
        raise NnefError.of(
            "input/name", f"{what} are in a {type(given).__name__}, expected arrays by name"
        )
    if set(given) == set(expected):
        return
    problems = [
        Diagnostic(
            "input/name",
            f"no {what[:-1]} is named {name!r}",
            hint=f"the {what} are {', '.join(expected) or 'none'}",
        )
        for name in given
        if name not in expected
    ]
    missing = [name for name in expected if what == "inputs" and name not in given]
    problems += [Diagnostic("input/name", f"input {name!r} is missing") for name in missing]
    if problems:
        raise NnefError(problems)
