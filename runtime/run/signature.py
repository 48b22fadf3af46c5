"""`Signature`: checks the arguments of a call against the inputs and outputs of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np

from nnefc.runtime.memory.caller_arrays import (
    BY_NAME,
    TensorSpec,
    accept,
    accept_target,
    fits,
    is_array,
)
from nnefc.support.errors import Diagnostic, NnefError

Array = np.ndarray[Any, Any]


class Signature:
    """The inputs and outputs of a call, in order; a NnefError reports all errors at once."""

    def __init__(self, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]) -> None:
        self.inputs = inputs
        self.outputs = outputs

    def check_count(self, arrays: Sequence[Any]) -> None:
        """Raise NnefError unless there is one array for each input."""
        if len(arrays) != len(self.inputs):
            raise NnefError.of(
                "input/count",
                f"{len(arrays)} arrays given, expected {len(self.inputs)}: "
                + (", ".join(map(str, self.inputs)) or "none"),
                hint=BY_NAME if any(isinstance(x, Mapping) for x in arrays) else "",
            )

    def check_names(self, what: Literal["inputs", "outputs"], given: Mapping[str, Any]) -> None:
        """`check_names` for these inputs or outputs."""
        specs = self.inputs if what == "inputs" else self.outputs
        check_names(what, given, [spec.name for spec in specs])

    def accept(self, arrays: Sequence[Any]) -> Sequence[Array]:
        """Arrays that kernels can read, copied only if necessary.

        `arrays` may be for the first inputs only.
        """
        if all(map(fits, arrays, self.inputs)):
            return arrays
        problems: list[Diagnostic] = []
        taken = [accept(x, spec, problems) for x, spec in zip(arrays, self.inputs)]
        if problems:
            raise NnefError(problems)
        return [x for x in taken if x is not None]

    def is_target(self, out: object, taken: Sequence[Array]) -> bool:
        """Whether kernels can write `out` directly: a fast path."""
        if len(self.outputs) != 1 or not fits(out, self.outputs[0]):
            return False
        array = cast(Array, out)
        return array.flags.writeable and not any(np.may_share_memory(x, array) for x in taken)

    def targets(self, out: Sequence[Any]) -> list[Array]:
        """NumPy views of the memory of `out`, one for each output."""
        check_out_count(out, self.outputs)
        problems: list[Diagnostic] = []
        targets: list[Array] = []
        for y, spec in zip(out, self.outputs):
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


def ordered(
    arrays: tuple[Any, ...], named: Mapping[str, Any], inputs: Sequence[TensorSpec]
) -> tuple[Any, ...]:
    """The arrays of a call in the order of its inputs.

    `arrays` are for the first inputs, `named` for the others.  Raises NnefError `input/...` for
    unknown and missing names, and for inputs that are given twice.  Without names the number of
    arrays is not checked.
    """
    if not named:
        return arrays
    expected = [spec.name for spec in inputs]
    if len(arrays) > len(expected):
        raise NnefError.of(
            "input/count",
            f"{len(arrays)} arrays given, and others by name; expected {len(expected)}: "
            + (", ".join(expected) or "none"),
        )
    first, others = expected[: len(arrays)], expected[len(arrays) :]
    problems = [
        Diagnostic(
            "input/name",
            f"input {name!r} is given twice: by position {i} and by name",
            hint="leave one out",
        )
        for i, name in enumerate(first, 1)
        if name in named
    ]
    rest = {name: x for name, x in named.items() if name not in first}
    problems += name_problems("inputs", rest, others, expected)
    if problems:
        raise NnefError(problems)
    return (*arrays, *(named[name] for name in others))


def out_arrays(out: Any) -> list[Any]:
    """The arrays in the argument `out` of a call: one array, or several in an iterable.

    Raises NnefError `input/out` for a mapping, and `input/array` for an object that has a shape but
    whose memory cannot be written: its items are no arrays.
    """
    if isinstance(out, Mapping):
        raise NnefError.of("input/out", "out names arrays, expected them in order", hint=BY_NAME)
    if is_array(out) or not isinstance(out, Iterable):
        return [out]
    given = cast(Iterable[Any], out)
    if hasattr(given, "shape"):
        raise NnefError.of(
            "input/array",
            f"out is a {type(given).__name__}, which has neither __array_interface__ nor "
            "__dlpack__; expected an array, or several in a sequence",
            hint="make it: numpy.empty(shape, dtype)",
        )
    return list(given)


def check_out_count(out: Sequence[Any], outputs: Sequence[object]) -> None:
    """Raise NnefError `input/out` unless `out` has one array for each output."""
    if len(out) != len(outputs):
        raise NnefError.of(
            "input/out",
            f"{len(out)} arrays in out, expected {len(outputs)}: {', '.join(map(str, outputs))}",
        )


def check_names(
    what: Literal["inputs", "outputs"], given: Mapping[str, Any], expected: Sequence[str]
) -> None:
    """Raise NnefError `input/name` unless `given` names all inputs, or some of the outputs."""
    if not isinstance(given, Mapping):
        raise NnefError.of(
            "input/name", f"{what} are in a {type(given).__name__}, expected arrays by name"
        )
    if set(given) == set(expected):
        return
    if problems := name_problems(what, given, expected, expected):
        raise NnefError(problems)


def name_problems(
    what: Literal["inputs", "outputs"],
    given: Mapping[str, Any],
    expected: Sequence[str],
    every: Sequence[str],
) -> list[Diagnostic]:
    """The errors `input/name` unless `given` names all `expected` inputs, or some of the outputs.

    `every`: the names of all inputs or outputs, for the hint.
    """
    problems = [
        Diagnostic(
            "input/name",
            f"no {what[:-1]} is named {name!r}",
            hint=f"the {what} are {', '.join(every) or 'none'}",
        )
        for name in given
        if name not in expected
    ]
    missing = [name for name in expected if what == "inputs" and name not in given]
    problems += [Diagnostic("input/name", f"input {name!r} is missing") for name in missing]
    return problems
