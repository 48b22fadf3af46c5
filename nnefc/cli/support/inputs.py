"""Arrays for the inputs of a model, from the options `--input` and `--random-inputs`."""

from __future__ import annotations

import sys
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from nnefc.cli.support.diagnostics import report
from nnefc.cli.support.options import usage
from nnefc.cli.support.pictures import AS_THEY_ARE, PictureOptions
from nnefc.cli.support.turns import split_turn, turn_name
from nnefc.formats.files import printable
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError, Place
from nnefc.support.item_types import numpy_type
from nnefc.support.value_inputs import MAX_ITEMS, ValueInput

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    import numpy as np

    from nnefc.ir import Value

    Array = np.ndarray[Any, Any]

STANDARD_INPUT: Final = "-"
"""The path that stands for standard input."""
_INPUT_NAME: Final = "standard input"
_CHUNK_BYTES: Final = 1 << 20


class _Option(NamedTuple):
    """An `--input` option."""

    text: str
    name: str
    """The input; "" if the file or the other options tell."""
    path: str


class _Files(NamedTuple):
    """The files of `--input` options, by input."""

    arrays: dict[str, Array]
    pictures: dict[str, Path | BytesIO]
    later: dict[int, dict[str, Array]]
    """Arrays of the later calls of a session, counted from 1."""

    def names(self) -> set[str]:
        """The inputs with a file."""
        return {*self.arrays, *self.pictures}


def read_inputs(
    wanted: Sequence[Value],
    options: Sequence[str] | None,
    seed: int | None,
    pictures: PictureOptions = AS_THEY_ARE,
    known: Mapping[str, Array] | None = None,
) -> tuple[dict[str, Array], list[str]]:
    """The array for each of `wanted`, by name: from a file of `options`, else random with `seed`;
    and the names of random ones.

    `known`: arrays of inputs without a file.  Notes on standard error tell which arrays are
    converted or not used.  Raises NnefError `input/option` for inputs with neither.
    """
    from nnefc.runtime.memory.caller_arrays import random_array

    loaded = {**(known or {}), **read_files(wanted, options, pictures)}
    missing = [value for value in wanted if value.name not in loaded]
    if missing and seed is None:
        raise no_data([f"{value.name} ({value.type})" for value in missing])
    for value in missing:
        loaded[value.name] = random_array(value.type, seed or 0, value.name)
    arrays = {value.name: loaded[value.name] for value in wanted}
    return arrays, [value.name for value in missing]


def read_files(
    wanted: Sequence[Value],
    options: Sequence[str] | None,
    pictures: PictureOptions = AS_THEY_ARE,
) -> dict[str, Array]:
    """The arrays of the files of `options` by input, converted to the types of `wanted`.

    Notes on standard error tell which arrays are converted or not used.
    """
    notes = Diagnostics()
    files = _open_files([value.name for value in wanted], options, notes)
    if files.later:
        message = f"arrays of later calls are not used: {turn_name(min(files.later), '...')}"
        notes.add(Diagnostic("input/option", message, severity="note"))
    (arrays,) = _converted(wanted, [files], pictures, notes)
    return arrays


def read_turns(
    wanted: Sequence[Value],
    options: Sequence[str] | None,
    pictures: PictureOptions = AS_THEY_ARE,
    outputs: Container[str] = (),
) -> list[dict[str, Array]]:
    """`read_files` for each call of a session; arrays of the second one are named `turn_1/NAME`.

    Without files, the result is one empty dict.  No note tells of arrays named like `outputs`.
    Raises NnefError if a call is left out.
    """
    notes = Diagnostics()
    files = _open_files([value.name for value in wanted], options, notes, outputs)
    last = max(files.later, default=0)
    if left_out := [turn for turn in range(1, last) if turn not in files.later]:
        names = ", ".join(turn_name(turn, "...") for turn in left_out)
        raise usage(f"--input: the files have {turn_name(last, '...')}, but not {names}")
    later = [_Files(files.later[turn], {}, {}) for turn in range(1, last + 1)]
    return _converted(wanted, [files, *later], pictures, notes)


def _converted(
    wanted: Sequence[Value], turns: Sequence[_Files], pictures: PictureOptions, notes: Diagnostics
) -> list[dict[str, Array]]:
    """The arrays and pictures of each call in the types of `wanted`; prints the notes."""
    pictures.check(any(files.pictures for files in turns))
    problems: list[Diagnostic] = []
    converted: list[dict[str, Array]] = []
    for files in turns:
        arrays: dict[str, Array] = {}
        for value in wanted:
            try:
                if value.name in files.arrays:
                    arrays[value.name] = _as_type(files.arrays[value.name], value, notes)
                elif value.name in files.pictures:
                    picture = files.pictures[value.name]
                    arrays[value.name] = pictures.read(picture, value.type, notes)
            except NnefError as error:
                problems += error.errors
        converted.append(arrays)
    report(notes.warnings)
    if problems:
        raise NnefError(problems)
    return converted


def input_shapes(
    names: Sequence[str], options: Sequence[str] | None, values: Mapping[str, ValueInput]
) -> dict[str, tuple[int, ...] | None]:
    """Shapes of the files of `--input` options by input; None for pictures, which fit any shape.

    `values`: the inputs whose values decide shapes, which have keys instead.
    """
    files = _open_files(list(names), options, Diagnostics())
    found = {name: key_of(name, array, values) for name, array in files.arrays.items()}
    return dict.fromkeys(files.pictures) | found


def files_of(options: Sequence[str] | None) -> list[Path]:
    """The files that `--input` options name; of a folder, all files in it."""
    from nnefc.formats.files import is_folder

    paths = [Path(text.partition("=")[2] or text) for text in options or ()]
    return [
        file
        for path in paths
        if str(path) != STANDARD_INPUT
        for file in ([path, *path.rglob("*")] if is_folder(path) else [path])
    ]


def key_of(name: str, array: Array, values: Mapping[str, ValueInput]) -> tuple[int, ...]:
    """The shape of an array, or its key if its values decide shapes; raises NnefError."""
    each = values.get(name)
    if each is None:
        return array.shape
    if array.ndim != each.rank or array.dtype.kind not in "biuf" or array.size > MAX_ITEMS:
        kind = f"{each.dtype}[{','.join(each.extents)}] with at most {MAX_ITEMS} items"
        message = f"input '{name}' is {array.dtype}{list(array.shape)}, expected {kind}"
        raise NnefError.of("input/shape", message)
    return each.key(array.reshape(-1).tolist())


def value_arrays(
    shapes: Mapping[str, Sequence[int]], values: Mapping[str, ValueInput]
) -> dict[str, Array]:
    """The arrays of the inputs whose values decide shapes, by the keys among `shapes`."""
    import numpy as np

    return {
        name: np.array(each.items(key), numpy_type(each.dtype)).reshape(each.shape(key))
        for name, each in values.items()
        for key in ([shapes[name]] if name in shapes else [])
    }


def no_data(listed: Sequence[str]) -> NnefError:
    """The error for inputs that have neither a file nor a seed."""
    return usage(
        f"no data for {', '.join(listed)}",
        "add --input NAME=FILE, or --random-inputs SEED for random values",
    )


def _open_files(
    names: list[str],
    options: Sequence[str] | None,
    notes: Diagnostics,
    outputs: Container[str] = (),
) -> _Files:
    """Read the arrays of `--input` options, and find the pictures; NnefError with all errors."""
    files = _Files({}, {}, {})
    problems: list[Diagnostic] = []
    standard_input = ""
    for text in options or ():
        try:
            option = _parsed(text, names)
            if option.path == STANDARD_INPUT:
                if standard_input:
                    raise usage(
                        f"--input {text}: --input {standard_input} reads standard input",
                        "write the other array to a file, or send an .npz file with both",
                    )
                standard_input = text
            _open_file(option, names, files, notes, outputs)
        except NnefError as error:
            problems += error.errors
    if problems:
        raise NnefError(problems)
    return files


def _parsed(text: str, names: Sequence[str]) -> _Option:
    """An option [NAME=]FILE."""
    name, equals, path = text.partition("=")
    if not equals:
        if text in names and not Path(text).exists():
            raise usage(f"--input {text}: there is no file", f"--input {text}=FILE")
        name, path = "", text
    elif name not in names:
        stray = f"no input named {printable(name)}" if name else "there is no name before ="
        raise usage(f"--input {printable(text)}: {stray}", f"inputs: {', '.join(names)}")
    if not path:
        raise usage(f"--input '{text}': the path is empty", "--input NAME=FILE")
    return _Option(text, name, path)


def _open_file(
    option: _Option,
    names: list[str],
    files: _Files,
    notes: Diagnostics,
    outputs: Container[str],
) -> None:
    """Add what the file of an option holds to `files`."""
    if option.name in files.names():
        raise usage(f"--input {option.text}: input {option.name} has a file already")
    content = _content(option.path, names)
    if isinstance(content, Path | BytesIO):
        files.pictures[_input_of(option, names, files)] = content
    elif not isinstance(content, dict):
        files.arrays[_input_of(option, names, files)] = content
    elif option.name:
        files.arrays[option.name] = _single(content, option)
    else:
        _add_known(files, content, names, option, notes, outputs)


def _content(path: str, names: Sequence[str]) -> Array | dict[str, Array] | Path | BytesIO:
    """The arrays in a file, a folder or standard input; a path or a file in memory is a picture.

    `names`: of the inputs, after which the files of a folder are named.
    """
    from nnefc.cli.support.array_folders import arrays_in_folder
    from nnefc.formats.arrays import load_array, parse_arrays
    from nnefc.formats.files import is_folder
    from nnefc.formats.image import SUFFIXES

    if path == STANDARD_INPUT:
        content = _standard_input(sys.stdin)
        arrays = parse_arrays(content, _INPUT_NAME)
        return BytesIO(content) if arrays is None else arrays
    if is_folder(path):
        return {name: array for name, array, _ in arrays_in_folder(Path(path), names)}
    return Path(path) if Path(path).suffix.lower() in SUFFIXES else load_array(path)


@lru_cache(1)  # shapes are read before arrays
def _standard_input(stream: TextIO | None) -> bytes:
    """All bytes of standard input."""
    from nnefc.formats.files import check_size
    from nnefc.support.limits import Limits

    if stream is None or stream.isatty():
        kind = "closed" if stream is None else "a terminal"
        raise usage(
            f"--input -: standard input is {kind}",
            "write a file to it, as in nnefc run MODEL -i - < x.npy; ./- is a file with that name",
        )
    content, limit = bytearray(), Limits().tensor_bytes
    while chunk := stream.buffer.read(_CHUNK_BYTES):  # a large size would be allocated at once
        content += chunk
        check_size(len(content), limit, _INPUT_NAME)
    if not content:
        raise usage("--input -: standard input is empty")
    return bytes(content)


def _as_type(array: Array, value: Value, notes: Diagnostics) -> Array:
    """Convert an array to the item type of an input, but no reals to integers that differ.

    Files often hold float64 or bytes.  Other arrays are returned as they are.
    """
    dtype = value.type.dtype.numpy
    kind = "f" if value.type.dtype.is_float else dtype.kind
    accepted = {"f": "fiub", "i": "iubf", "u": "iubf", "b": "iu"}
    if array.dtype == dtype or array.dtype.kind not in accepted.get(kind, ""):
        return array
    if kind in "iu" and not _holds(dtype, array):
        return array
    message = f"input {value.name!r}: converted from {array.dtype} to {dtype}"
    notes.add(Diagnostic("input/dtype", message, severity="note"))
    return array != 0 if dtype.kind == "b" else array.astype(dtype)


def _holds(dtype: np.dtype[Any], array: Array) -> bool:
    """Whether an integer type can hold all items of an array of numbers or bools."""
    import numpy as np

    bounds = np.iinfo(dtype)
    if not array.size or array.dtype.kind == "b":
        return True
    if array.dtype.kind == "f":
        # 2 ** bits is a float, the largest integer may be none; comparisons with NaN are false
        within = (array >= float(bounds.min)) & (array < float(bounds.max + 1))
        return bool(within.all() and (array == np.trunc(array)).all())
    return bool(bounds.min <= array.min() and array.max() <= bounds.max)


def _add_known(
    files: _Files,
    arrays: Mapping[str, Array],
    names: list[str],
    option: _Option,
    notes: Diagnostics,
    outputs: Container[str],
) -> None:
    """Add the arrays of a file that are named like inputs; raises NnefError if none is."""
    split = {name: split_turn(name) if name not in names else (None, name) for name in arrays}
    known = {name: turn for name, turn in split.items() if turn[1] in names}
    strays = ", ".join(name for name in arrays if name not in known)
    if not known:
        raise usage(
            f"--input {option.path}: no input named {strays or 'in the file'}",
            f"inputs: {', '.join(names)}",
        )
    if strays := ", ".join(
        name for name in arrays if name not in known and split_turn(name)[1] not in outputs
    ):
        message = f"arrays without an input of that name are not used: {strays}"
        notes.add(Diagnostic("input/option", message, Place(option.path), "note"))
    added: set[tuple[int, str]] = set()
    for full, (turn, name) in known.items():
        if (turn or 0, name) in added:
            raise usage(f"--input {option.path}: {full} and {name} are the same input")
        added.add((turn or 0, name))
        target = files.later.setdefault(turn, {}) if turn else files.arrays
        if name in (target if turn else files.names()):
            raise usage(f"--input {option.path}: input {full} has a file already")
        target[name] = arrays[full]


def _input_of(option: _Option, names: list[str], files: _Files) -> str:
    """The input that a file is for: the named one, or the only input without data."""
    if option.name:
        return option.name
    left = [name for name in names if name not in files.names()]
    if names and not left:
        listed = f"inputs: {', '.join(names)}"
        raise usage(f"--input {option.path}: every input has a file already", listed)
    if len(left) != 1:
        listed = ", ".join(left or names)
        hint = f"write NAME={option.path}, NAME: {listed}"
        raise usage(f"--input {option.path}: for which input?", hint)
    return left[0]


def _single(arrays: Mapping[str, Array], option: _Option) -> Array:
    if len(arrays) != 1:
        kind = "folder" if Path(option.path).is_dir() else "file"
        raise usage(f"--input {option.text}: the {kind} holds {len(arrays)} arrays, not one")
    return next(iter(arrays.values()))
