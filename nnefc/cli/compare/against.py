"""Results of another engine, from files, and their comparison with a compiled model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nnefc.cli.support.array_folders import SUFFIXES, arrays_in_folder
from nnefc.cli.support.diagnostics import report
from nnefc.cli.support.options import usage
from nnefc.cli.support.turns import split_turn, turn_name
from nnefc.support.errors import Diagnostic, NnefError, Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np

    from nnefc.ir import Graph, TensorType

    Array = np.ndarray[Any, Any]

MAX_TURNS: Final = 10_000
"""The most calls of a session that files may have results of."""


class Result(NamedTuple):
    """The type of a result of a call."""

    type: TensorType
    counted_axis: int | None
    """The axis whose extent only a run determines; the type has its bound."""


class Stored(NamedTuple):
    """An array, and the file that it is in."""

    array: Array
    file: str


@dataclass(frozen=True, slots=True)
class Against:
    """Results of another engine, by output, for each call."""

    turns: list[dict[str, Stored]] = field(default_factory=list[dict[str, Stored]])

    def check(self, calls: Sequence[Mapping[str, Result]]) -> None:
        """Raise NnefError for all arrays whose shape or type is not that of a result.

        `calls`: the results of each call.
        """
        problems: list[Diagnostic] = []
        for turn, (arrays, results) in enumerate(zip(self.turns, calls, strict=False)):
            for name, result in results.items():
                full = turn_name(turn, name) if len(calls) > 1 else name
                problems += _wrong(full, arrays[name], result)
        if problems:
            raise NnefError(problems)


def results_of(graph: Graph) -> dict[str, Result]:
    """The results of a graph by name, without those that hold states and counts."""
    hidden = {count.output for count in graph.counts}
    hidden |= {state.output for state in graph.states if state.output is not None}
    axes = {count.of: count.axis for count in graph.counts}
    shown = [i for i in range(len(graph.outputs)) if i not in hidden]
    return {graph.output_names[i]: Result(graph.outputs[i].type, axes.get(i)) for i in shown}


def read_against(options: Sequence[str], outputs: Sequence[str], inputs: Sequence[str]) -> Against:
    """The arrays of `--against` options, for each call; `outputs` and `inputs` of the model.

    Raises NnefError with everything that is wrong: files, names that are missing, unknown or given
    twice.  Arrays named like inputs are skipped, since files often hold both.
    """
    against, problems, all_read = Against(), list[Diagnostic](), True
    strays: dict[str, list[str]] = {}
    for option in options:
        try:
            for full, stored in _arrays(option, outputs):
                turn, name = (None, full) if full in outputs else split_turn(full)
                if name in outputs:
                    problems += _add(against, turn or 0, name, stored)
                elif name not in inputs:
                    strays.setdefault(option, []).append(full)
        except NnefError as error:
            problems += error.errors
            all_read = False
    if all_read:
        problems += _missing(against, outputs, strays)
    if problems:
        raise NnefError(problems)
    report(
        Diagnostic(
            "input/option",
            f"arrays without an output of that name are not compared: {', '.join(names)}",
            Place(option),
            "note",
        )
        for option, names in strays.items()
    )
    return against


def _add(against: Against, turn: int, name: str, stored: Stored) -> Iterator[Diagnostic]:
    """Add an array; yields the error if there is one already."""
    while len(against.turns) <= turn < MAX_TURNS:
        against.turns.append({})
    if turn >= MAX_TURNS:
        message = f"{turn_name(turn, name)}: at most {MAX_TURNS} calls are compared"
        yield Diagnostic("input/option", message, Place(stored.file))
    elif name in against.turns[turn]:
        message = f"output {name!r} is in {against.turns[turn][name].file} already"
        yield Diagnostic("input/option", f"--against: {message}", Place(stored.file))
    else:
        against.turns[turn][name] = stored


def _missing(
    against: Against, outputs: Sequence[str], strays: Mapping[str, Sequence[str]]
) -> Iterator[Diagnostic]:
    """The errors of outputs without an array."""
    listed = ", ".join(name for names in strays.values() for name in names)
    hint = f"the other arrays are named {listed}" if listed else f"outputs: {', '.join(outputs)}"
    turns = against.turns or [{}]
    for turn, arrays in enumerate(turns):
        for name in outputs:
            if name not in arrays:
                full = turn_name(turn, name) if len(turns) > 1 else name
                yield Diagnostic(
                    "input/name", f"--against: no array for output {full!r}", hint=hint
                )


def _arrays(option: str, outputs: Sequence[str]) -> Iterator[tuple[str, Stored]]:
    """The arrays of an option [NAME=]PATH by name."""
    from nnefc.formats.arrays import load_array
    from nnefc.formats.files import is_folder

    name, equals, path = option.partition("=")
    if not equals:
        name, path = "", option
    elif name not in outputs and split_turn(name)[1] not in outputs:
        raise usage(f"--against {option}: no output named {name}", f"outputs: {', '.join(outputs)}")
    if not path:
        raise usage(f"--against '{option}': the path is empty", "--against NAME=FILE")
    if is_folder(path):
        if name:
            raise usage(f"--against {option}: a folder has the results of all outputs")
        for full, array, file in arrays_in_folder(Path(path), outputs):
            yield full, Stored(array, str(file))
        return
    if Path(path).suffix.lower() not in (*SUFFIXES, ".npz"):
        raise usage(
            f"--against {option}: the results of another engine are in .npz, .npy or .dat files, "
            f"or a folder of them{'; standard input is not read' if path == '-' else ''}",
            "numpy.savez('results.npz', NAME=array) writes them",
        )
    content = load_array(path)
    if not isinstance(content, dict):
        if not name and len(outputs) != 1:
            listed = ", ".join(outputs)
            raise usage(
                f"--against {path}: for which output?", f"write NAME={path}, NAME: {listed}"
            )
        yield name or outputs[0], Stored(content, path)
    elif not name:
        yield from ((key, Stored(array, path)) for key, array in content.items())
    elif len(content) == 1:
        yield name, Stored(next(iter(content.values())), path)
    else:
        raise usage(f"--against {option}: the file holds {len(content)} arrays, not one")


_ACCEPTED: Final = {"f": "f", "i": "iu", "u": "iu", "b": "biu"}
"""Kinds of item types that are compared with results of a kind, of any width."""


def _wrong(name: str, stored: Stored, result: Result) -> Iterator[Diagnostic]:
    """The errors of an array for a result."""
    array, type_ = stored.array, result.type
    kind = "f" if type_.dtype.is_float else type_.dtype.numpy.kind
    place = Place(stored.file)
    if array.dtype.kind not in _ACCEPTED[kind]:
        wanted = {"f": "floats", "b": "bools or integers"}.get(kind, "integers")
        message = f"output {name!r} is {type_.dtype}, the array {array.dtype}"
        yield Diagnostic("input/dtype", message, place, hint=f"store {wanted} of any width")
        return
    expected, found = list(type_.dims), list(array.shape)
    axis = result.counted_axis
    if axis is not None and len(found) == len(expected):
        expected[axis] = found[axis]
    if expected != found:
        hint = (
            "it has as many items: reshape or transpose it"
            if array.size == type_.volume
            else "compile for its shape: --shape or --batch"
        )
        message = f"output {name!r} has shape {list(type_.dims)}, the array {found}"
        yield Diagnostic("input/shape", message, place, hint=hint)
