"""Whether a document is the one that it was: its files, their bytes, quick signs of a change."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Final, cast

from nnefc.formats.files import FilePath, open_regular
from nnefc.formats.paths import BESIDE, DOCUMENT, QUANTIZATION

_MOST_FILES: Final = 10_000
"""Of a folder."""
_NAMES: Final = (DOCUMENT, QUANTIZATION)

Stamp = tuple[tuple[str, int, int, int, int], ...]
"""What tells that files have not changed: name, device, number, size and time of each."""


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """A document as it was when it was looked at."""

    path: Path
    files: tuple[Path, ...]
    stamp: Stamp

    @property
    def nbytes(self) -> int:
        return sum(size for *_, size, _ in self.stamp)

    @property
    def is_unchanged(self) -> bool:
        """Whether the files are the same, as far as the system tells without reading them."""
        try:
            return _stamp(self.path, self.files) == self.stamp
        except OSError:
            return False

    def digest(self) -> str:
        """Of the names and bytes of all files; raises OSError or NnefError if one is gone."""
        whole = hashlib.sha256()
        for file in self.files:
            name = os.fsencode(file.relative_to(self.path))
            with open_regular(file) as stream:
                file_digest = hashlib.file_digest(cast(BufferedReader, stream), "sha256")
            whole.update(b"%d %b" % (len(name), name) + file_digest.digest())
        return whole.hexdigest()


def look_at(source: FilePath) -> Fingerprint | None:
    """An archive, or a folder: `graph.nnef`, `graph.quant` and what belongs to them below.

    None for anything else: a bare `graph.nnef`, whose data is among other files; what is not there.
    """
    try:
        path = Path(source).absolute()
        if path.is_file() and path.suffix.lower() == ".nnef":
            return None
        files = (path,) if path.is_file() else tuple(_files_in(path))
        return Fingerprint(path, files, _stamp(path, files))
    except (OSError, ValueError, TypeError):
        return None


def _files_in(folder: Path) -> Iterator[Path]:
    """In order; raises ValueError if there is no graph, if there are too many files, or links."""
    if not (folder / DOCUMENT).is_file():
        raise ValueError(folder)
    count = 0
    for place, folders, names in os.walk(folder, onerror=_raise):
        folders.sort()
        for name in [*folders, *sorted(names)]:
            file = Path(place, name)
            count += 1
            if count > _MOST_FILES or file.is_symlink():
                raise ValueError(name)
            low = name.lower()
            if name not in folders and (low in _NAMES or low.endswith(BESIDE)):
                yield file


def _raise(error: OSError) -> None:
    raise error


def _stamp(path: Path, files: tuple[Path, ...]) -> Stamp:
    return tuple(
        (name, s.st_dev, s.st_ino, s.st_size, max(s.st_mtime_ns, s.st_ctime_ns))
        for file in files
        for name, s in [(str(file.relative_to(path)), file.stat())]
    )
