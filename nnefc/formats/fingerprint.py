"""Detect changes of a document: by file status, which is fast, or by a digest of its files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Final, cast

from nnefc.formats.files import FilePath, open_regular
from nnefc.formats.paths import COMPANION_SUFFIXES, DOCUMENT, QUANTIZATION

_MAX_FILES: Final = 10_000
"""Files of a folder."""
_NAMES: Final = (DOCUMENT, QUANTIZATION)

Stamp = tuple[tuple[str, int, int, int, int], ...]
"""The status of each file: name, device, inode, size and time of the last change."""


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """The files of a document and their status at one time."""

    path: Path
    files: tuple[Path, ...]
    stamp: Stamp

    @property
    def nbytes(self) -> int:
        return sum(size for *_, size, _ in self.stamp)

    @property
    def is_unchanged(self) -> bool:
        """Whether the status of all files is the same; their content is not read."""
        try:
            return _stamp(self.path, self.files) == self.stamp
        except OSError:
            return False

    def digest(self) -> str:
        """SHA-256 of the names and contents of all files; OSError or NnefError if one is gone."""
        whole = hashlib.sha256()
        for file in self.files:
            name = os.fsencode(file.relative_to(self.path))
            with open_regular(file) as stream:
                file_digest = hashlib.file_digest(cast(BufferedReader, stream), "sha256")
            whole.update(b"%d %b" % (len(name), name) + file_digest.digest())
        return whole.hexdigest()


def take_fingerprint(source: FilePath) -> Fingerprint | None:
    """The fingerprint of an archive or of a folder with `graph.nnef`.

    None for a bare document, whose folder may hold unrelated files, and for missing files.
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
    """The files of a model in a folder, in a fixed order.

    Raises ValueError without a document, with links, or with more than `_MAX_FILES` files.
    """
    if not (folder / DOCUMENT).is_file():
        raise ValueError(folder)
    count = 0
    for parent, folders, names in os.walk(folder, onerror=_raise):
        folders.sort()
        for name in [*folders, *sorted(names)]:
            file = Path(parent, name)
            count += 1
            if count > _MAX_FILES or file.is_symlink():
                raise ValueError(name)
            low = name.lower()
            if name not in folders and (low in _NAMES or low.endswith(COMPANION_SUFFIXES)):
                yield file


def _raise(error: OSError) -> None:
    raise error


def _stamp(path: Path, files: tuple[Path, ...]) -> Stamp:
    return tuple(
        (name, s.st_dev, s.st_ino, s.st_size, max(s.st_mtime_ns, s.st_ctime_ns))
        for file in files
        for name, s in [(str(file.relative_to(path)), file.stat())]
    )
