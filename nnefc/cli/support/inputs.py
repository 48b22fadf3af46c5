"""Arrays for the inputs of a model, from the options `--input` and `--random-inputs`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnefc.cli.support.diagnostics import report
from nnefc.cli.support.options import usage
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from nnefc.ir import Value


def read_inputs(
    wanted: Sequence[Value], options: Sequence[str] | None, seed: int | None
) -> dict[str, np.ndarray[Any, Any]]:
    """The array for each of `wanted`, by name: from a file of `options`, else random with `seed`.

    Notes on standard error tell which arrays are converted or not used.  Raises NnefError
    `input/option` for inputs with neither.
    """
    from nnefc.runtime.memory.tensors import random_array

    notes = Diagnostics()
    names = [value.name for value in wanted]
    loaded = _read_files(
        names, options, notes, lambda name, path: _read_image(wanted, name, path, notes)
    )
    missing = [value for value in wanted if value.name not in loaded]
    if missing and seed is None:
        raise no_data([f"{value.name} ({value.type})" for value in missing])
    for value in missing:
        loaded[value.name] = random_array(value.type, seed or 0, value.name)
    arrays = {value.name: _as_type(loaded[value.name], value, notes) for value in wanted}
    report(notes.warnings)
    return arrays


def input_shapes(
    names: Sequence[str], options: Sequence[str] | None
) -> dict[str, tuple[int, ...] | None]:
    """Shapes of the files of `--input` options by input; None for pictures, which fit any shape."""
    pictures: list[str] = []

    def skip_picture(name: str, path: str) -> Mapping[str, np.ndarray[Any, Any]]:
        pictures.append(name)
        return {}

    arrays = _read_files(list(names), options, Diagnostics(), skip_picture)
    return dict.fromkeys(pictures) | {name: array.shape for name, array in arrays.items()}


def no_data(listed: Sequence[str]) -> NnefError:
    """The error for inputs that have neither a file nor a seed."""
    return usage(
        f"no data for {', '.join(listed)}",
        "add --input NAME=FILE, or --random-inputs SEED for random values",
    )


def _read_files(
    names: list[str],
    options: Sequence[str] | None,
    notes: Diagnostics,
    read_picture: Callable[[str, str], Mapping[str, np.ndarray[Any, Any]]],
) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of the files of `--input` options, by input.

    `read_picture(name, path)` returns those of a picture.
    """
    from nnefc.formats.arrays import load_array

    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for option in options or ():
        name, equals, path = option.partition("=")
        if not equals:
            name, path = "", option
        elif name not in names:
            stray = f"no input named {name}" if name else "there is no name before ="
            raise usage(f"--input {option}: {stray}", f"inputs: {', '.join(names)}")
        if not path:
            raise usage(f"--input '{option}': the path is empty", "--input NAME=FILE")
        if Path(path).suffix.lower() in {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp"}:
            arrays.update(read_picture(_input_of(name, names, arrays, option), path))
            continue
        loaded = load_array(path)
        if isinstance(loaded, dict):
            arrays.update(
                {name: _single(loaded, option)} if name else _known(loaded, names, path, notes)
            )
        else:
            arrays[_input_of(name, names, arrays, option)] = loaded
    return arrays


def _as_type(array: np.ndarray[Any, Any], value: Value, notes: Diagnostics) -> np.ndarray[Any, Any]:
    """Convert an array to the item type of an input if it is of the same kind of number.

    Files often hold float64 or bytes.  Other arrays are returned as they are.
    """
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
    """Whether an integer type can hold all items of an array."""
    import numpy as np

    bounds = np.iinfo(dtype)
    return bool(bounds.min <= array.min() and array.max() <= bounds.max) if array.size else True


def _known(
    arrays: Mapping[str, np.ndarray[Any, Any]], names: list[str], path: str, notes: Diagnostics
) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a file that are named like inputs; raises NnefError if none is."""
    known = {name: array for name, array in arrays.items() if name in names}
    strays = ", ".join(name for name in arrays if name not in names)
    if not known:
        raise usage(
            f"--input {path}: no input named {strays or 'in the file'}",
            f"inputs: {', '.join(names)}",
        )
    if strays:
        message = f"arrays without an input of that name are not used: {strays}"
        notes.add(Diagnostic("input/option", message, Place(path), "note"))
    return known


def _input_of(name: str, names: list[str], loaded: Mapping[str, Any], option: str) -> str:
    """The input that a file is for: `name`, or the only input without data."""
    if name:
        return name
    left = [n for n in names if n not in loaded]
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
