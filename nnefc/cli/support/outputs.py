"""Files for arrays by name: .npz, .npy, .dat, or a folder."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nnefc.cli.support.options import usage
from nnefc.support.errors import NnefError, Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy as np

    Array = np.ndarray[Any, Any]

_STANDARD_OUTPUT: Final = Path("/dev/stdout")
_SINGLE: Final = (".npy", ".dat")
"""Suffixes of files that hold one array."""


def check_output_path(path: Path, *, json: bool) -> None:
    """Raise NnefError unless outputs can be written to a path of this name, and JSON printed."""
    from nnefc.formats.atomic import require_writable
    from nnefc.formats.files import exists, is_folder, is_stream

    path = stream_path(path)
    if path == _STANDARD_OUTPUT and json:
        raise usage("--json and --output -: both write to standard output", "give one of them")
    if path == _STANDARD_OUTPUT and sys.stdout.isatty():
        raise usage(
            "--output -: standard output is a terminal, which shows no arrays",
            "without --output they are printed; -o - | sends them to another command",
        )
    if is_stream(path):
        return
    if path.suffix.lower() not in ("", ".npz", *_SINGLE) and not is_folder(path):
        raise usage(
            f"--output {path}: must be an .npz, .npy or .dat file or a folder, not {path.suffix}"
        )
    if is_folder(path):
        require_writable(path / "outputs")
    elif path.suffix or (is_folder(path.absolute().parent) and not exists(path)):
        require_writable(path)  # other folders are created


def stream_path(path: Path) -> Path:
    """The path of an option; `-` is standard output."""
    return _STANDARD_OUTPUT if str(path) == "-" else path


def check_suffix(option: str, path: Path | None, suffix: str) -> None:
    """Raise NnefError unless a path is a stream, or a name with the suffix of its format, which can
    be written.
    """
    from nnefc.formats.atomic import require_writable
    from nnefc.formats.files import is_stream

    if path is None:
        return
    if path.suffix != suffix and not is_stream(path):
        raise usage(f"{option} {path}: the name should end in {suffix}")
    require_writable(path)


def refuse_own_input(model: str, output: Path) -> None:
    """Raise NnefError for an output that would replace a file of the model that a command reads.

    Links and other spellings of a path are the file that they name.
    """
    from nnefc.formats.files import is_stream

    if is_stream(output):
        return
    written = [output]
    if output.suffix.lower() == ".onnx":
        written.append(output.with_name(f"{output.name}.data"))
    _refuse(output, written, _files_of(Path(model)), "belongs to the model that is read")


def refuse_read_files(
    model: str, inputs: Iterable[Path], output: Path, written: Sequence[Path]
) -> None:
    """Raise NnefError if files of an output would replace files of inputs or of the model.

    Links and other spellings of a path are the file that they name.
    """
    from nnefc.formats.files import is_stream

    if not is_stream(output):
        _refuse(output, written, inputs, "is an input")
        _refuse(output, written, _files_of(Path(model)), "belongs to the model that is read")


def _refuse(output: Path, written: Sequence[Path], read: Iterable[Path], what: str) -> None:
    """Raise NnefError if a file that is written is one of those that are read."""
    from nnefc.formats.files import printable

    for own in read:
        for path in written:
            with suppress(OSError, ValueError):  # what does not exist is not replaced
                if path.samefile(own):
                    raise usage(
                        f"--output {output}: this would replace {printable(str(own))}, which "
                        f"{what}",
                        "give another name",
                    )


def _files_of(model: Path) -> Iterator[Path]:
    """A model, its files, and the folder of a document."""
    from nnefc.formats.fingerprints import take_fingerprint
    from nnefc.formats.paths import DOCUMENT

    yield model
    fingerprint = take_fingerprint(model)
    if fingerprint is not None:
        folder = Path(fingerprint.folder)
        yield from (folder / name for name, *_ in fingerprint.stamp)
        if Path(fingerprint.path).name == DOCUMENT:
            yield folder


def output_files(path: Path, names: Sequence[str]) -> list[Path]:
    """The files that `write_outputs` writes for outputs of these names; a stream is itself.

    Raises NnefError for several arrays and a file that holds one.
    """
    from nnefc.formats.files import is_folder, is_stream
    from nnefc.formats.paths import file_names

    path, suffix = stream_path(path), path.suffix.lower()
    if not is_stream(path) and (is_folder(path) or not suffix):
        return [path / f"{name}.dat" for name in file_names(names)]
    if suffix in _SINGLE and len(names) != 1:
        raise usage(
            f"--output {path}: an {suffix} file holds one output; the model has {len(names)} "
            f"({', '.join(names)})",
            f"write an .npz file or a folder: -o {path.with_suffix('.npz')}",
        )
    return [path]


def write_outputs(path: Path, results: Mapping[str, Array]) -> list[Path]:
    """Write arrays to a file, or to a folder with a tensor file for each; returns the files.

    A stream, such as /dev/null or `-`, gets an `.npy` file, or for several arrays an `.npz` file.
    Raises NnefError for several arrays and a file that holds one, and `data/write`.
    """
    from nnefc.formats.arrays import save_array, save_arrays
    from nnefc.formats.files import is_folder, is_stream
    from nnefc.formats.tensor_file import write_stored

    files = output_files(path, list(results))
    path, suffix = stream_path(path), path.suffix.lower()
    if is_stream(path):
        suffix = suffix or (_SINGLE[0] if len(results) == 1 else ".npz")
    elif is_folder(path) or not suffix:
        create_folder(path, "outputs are written to a file, or to a folder with a file for each")
        for file, array in zip(files, results.values(), strict=True):
            write_stored(file, array)
        return files
    if suffix == ".npz":
        save_arrays(path, results)
        return files
    (array,) = results.values()
    if suffix == ".npy":
        save_array(path, array)
    else:
        write_stored(path, array)
    return files


def create_folder(path: Path, hint: str) -> None:
    """Create a folder, unless it exists; raises NnefError `data/write` with a hint."""
    from nnefc.formats.files import describe, printable, reason

    place = Place(printable(str(path)))
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        kind = describe(path.stat().st_mode) if path.exists() else "a broken link"
        raise NnefError.of("data/write", f"this is {kind}, not a folder", place, hint) from None
    except OSError as error:
        raise NnefError.of(
            "data/write", f"cannot create the folder: {reason(error)}", place
        ) from None
