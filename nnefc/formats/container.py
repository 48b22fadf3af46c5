"""Read containers: the document, tensors and quantization of one network (section 5.1)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol

from nnefc.formats.archives.open_archive import open_compressed_tar, open_tar, open_zip
from nnefc.formats.archives.tar import BLOCK, is_tar
from nnefc.formats.container_writer import write_container
from nnefc.formats.files import FilePath, open_regular, printable, reason
from nnefc.formats.folder import FolderMembers
from nnefc.formats.item_encodings import Array
from nnefc.formats.paths import (
    ARCHIVES,
    DOCUMENT,
    DOCUMENT_SUFFIX,
    JSON_SUFFIX,
    QUANTIZATION,
    SAFETENSORS_SUFFIX,
    SUBMODEL_SUFFIXES,
    TENSOR_SUFFIX,
    document_root,
    label_path,
    normal_path,
)
from nnefc.formats.read_progress import is_reporting, report
from nnefc.formats.recognise_artifact import MAGIC
from nnefc.formats.safetensors import Safetensors, SafetensorsIndex
from nnefc.formats.tensor_file import Buffer, StoredTensor
from nnefc.formats.tensor_header import HEADER_SIZE, parse_header
from nnefc.formats.tract_items import COMPLEX, VENDOR
from nnefc.support.errors import NnefError, Place
from nnefc.support.limits import Limits

__all__ = ["Container", "open_container", "write_container"]

_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz"}
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")


class Members(Protocol):
    """The files of a container by relative path, with `/` between folders."""

    def display_name(self, path: str) -> str: ...
    def find(self, path: str) -> str | None: ...
    def read(self, path: str, limit: int) -> bytes: ...
    def tensor(self, path: str, limits: Limits) -> Array: ...
    def stored(self, path: str, limits: Limits) -> StoredTensor: ...
    def content(self, path: str) -> Buffer: ...
    def names_in(self, folder: str) -> Iterable[str]: ...
    def tensor_paths(self) -> Iterable[str]: ...
    def close(self) -> None: ...


class Container:
    """The files of one network, read on demand; a context manager.

    `name` is the path that was opened.  `graph_file` and `quantization_file` are names for
    messages, such as `net.tgz/graph.nnef`; `quantization_file` is None without such a file.
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
        owns_members: bool = True,
    ) -> None:
        """`document`: path of the document; `root`: prefix of all paths, "" or "top/".

        `owns_members`: closing this container closes `members`.
        """
        self.name = name
        self._owns_members = owns_members
        self._members = members
        self._limits = limits
        self._document = document
        self._root = root
        self._tensors_read = 0
        self.resources: dict[str, bytes] = {}
        """The content of the resources read so far, by path beside the document."""
        self.graph_file = graph_file or members.display_name(document)
        # graph.quant belongs to graph.nnef only, not to documents of other names
        is_default = document.rsplit("/", 1)[-1] == DOCUMENT
        self._quantization = members.find(root + QUANTIZATION) if is_default else None
        self.quantization_file = (
            None if self._quantization is None else members.display_name(self._quantization)
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
        """The name in messages of the tensor file for a variable's label, or None."""
        path = self._find(label)
        return None if path is None else self._members.display_name(path)

    def tensor(self, label: str) -> Array | None:
        """The tensor for a variable's label, or None; read-only where it is a view.

        Labels match exactly or, if that fails, ignoring case.  Raises NnefError `container/label`
        for a label that leads out of the container, `container/ambiguous`, and the errors of
        `read_tensor`.
        """
        path = self._next(label)
        return None if path is None else self._members.tensor(path, self._limits)

    def stored(self, label: str) -> StoredTensor | None:
        """As `tensor`, but also reads extents of 0, the vendor formats of tract, and
        `*.safetensors` files beside the document for labels without a tensor file.
        """
        path = self._next(label)
        if path is not None:
            return self._members.stored(path, self._limits)
        return self._safetensors.read(label)

    def is_complex(self, label: str) -> bool:
        """Whether the items of a tensor file are complex, by its header alone."""
        with suppress(NnefError):  # errors are reported when the tensor is read
            path = self._find(label)
            if path is not None:
                raw = bytes(memoryview(self._members.content(path))[:HEADER_SIZE])
                header = parse_header(raw, path, tract=True)
                return header.vendor == VENDOR and header.code in COMPLEX
        return False

    def stored_names(self) -> list[str]:
        """Sorted labels of all tensors that `stored` can read."""
        return sorted({*self.tensor_names(), *self._safetensors.names})

    def resource(self, name: str) -> bytes | None:
        """The content of a file beside the document, or None; raises as `graph_text` does."""
        path, wrong = normal_path(name)
        member = None if wrong or not path else self._members.find(self._root + path)
        if member is None:
            return None
        content = self._members.read(member, self._limits.document_bytes)
        self.resources[path] = content
        return content

    def json_names(self) -> list[str]:
        """Sorted names, without `.json`, of the JSON files in the folder of the document."""
        start, end = len(self._root), -len(JSON_SUFFIX)
        return [path[start:end] for path in self._beside(JSON_SUFFIX)]

    def submodel(self, label: str) -> Container | None:
        """The container of a nested model, or None.

        It is a folder, LABEL/graph.nnef, or an archive, LABEL.nnef.tgz or LABEL.nnef.tar.  Raises
        as `open_container` does.
        """
        root = f"{self._root}{label_path(label, self.name).removesuffix(TENSOR_SUFFIX)}"
        document = self._members.find(f"{root}/{DOCUMENT}")
        if document is not None:
            name = self._members.display_name(document)
            return Container(
                name, self._members, self._limits, document, root=f"{root}/", owns_members=False
            )
        for suffix in SUBMODEL_SUFFIXES:
            path = self._members.find(root + suffix)
            if path is not None:
                import tempfile

                name = self._members.display_name(path)
                file = tempfile.TemporaryFile()  # noqa: SIM115 (it closes with the container)
                file.write(self._members.read(path, self._limits.archive_bytes))
                file.seek(0)
                return _open_archive(file, Path(path), name, self._limits)
        return None

    def tensor_names(self) -> list[str]:
        """Sorted labels of all tensor files."""
        start, end = len(self._root), -len(TENSOR_SUFFIX)
        return sorted(
            path[start:end]
            for path in self._members.tensor_paths()
            if path.startswith(self._root) and len(path) > start - end
        )

    def close(self) -> None:
        """Close the files."""
        if self._owns_members:
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
        """The path of the tensor file for a label; counts it for the progress of reading."""
        path = self._find(label)
        if path is not None:
            if is_reporting():
                report(self._tensors_read, max(self._tensors_read, self._tensor_count), label)
            self._tensors_read += 1
        return path

    @cached_property
    def _safetensors(self) -> SafetensorsIndex:
        """The tensors of the `*.safetensors` files beside the document; raises NnefError."""
        return SafetensorsIndex(
            (
                Safetensors(
                    self._members.content(path), self._members.display_name(path), self._limits
                )
                for path in self._beside(SAFETENSORS_SUFFIX)
            ),
            self.name,
        )

    def _beside(self, suffix: str) -> list[str]:
        """Sorted paths of the files beside the document with a suffix.

        Names that begin with a dot are left out: archives made on macOS have many.
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
    """Open a folder, a document (`*.nnef`, whose folder supplies the tensors) or an archive.

    Archives are recognised by content: zip, or tar, plain or in gzip, bzip2 or xz.  Nothing is
    extracted to disk.  The document of an archive is `graph.nnef` at the top or in the only top
    folder that has one.

    Raises NnefError `container/...` if the document is missing or the archive is damaged or
    hostile (links, devices, paths that lead out of it, duplicates), and `limit/...` if it unpacks
    to more than `limits` allow.
    """
    limits = limits or Limits()
    name = printable(os.fspath(path))
    place = Place(name)
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        raise NnefError.of(
            "container/file", "no such file or folder", place, "check the path"
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
            document_root(entries, name)  # raises an error that names similar files
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
            "this is an artifact, a compiled model",
            Place(name),
            "open it with nnefc.load, or nnefc run, bench, profile, compare or inspect",
        )
    compression = next((c for magic, c in _COMPRESSIONS.items() if start.startswith(magic)), None)
    if compression is not None:
        members = open_compressed_tar(file, compression, name, limits)
    elif start.startswith(_ZIP):
        members = open_zip(file, name, limits)
    elif is_tar(start) or suffix == ".tar":
        members = open_tar(file, name, limits)
    elif suffix == DOCUMENT_SUFFIX:
        return None
    else:
        wanted = "an archive" if suffix in ARCHIVES else "a document or an archive"
        hint = "name a folder, a .nnef document, an archive (.tar, .tgz, .zip), or a file of "
        hint += "ONNX (.onnx), TensorFlow Lite (.tflite) or PyTorch (.pt2)"
        raise NnefError.of("container/format", f"this is not {wanted}", Place(name), hint)
    try:
        root = document_root(members.paths, name)
        return Container(name, members, limits, root + DOCUMENT, root=root)
    except NnefError:
        members.close()
        raise
