"""Containers (chapter 5.1): the document, the tensors and the quantization of one network."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol

from nnefc.formats.archive import open_compressed_tar, open_tar, open_zip
from nnefc.formats.artifact import MAGIC
from nnefc.formats.container_writer import write_container
from nnefc.formats.encoding import Array
from nnefc.formats.files import FilePath, open_regular, printable, reason
from nnefc.formats.folder import FolderMembers
from nnefc.formats.paths import (
    ARCHIVES,
    DOCUMENT,
    JSON_SUFFIX,
    QUANTIZATION,
    SAFETENSORS_SUFFIX,
    SUBMODEL_SUFFIXES,
    TENSOR_SUFFIX,
    document_root,
    label_path,
    normal_path,
)
from nnefc.formats.safetensors import Safetensors, SafetensorsIndex
from nnefc.formats.tar import BLOCK, is_tar
from nnefc.formats.tensor_file import Buffer, StoredTensor
from nnefc.formats.tensor_header import HEADER_SIZE, parse_header
from nnefc.formats.tract_items import COMPLEX, VENDOR
from nnefc.formats.watch import is_watched, tell
from nnefc.support.errors import NnefError, Place
from nnefc.support.limits import Limits

__all__ = ["Container", "open_container", "write_container"]

_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz"}
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")


class Members(Protocol):
    """The files of a container by relative path, `/` between folders."""

    def shown(self, path: str) -> str: ...
    def find(self, path: str) -> str | None: ...
    def read(self, path: str, limit: int) -> bytes: ...
    def tensor(self, path: str, limits: Limits) -> Array: ...
    def stored(self, path: str, limits: Limits) -> StoredTensor: ...
    def content(self, path: str) -> Buffer: ...
    def names_in(self, folder: str) -> Iterable[str]: ...
    def tensor_paths(self) -> Iterable[str]: ...
    def close(self) -> None: ...


class Container:
    """One network's files, read on demand; a context manager.

    `name` is the path it was opened by, `graph_file` and `quantization_file` are names for
    messages, such as `net.tgz/graph.nnef`; `quantization_file` is None when there is none.
    Arrays that were read stay valid after `close`.
    """

    def __init__(
        self,
        name: str,
        members: Members,
        limits: Limits,
        document: str,
        *,
        root: str = "",
        graph_file: str | None = None,
        is_part: bool = False,
    ) -> None:
        """`document`: path of the document, `root`: what precedes every path, "" or "top/".

        `is_part`: the files are those of another container, which closes them.
        """
        self.name = name
        self._is_part = is_part
        self._members = members
        self._limits = limits
        self._document = document
        self._root = root
        self._tensors_read = 0
        self.graph_file = graph_file or members.shown(document)
        # a document under another name has no quantization file: graph.quant is not about it
        own = document.rsplit("/", 1)[-1] == DOCUMENT
        self._quantization = members.find(root + QUANTIZATION) if own else None
        self.quantization_file = (
            None if self._quantization is None else members.shown(self._quantization)
        )

    def graph_text(self) -> bytes:
        """The document, undecoded. Raises NnefError `limit/size`, `container/...`."""
        return self._members.read(self._document, self._limits.document_bytes)

    def quantization(self) -> bytes | None:
        """The quantization file, undecoded, or None. Raises NnefError as `graph_text` does."""
        if self._quantization is None:
            return None
        return self._members.read(self._quantization, self._limits.document_bytes)

    def tensor_file(self, label: str) -> str | None:
        """The name, for messages, of the tensor file of a variable's label, or None."""
        path = self._find(label)
        return None if path is None else self._members.shown(path)

    def tensor(self, label: str) -> Array | None:
        """The tensor stored for a variable's label, or None; read-only where it is a view.

        Labels are found ignoring case when no file has the very name. Raises NnefError
        `container/label` for a label that leads out of the container, `container/ambiguous`, and
        what `read_tensor` raises.
        """
        path = self._next(label)
        return None if path is None else self._members.tensor(path, self._limits)

    def stored(self, label: str) -> StoredTensor | None:
        """As `tensor`, with formats of tract as well, and with the tensors of `*.safetensors` files
        beside the document: those that no tensor file is named like.
        """
        path = self._next(label)
        if path is not None:
            return self._members.stored(path, self._limits)
        return self._safetensors.read(label)

    def is_complex(self, label: str) -> bool:
        """Whether the header of a tensor file says that its items are complex; nothing else is
        read.
        """
        with suppress(NnefError):  # whoever reads the file tells what is wrong with it
            path = self._find(label)
            if path is not None:
                raw = bytes(memoryview(self._members.content(path))[:HEADER_SIZE])
                header = parse_header(raw, path, foreign=True)
                return header.vendor == VENDOR and header.code in COMPLEX
        return False

    def stored_names(self) -> list[str]:
        """The labels of all tensors that `stored` gives, in order."""
        return sorted({*self.tensor_names(), *self._safetensors.names})

    def resource(self, name: str) -> bytes | None:
        """A file beside the document, or None.  Raises NnefError as `graph_text` does."""
        path, wrong = normal_path(name)
        found = None if wrong or not path else self._members.find(self._root + path)
        return None if found is None else self._members.read(found, self._limits.document_bytes)

    def json_names(self) -> list[str]:
        """Names of the JSON files in the folder of the document, without `.json`, in order."""
        start, end = len(self._root), -len(JSON_SUFFIX)
        return [path[start:end] for path in self._beside(JSON_SUFFIX)]

    def submodel(self, label: str) -> Container | None:
        """The container of a model within this one, or None.

        It is in a folder of its own, LABEL/graph.nnef, or in an archive, LABEL.nnef.tgz or
        LABEL.nnef.tar.  Raises as `open_container` does.
        """
        root = f"{self._root}{label_path(label, self.name).removesuffix(TENSOR_SUFFIX)}"
        document = self._members.find(f"{root}/{DOCUMENT}")
        if document is not None:
            name = self._members.shown(document)
            return Container(
                name, self._members, self._limits, document, root=f"{root}/", is_part=True
            )
        for suffix in SUBMODEL_SUFFIXES:
            path = self._members.find(root + suffix)
            if path is not None:
                name = self._members.shown(path)
                file = tempfile.TemporaryFile()  # noqa: SIM115 (it closes with the container)
                file.write(self._members.read(path, self._limits.archive_bytes))
                file.seek(0)
                return _open_archive(file, Path(path), name, self._limits)
        return None

    def tensor_names(self) -> list[str]:
        """The labels of all tensor files that are there, in order."""
        start, end = len(self._root), -len(TENSOR_SUFFIX)
        return sorted(
            path[start:end]
            for path in self._members.tensor_paths()
            if path.startswith(self._root) and len(path) > start - end
        )

    def close(self) -> None:
        """Let go of the files."""
        if not self._is_part:
            self._members.close()

    def __enter__(self) -> Container:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _find(self, label: str) -> str | None:
        return self._members.find(self._root + label_path(label, self.name))

    def _next(self, label: str) -> str | None:
        """The tensor file that is read next, which is told to who watches."""
        path = self._find(label)
        if path is not None:
            if is_watched():
                tell(self._tensors_read, max(self._tensors_read, self._tensor_count), label)
            self._tensors_read += 1
        return path

    @cached_property
    def _safetensors(self) -> SafetensorsIndex:
        """What `*.safetensors` files beside the document have; raises NnefError."""
        return SafetensorsIndex(
            (
                Safetensors(self._members.content(path), self._members.shown(path), self._limits)
                for path in self._beside(SAFETENSORS_SUFFIX)
            ),
            self.name,
        )

    def _beside(self, suffix: str) -> list[str]:
        """Paths of the files in the folder of the document whose names end so, in order.

        Without those whose names begin with a dot: archives of macOS are full of them.
        """
        return [
            self._root + name
            for name in self._members.names_in(self._root)
            if name.lower().endswith(suffix) and not name.startswith(".")
        ]

    @cached_property
    def _tensor_count(self) -> int:
        return len(self.tensor_names())


def open_container(path: FilePath, *, limits: Limits | None = None) -> Container:
    """Open a folder, a document (`*.nnef`, its folder supplies the tensors) or an archive.

    Archives are told by their content: tar, also in gzip, bzip2 or xz, and zip. Nothing is
    extracted to disk. The document of an archive is `graph.nnef` at the top or in the only top
    folder that has one.

    Raises NnefError `container/...` when there is no document or the archive is broken or
    hostile (links, devices, paths that lead out of it, duplicates), `limit/...` when it unpacks to
    more than `limits` allow.
    """
    limits = limits or Limits()
    name = printable(os.fspath(path))
    place = Place(name)
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        raise NnefError.of(
            "container/file", "there is no such file or folder", place, "check the path"
        ) from None
    except (OSError, ValueError) as error:
        raise NnefError.of("container/file", f"cannot open: {reason(error)}", place) from None
    if stat.S_ISDIR(mode):
        return _open_folder(Path(path), name, limits)
    file = open_regular(path, "container/file")
    try:
        container = _open_archive(file, Path(path), name, limits)
    except BaseException:
        file.close()
        raise
    if container is not None:
        return container
    file.close()
    members = FolderMembers(Path(path).parent, limits)
    return Container(name, members, limits, Path(path).name, graph_file=name)


def _open_folder(path: Path, name: str, limits: Limits) -> Container:
    try:
        entries = [entry.name for entry in path.iterdir()]
    except OSError as error:
        raise NnefError.of("container/file", f"cannot open: {reason(error)}", Place(name)) from None
    if DOCUMENT not in entries:
        below = [
            f"{entry}/{DOCUMENT}"
            for entry in sorted(entries)[:1000]
            if (path / entry / DOCUMENT).is_file()
        ]
        hint = f"found {path / below[0]}: open that folder" if len(below) == 1 else ""
        if not below:
            document_root(entries, name)  # raises: tells what there is instead
        listed = ", ".join(printable(entry) for entry in below[:5])
        raise NnefError.of(
            "container/missing",
            f"there is no {DOCUMENT}",
            Place(name),
            hint or f"found {listed}: open one of these folders",
        )
    return Container(name, FolderMembers(path, limits), limits, DOCUMENT)


def _open_archive(file: BinaryIO, path: Path, name: str, limits: Limits) -> Container | None:
    """The container in an archive, or None when the file is a document."""
    try:
        start = file.read(BLOCK)
        file.seek(0)
    except OSError as error:
        raise NnefError.of("container/file", f"cannot read: {reason(error)}", Place(name)) from None
    suffix = path.suffix.lower()
    if start.startswith(MAGIC):
        raise NnefError.of(
            "container/format",
            "this is an artifact: a compiled model, without its document",
            Place(name),
            "nnefc.load opens it; nnefc run, bench, profile, compare and inspect take it",
        )
    compression = next((c for magic, c in _COMPRESSIONS.items() if start.startswith(magic)), None)
    if compression is not None:
        members = open_compressed_tar(file, compression, name, limits)
    elif start.startswith(_ZIP):
        members = open_zip(file, name, limits)
    elif is_tar(start) or suffix == ".tar":
        members = open_tar(file, name, limits)
    elif suffix == ".nnef":
        return None
    else:
        wanted = "an archive" if suffix in ARCHIVES else "a document or an archive"
        hint = "name a folder, a .nnef document, or a .tar, .tgz or .zip archive"
        raise NnefError.of("container/format", f"this is not {wanted}", Place(name), hint)
    try:
        root = document_root(members.paths, name)
        return Container(name, members, limits, root + DOCUMENT, root=root)
    except NnefError:
        members.close()
        raise
