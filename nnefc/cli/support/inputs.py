"""The options `--input` and `--random-inputs`: arrays for the inputs of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnefc.cli.support.options import usage
from nnefc.cli.support.printing import report
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from nnefc.ir import Value

Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="[NAME=]FILE",
        help="A .npy, .dat, .png or .jpg file for one input, or an .npz that has them by name; "
        "repeatable. Pictures are resized, get the channels of the input (1: grey, 3: RGB, "
        "4: RGBA), and are scaled to 0..1 for scalars; integers get 0..255.",
    ),
]
RandomInputs = Annotated[
    int | None,
    typer.Option(metavar="SEED", min=0, help="Fill inputs that are not given with random values."),
]


def read_inputs(
    wanted: Sequence[Value], options: Sequence[str] | None, seed: int | None
) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays for the inputs of a model: files by name, the rest random if there is a seed.

    What is changed or ignored on the way is noted on standard error.
    """
    from nnefc.runtime.memory.tensors import random_array

    notes = Diagnostics()
    names = [value.name for value in wanted]
    given = _read_files(
        names, options, notes, lambda name, path: _read_image(wanted, name, path, notes)
    )
    missing = [value for value in wanted if value.name not in given]
    if missing and seed is None:
        raise no_data([f"{value.name} ({value.type})" for value in missing])
    for value in missing:
        given[value.name] = random_array(value.type, seed or 0, value.name)
    arrays = {value.name: _as_type(given[value.name], value, notes) for value in wanted}
    report(notes.warnings)
    return arrays


def input_shapes(
    names: Sequence[str], options: Sequence[str] | None
) -> dict[str, tuple[int, ...] | None]:
    """Shapes of the files given for inputs; None for pictures, which fit any shape."""
    pictures: list[str] = []

    def see(name: str, path: str) -> Mapping[str, np.ndarray[Any, Any]]:
        pictures.append(name)
        return {}

    given = _read_files(list(names), options, Diagnostics(), see)
    return dict.fromkeys(pictures) | {name: array.shape for name, array in given.items()}


def no_data(listed: Sequence[str]) -> NnefError:
    """The error of inputs for which there is neither a file nor a seed."""
    return usage(
        f"no data for {', '.join(listed)}",
        "give --input NAME=FILE, or --random-inputs SEED to try it out",
    )


def _read_files(
    names: list[str],
    options: Sequence[str] | None,
    notes: Diagnostics,
    read_picture: Callable[[str, str], Mapping[str, np.ndarray[Any, Any]]],
) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays that `--input` options name, by input; `read_picture(name, path)` gives those of
    pictures.
    """
    from nnefc.formats.arrays import load_array

    given: dict[str, np.ndarray[Any, Any]] = {}
    for option in options or ():
        name, equals, path = option.partition("=")
        if not equals:
            name, path = "", option
        elif name not in names:
            raise usage(f"--input {option}: no input named {name}", f"inputs: {', '.join(names)}")
        if Path(path).suffix.lower() in {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp"}:
            given.update(read_picture(_only(name, names, given, option), path))
            continue
        loaded = load_array(path)
        if isinstance(loaded, dict):
            given.update(
                {name: _single(loaded, option)} if name else _known(loaded, names, path, notes)
            )
        else:
            given[_only(name, names, given, option)] = loaded
    return given


def _as_type(array: np.ndarray[Any, Any], value: Value, notes: Diagnostics) -> np.ndarray[Any, Any]:
    """Files often hold float64 or bytes; convert where that keeps the kind of number."""
    dtype = value.type.dtype.numpy
    kind = "f" if value.type.dtype.is_float else dtype.kind
    accepted = {"f": "fiu", "i": "iu", "u": "iu", "b": "iu"}
    if array.dtype == dtype or array.dtype.kind not in accepted.get(kind, ""):
        return array
    if kind in "iu" and not _holds(dtype, array):
        return array
    message = f"input {value.name!r}: converted from {array.dtype} to {dtype}"
    notes.add(Diagnostic("input/dtype", message, severity="note"))
    return array != 0 if dtype.kind == "b" else array.astype(dtype)


def _holds(dtype: np.dtype[Any], array: np.ndarray[Any, Any]) -> bool:
    """Whether all of some integers are in the range of a type."""
    import numpy as np

    bounds = np.iinfo(dtype)
    return bool(bounds.min <= array.min() and array.max() <= bounds.max) if array.size else True


def _known(
    arrays: Mapping[str, np.ndarray[Any, Any]], names: list[str], path: str, notes: Diagnostics
) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a file that are inputs; there must be at least one."""
    found = {name: array for name, array in arrays.items() if name in names}
    strays = ", ".join(name for name in arrays if name not in names)
    if not found:
        raise usage(
            f"--input {path}: no input named {strays or 'in the file'}",
            f"inputs: {', '.join(names)}",
        )
    if strays:
        message = f"not used, no inputs have these names: {strays}"
        notes.add(Diagnostic("input/option", message, Place(path), "note"))
    return found


def _only(name: str, names: list[str], given: Mapping[str, Any], option: str) -> str:
    """The input that a file without a name is for."""
    if name:
        return name
    left = [n for n in names if n not in given]
    if len(left) != 1:
        listed = ", ".join(left or names)
        raise usage(f"--input {option}: for which input?", f"write NAME={option}, NAME: {listed}")
    return left[0]


def _single(arrays: Mapping[str, np.ndarray[Any, Any]], option: str) -> np.ndarray[Any, Any]:
    if len(arrays) != 1:
        raise usage(f"--input {option}: the file holds {len(arrays)} arrays, not one")
    return next(iter(arrays.values()))


def _read_image(
    wanted: Sequence[Value], name: str, path: str, notes: Diagnostics
) -> dict[str, np.ndarray[Any, Any]]:
    from nnefc.formats.image import read_image

    for value in wanted:
        if value.name == name:
            type_ = value.type
            return {name: read_image(path, type_.dims, type_.dtype.numpy, diagnostics=notes)}
    raise usage(f"--input: no input named {name}")
