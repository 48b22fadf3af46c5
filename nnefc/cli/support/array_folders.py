"""Folders of arrays, as `nnefc run -o` and `nnefc compare --dump` write them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nnefc.support.errors import NnefError, Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    Array = np.ndarray[Any, Any]

SUFFIXES: Final = (".npy", ".dat")
"""Suffixes of the files of a folder that are read."""
_LISTED: Final = 5
"""Folders that an error names."""


def arrays_in_folder(folder: Path, names: Sequence[str]) -> Iterator[tuple[str, Array, Path]]:
    """(name, array, file) of the arrays in a folder, and in its folders turn_N: `turn_1/x`.

    `names` are those of tensors, with characters that names of files cannot have, which are
    written as `_`.  Raises NnefError `data/file` for a folder without arrays.
    """
    from nnefc.formats.arrays import load_array
    from nnefc.formats.files import printable
    from nnefc.formats.paths import file_names

    name_of = dict(zip(file_names(names), names, strict=True))
    files = [
        *folder.iterdir(),
        *(file for each in folder.glob("turn_*") for file in each.iterdir()),
    ]
    arrays = sorted(file for file in files if file.suffix.lower() in SUFFIXES)
    if not arrays:
        place = Place(printable(str(folder)))
        inner = sorted(printable(each.name) for each in folder.iterdir() if each.is_dir())
        more = f" and {len(inner) - _LISTED} others" if len(inner) > _LISTED else ""
        hint = f"name a folder within: {', '.join(inner[:_LISTED])}{more}" if inner else ""
        raise NnefError.of("data/file", "this folder has no .npy and no .dat file", place, hint)
    for file in arrays:
        turn = "" if file.parent == folder else f"{file.parent.name}/"
        array = load_array(file)
        assert not isinstance(array, dict), "an .npy or .dat file"
        yield f"{turn}{name_of.get(file.stem, file.stem)}", array, file
