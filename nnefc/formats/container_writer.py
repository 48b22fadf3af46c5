"""Write containers (section 5.1) atomically: a folder, `.tar` or `.tgz`."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from nnefc.formats.archives.tar import BLOCK
from nnefc.formats.atomic import (
    replace_file,
    replace_folder,
    require_new_folder,
    require_writable,
)
from nnefc.formats.files import FilePath, printable
from nnefc.formats.paths import DOCUMENT, QUANTIZATION, RECORDS, label_path
from nnefc.formats.tensor_header import HEADER_SIZE
from nnefc.formats.tensor_writer import Encoding, encode_tensor
from nnefc.support.errors import Diagnostics, NnefError, Place
from nnefc.support.progress import Progress

Kind = Literal["folder", "tar", "tgz"]

_SUFFIXES: dict[str, Kind] = {".tar": "tar", ".tgz": "tgz", ".tar.gz": "tgz"}

_File = tuple[str, int, Iterator[bytes]]
"""Path, size in bytes and content of a file."""


def write_container(
    path: FilePath,
    *,
    graph_text: str,
    tensors: Mapping[str, Any],
    quantization: str | None = None,
    records: str | None = None,
    kind: Kind | None = None,
    encodings: Mapping[str, Encoding] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write a network to a folder or an archive.

    `tensors` are arrays by label; `encodings`, also by label, overrides how they are stored.
    `kind` follows from the name by default: `.tar`, `.tgz` and `.tar.gz` are archives, names
    without suffix or with a final `/` are folders.  Equal contents give equal bytes: archives are
    sorted and have no times or owners.  `records`: of operators, for nnefc.  `progress` is called
    with the bytes written so far.

    Raises NnefError `container/exists` (a folder that is not empty; a file without `overwrite`),
    `container/format` (an unknown suffix), `container/label` (labels that lead out of the
    container, or share a file), or `data/...` for all tensors that cannot be stored; nothing is
    written then.
    """
    name = printable(os.fspath(path))
    kind = kind or _kind(name)
    _check_target(Path(path), name, kind, overwrite)
    texts = {DOCUMENT: graph_text, QUANTIZATION: quantization, RECORDS: records}
    files = _files(name, texts, tensors, encodings or {})
    if progress is not None:
        files = _reporting(files, progress)
    if kind == "folder":
        with replace_folder(path) as folder:
            for member, _, pieces in files:
                target = folder / member
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as file:
                    file.writelines(pieces)
        return
    with replace_file(path) as file:
        if kind == "tar":
            _write_tar(file, files)
            return
        with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
            _write_tar(packed, files)


def require_writable_container(path: FilePath) -> None:
    """Raise NnefError unless `write_container` can write here, over a file that exists; for use
    before long work.
    """
    name = printable(os.fspath(path))
    kind = _kind(name)
    _check_target(Path(path), name, kind, overwrite=True)
    require_new_folder(path) if kind == "folder" else require_writable(path)


def _kind(name: str) -> Kind:
    lower = name.lower()
    for suffix, kind in _SUFFIXES.items():
        if lower.endswith(suffix):
            return kind
    suffix = Path(name).suffix
    if suffix and not name.endswith(("/", os.sep)):
        raise NnefError.of(
            "container/format",
            f"no kind of container has the suffix '{suffix}'",
            Place(name),
            "end the name in .tar, .tgz or .tar.gz, or in / for a folder",
        )
    return "folder"


def _check_target(path: Path, name: str, kind: Kind, overwrite: bool) -> None:
    place = Place(name)
    try:
        if not path.exists():
            return
        if path.is_dir():
            if kind != "folder":
                raise NnefError.of("container/exists", "a folder of this name exists", place)
            if any(path.iterdir()):
                raise NnefError.of(
                    "container/exists",
                    "the folder exists and is not empty",
                    place,
                    "choose another name, or remove the folder",
                )
        elif kind == "folder":
            raise NnefError.of("container/exists", "a file of this name exists", place)
        elif not overwrite:
            raise NnefError.of(
                "container/exists", "the file exists", place, "pass overwrite=True to replace it"
            )
    except (OSError, ValueError) as error:
        raise NnefError.of("data/write", f"cannot write: {error}", place) from None


def _files(
    name: str,
    texts: Mapping[str, str | None],
    tensors: Mapping[str, Any],
    encodings: Mapping[str, Encoding],
) -> list[_File]:
    """All files of the container, the document first; raises NnefError with all errors."""
    diagnostics = Diagnostics()
    documents = [_text(path, text) for path, text in texts.items() if text is not None]
    data: dict[str, _File] = {}
    paths: dict[str, str] = {member: member for member, _, _ in documents}
    for label, array in tensors.items():
        try:
            path = label_path(label, name)
            encoding = encodings.get(label, Encoding())
            header, pieces = encode_tensor(np.asarray(array), encoding, f"{name}/{printable(path)}")
        except NnefError as error:
            for diagnostic in error.errors:
                diagnostics.add(diagnostic)
            continue
        other = paths.setdefault(path.lower(), label)
        if other != label:
            diagnostics.error(
                "container/label",
                f"labels '{printable(other)}' and '{printable(label)}' name the same file, since"
                " labels ignore case",
                Place(name),
            )
        data[path] = path, HEADER_SIZE + header.data_length, _tensor(header.pack(), pieces)
    _check_folders(paths, name, diagnostics)
    diagnostics.raise_errors()
    return [*documents, *(data[path] for path in sorted(data))]


def _check_folders(paths: Mapping[str, str], name: str, diagnostics: Diagnostics) -> None:
    """No label may name a file where another label needs a folder."""
    for path, label in paths.items():
        folders = path.split("/")[:-1]
        for depth in range(1, len(folders) + 1):
            other = paths.get("/".join(folders[:depth]))
            if other is not None:
                diagnostics.error(
                    "container/label",
                    f"label '{printable(other)}' names a file where label '{printable(label)}'"
                    " needs a folder",
                    Place(name),
                )


def _text(path: str, text: str) -> _File:
    content = text.encode()
    return path, len(content), iter([content])


def _reporting(files: list[_File], progress: Progress) -> list[_File]:
    """The same files; taking their content reports the bytes taken before."""
    total, done = sum(size for _, size, _ in files), 0

    def reported(path: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
        nonlocal done
        for piece in pieces:
            progress(done, total, path)
            yield piece
            done += len(piece)

    return [(path, size, reported(path, pieces)) for path, size, pieces in files]


def _tensor(header: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield header
    yield from pieces


def _write_tar(file: BinaryIO | gzip.GzipFile, files: list[_File]) -> None:
    import tarfile

    for path, size, pieces in files:
        info = tarfile.TarInfo(path)
        info.size = size
        info.mode = 0o644
        file.write(info.tobuf(tarfile.PAX_FORMAT))
        for piece in pieces:
            file.write(piece)
        file.write(bytes(-size % BLOCK))
    file.write(bytes(2 * BLOCK))
