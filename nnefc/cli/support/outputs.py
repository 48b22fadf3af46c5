"""Files for arrays by name: .npz, .npy, .dat, or a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nnefc.cli.support.options import usage
from nnefc.support.errors import NnefError, Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    Array = np.ndarray[Any, Any]

_SINGLE: Final = (".npy", ".dat")
"""Suffixes of files that hold one array."""


def check_output_path(path: Path) -> None:
    """Raise NnefError unless outputs can be written to a path of this name."""
    from nnefc.formats.files import is_folder

    if str(path) == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
        raise usage(
            f"--output {path}: outputs are written to files and folders, not to streams or devices",
            "--json prints them; without --output they are not written",
        )
    if path.suffix.lower() not in ("", ".npz", *_SINGLE) and not is_folder(path):
        raise usage(
            f"--output {path}: must be an .npz, .npy or .dat file or a folder, not {path.suffix}"
        )


def write_outputs(path: Path, results: Mapping[str, Array]) -> list[Path]:
    """Write arrays to a file, or to a folder with a tensor file for each; returns the files.

    Raises NnefError for several arrays and a file that holds one, and `data/write`.
    """
    from nnefc.formats.arrays import save_array, save_arrays
    from nnefc.formats.files import is_folder
    from nnefc.formats.paths import file_names
    from nnefc.formats.tensor_file import write_stored

    suffix = path.suffix.lower()
    if is_folder(path) or not suffix:
        create_folder(path, "outputs are written to a file, or to a folder with a file for each")
        files = [path / f"{name}.dat" for name in file_names(results)]
        for file, array in zip(files, results.values(), strict=True):
            write_stored(file, array)
        return files
    if suffix in _SINGLE and len(results) != 1:
        raise usage(
            f"--output {path}: an {suffix} file holds one output; the model has {len(results)} "
            f"({', '.join(results)})",
            f"write an .npz file or a folder: -o {path.with_suffix('.npz')}",
        )
    if suffix == ".npz":
        save_arrays(path, results)
        return [path]
    (array,) = results.values()
    if suffix == ".npy":
        save_array(path, array)
    else:
        write_stored(path, array)
    return [path]


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
