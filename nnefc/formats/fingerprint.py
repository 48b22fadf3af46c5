"""Detect changes of a document: by file status, which is fast, or by a digest of its files.

Modules that read documents are not imported, since a model from the cache does not need them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nnefc.formats.files import FilePath, absolute_path, open_regular, size_of
from nnefc.formats.paths import COMPANION_SUFFIXES, DOCUMENT, DOCUMENT_SUFFIX, QUANTIZATION
from nnefc.support.digests import blake2b

if TYPE_CHECKING:
    from io import BufferedReader

_MAX_FILES: Final = 10_000
"""Files of a folder that holds a model."""
_MAX_FILES_BESIDE: Final = 1_000
"""Files beside a bare document, whose folder may hold anything."""
_NAMES: Final = (DOCUMENT, QUANTIZATION)
_SMALL: Final = 1 << 20
"""Files up to this size are hashed by BLAKE2b; OpenSSL is faster, but loading it takes 3 ms."""

Stamp = Sequence[tuple[str, int, int, int, int]]
"""The status of each file: name, device, inode, size and time of the last change."""


class Fingerprint(NamedTuple):
    """The files of a document and their status at one time."""

    path: str
    """The absolute path of the document, archive or folder."""
    folder: str
    """The absolute path of the folder with the files."""
    stamp: Stamp

    @property
    def nbytes(self) -> int:
        return sum(size for *_, size, _ in self.stamp)

    @property
    def is_unchanged(self) -> bool:
        """Whether the status of all files is the same; their content is not read."""
        try:
            return _stamp(self.folder, [name for name, *_ in self.stamp]) == self.stamp
        except OSError:
            return False

    def digest(self) -> str:
        """Digest of the contents of all files and the names of those beside the document.

        Raises OSError or NnefError if a file is gone.
        """
        whole = blake2b(digest_size=32)
        for name, *_ in self.stamp:
            file = os.path.join(self.folder, name)
            encoded = b"." if file == self.path else os.fsencode(name)
            whole.update(b"%d %b" % (len(encoded), encoded))
            with open_regular(file) as stream:
                whole.update(_content_digest(stream))
        return whole.hexdigest()


def take_fingerprint(source: FilePath) -> Fingerprint | None:
    """The fingerprint of an archive, a folder with `graph.nnef`, or a bare document.

    A bare document belongs to the files in its folder that an import may read.  None for missing
    files, and for folders with too many files, or with links to others than regular files.
    """
    try:
        path = absolute_path(os.fspath(source))
        if not os.path.isfile(path):
            if not os.path.isfile(os.path.join(path, DOCUMENT)):
                return None
            return Fingerprint(path, path, _stamp(path, sorted(_files_in(path, _MAX_FILES))))
        folder, name = os.path.split(path)
        names = {name}
        if name.lower().endswith(DOCUMENT_SUFFIX):
            names.update(_files_in(folder, _MAX_FILES_BESIDE))
        return Fingerprint(path, folder, _stamp(folder, sorted(names)))
    except (OSError, ValueError, TypeError):
        return None


def _files_in(top: str, limit: int) -> Iterator[str]:
    """The files below a folder that an import may read, by relative path.

    Raises ValueError beyond `limit` files, or for a link to anything but a regular file.
    """
    count = 0
    folders = [""]
    while folders:
        folder = folders.pop()
        with os.scandir(os.path.join(top, folder)) as entries:
            for entry in entries:
                count += 1
                if count > limit or (entry.is_symlink() and not entry.is_file()):
                    raise ValueError(entry.name)
                path = f"{folder}{entry.name}"
                low = entry.name.lower()
                if entry.is_dir():
                    folders.append(path + os.sep)
                elif low in _NAMES or low.endswith(COMPANION_SUFFIXES):
                    yield path


def _stamp(folder: str, names: Sequence[str]) -> Stamp:
    return [
        (name, s.st_dev, s.st_ino, s.st_size, max(s.st_mtime_ns, s.st_ctime_ns))
        for name in names
        for s in [os.stat(os.path.join(folder, name))]
    ]


def _content_digest(stream: Any) -> bytes:
    """A digest of the content of an open file."""
    if size_of(stream) <= _SMALL:
        return blake2b(stream.read(), digest_size=32).digest()
    import hashlib

    file: BufferedReader = stream
    return hashlib.file_digest(file, "sha256").digest()
