"""Detect changes of a document: by file status, which is fast, or by a digest of its files.

Modules that read documents are not imported, since a model from the cache does not need them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from nnefc.formats.files import FilePath, absolute_path, map_file, open_regular, size_of
from nnefc.formats.paths import (
    COMPANION_SUFFIXES,
    DOCUMENT,
    DOCUMENT_SUFFIX,
    MANIFEST,
    QUANTIZATION,
    RECORDS,
    SAFETENSORS_SUFFIX,
    TENSOR_SUFFIX,
    is_onnx,
    normal_path,
)
from nnefc.support.digests import blake2b
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from typing import BinaryIO

    from nnefc.formats.fingerprints.document_labels import Labels

_MAX_FILES: Final = 10_000
"""Files of a folder that holds a model."""
_MAX_FILES_BESIDE: Final = 1_000
"""Files beside a bare document, whose folder may hold anything."""
_MAX_TEXT: Final = 1 << 26
"""Bytes of a document that is searched for labels; beside larger ones, all files count."""
_NAMES: Final = (DOCUMENT, QUANTIZATION)
_SMALL: Final = 1 << 20
"""Files up to this size are hashed by BLAKE2b; OpenSSL is faster, but loading it takes 3 ms."""

Stamp = Sequence[tuple[str, int, int, int, int, int]]
"""The status of each file: name, device, inode, size, and the times of the last modification of its
content and of the last change of its status, in nanoseconds.

Programs can set the former.  Where a file system has the latter, each modification changes it.
"""


class Fingerprint(NamedTuple):
    """The files of a document and their status at one time."""

    path: str
    """The absolute path of the document, archive or folder."""
    folder: str
    """The absolute path of the folder with the files."""
    stamp: Stamp

    @property
    def nbytes(self) -> int:
        return sum(size for *_, size, _, _ in self.stamp)

    @property
    def is_unchanged(self) -> bool:
        """Whether the status of all files is the same; their content is not read."""
        try:
            return _stamp(self.folder, [name for name, *_ in self.stamp]) == self.stamp
        except OSError:
            return False

    def digesting(self) -> Callable[[], str]:
        """Begin to compute `digest()`; the function returns or raises what that does.

        Large files are read by other threads meanwhile.
        """
        if self.nbytes <= _SMALL:
            return self.digest
        from nnefc.formats.fingerprints.large_digest import in_background

        return in_background(self.digest)

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


def take_fingerprint(source: FilePath, known: Stamp = ()) -> Fingerprint | None:
    """The fingerprint of an archive, a folder, a bare document, or an ONNX file.

    Folders have `graph.nnef`, or are an nnpackage, of which all files count.  A bare document and
    an ONNX file belong to the files in their folder that they name.  None for missing files, for
    folders with too many files, or with links to others than regular files.

    `known`: a stamp of the same document.  An ONNX file with this status names the same files.
    """
    try:
        path = absolute_path(os.fspath(source))
        if not os.path.isfile(path):
            is_document = os.path.isfile(os.path.join(path, DOCUMENT))
            if not is_document and not os.path.isfile(os.path.join(path, MANIFEST)):
                return None
            files = _files_in(path, _MAX_FILES, every=not is_document)
            return Fingerprint(path, path, _stamp(path, sorted(files)))
        folder, name = os.path.split(path)
        stamp = list(_stamp(folder, [name]))  # before its text is read
        if name.lower().endswith(DOCUMENT_SUFFIX):
            beside = {*_files_beside(folder, name)} - {name}
            stamp += _stamp(folder, sorted(beside))
        elif is_onnx(path):
            is_known = bool(known) and known[0] == stamp[0]
            others = [other for other, *_ in known[1:]] if is_known else _external_files(path)
            stamp += _stamp(folder, others)
        return Fingerprint(path, folder, stamp)
    except (OSError, ValueError, TypeError, NnefError):
        return None


def _external_files(path: str) -> list[str]:
    """The files with external data of an ONNX file; raises ValueError if it is damaged."""
    from nnefc.formats.onnx.external_files import external_files

    with open_regular(path) as stream:
        locations = external_files(map_file(stream) or stream.read())
    others: list[str] = []
    for location in locations:
        other, fault = normal_path(location)
        if fault:
            raise ValueError(fault)
        others.append(other)
    return others


def _files_beside(folder: str, document: str) -> Iterable[str]:
    """The files that an import of a bare document may read; raises as `_files_in` does."""
    from nnefc.formats.fingerprints.document_labels import labels_in

    with open_regular(os.path.join(folder, document)) as stream:
        labels = labels_in(stream.read()) if size_of(stream) <= _MAX_TEXT else None
    files = list(_files_in(folder, _MAX_FILES_BESIDE, labels))
    if labels is None:
        return files
    low = {file.replace(os.sep, "/").lower() for file in files}
    if all(label + TENSOR_SUFFIX in low for label in labels.variables):
        # only labels without a tensor file are looked up in these
        return (f for f in files if os.sep in f or not f.lower().endswith(SAFETENSORS_SUFFIX))
    return files


def _files_in(
    top: str, limit: int, labels: Labels | None = None, *, every: bool = False
) -> Iterator[str]:
    """The files below a folder that an import may read, by relative path.

    `labels`: of the document, if it is known that it names its files by them.  `every`: files of
    any name.  Raises ValueError beyond `limit` files, or for a link to anything but a regular file.
    """
    count = 0
    folders = [""]
    while folders:
        folder = folders.pop()
        with os.scandir(os.path.join(top, folder)) as entries:
            for entry in entries:
                count += 1
                if count > limit:
                    raise ValueError(entry.name)
                path = f"{folder}{entry.name}"
                if labels and not _may_be_read(path, labels):
                    continue
                if entry.is_symlink() and not entry.is_file():
                    raise ValueError(entry.name)
                low = entry.name.lower()
                if entry.is_dir():
                    folders.append(path + os.sep)
                elif every or low in _NAMES or low.endswith(COMPANION_SUFFIXES):
                    yield path


def _may_be_read(path: str, labels: Labels) -> bool:
    """Whether an import may read a file, or files in a folder, beside the document."""
    low = path.replace(os.sep, "/").lower()
    return (
        low in (QUANTIZATION, RECORDS)
        or ("/" not in low and low.endswith(SAFETENSORS_SUFFIX))
        or low in labels.folders
        or labels.is_named(low)
    )


def _stamp(folder: str, names: Sequence[str]) -> Stamp:
    return [
        (name, s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns)
        for name in names
        for s in [os.stat(os.path.join(folder, name))]
    ]


def _content_digest(stream: BinaryIO) -> bytes:
    """A digest of the content of an open file."""
    size = size_of(stream)
    if size <= _SMALL:
        return blake2b(stream.read(), digest_size=32).digest()
    from nnefc.formats.fingerprints.large_digest import digest_of_file

    return digest_of_file(stream.fileno(), size)
