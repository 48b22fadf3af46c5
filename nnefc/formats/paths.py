"""Paths inside containers, of archive members and tensor files; names of files for any text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from nnefc.formats.files import FilePath, open_regular, printable
from nnefc.support.errors import NnefError, Place

DOCUMENT = "graph.nnef"
DOCUMENT_SUFFIX = ".nnef"
QUANTIZATION = "graph.quant"
RECORDS = "nnefc.tflite.json"
"""Records of operators that other formats have, beside `graph.nnef` (`nnefc convert`)."""
TENSOR_SUFFIX = ".dat"
SAFETENSORS_SUFFIX = ".safetensors"
JSON_SUFFIX = ".json"
ONNX_SUFFIX = ".onnx"
TFLITE_SUFFIX = ".tflite"
CIRCLE_SUFFIX = ".circle"
TORCH_SUFFIX = ".pt2"
TORCH_SUFFIXES = (TORCH_SUFFIX, ".pt", ".pth")
"""Names of programs of `torch.export.save`, and of other files of PyTorch, which are refused."""
TFLITE_IDENTIFIER = b"TFL3"
"""Bytes 4 to 8 of a TensorFlow Lite file."""
CIRCLE_IDENTIFIER = b"CIR0"
"""Bytes 4 to 8 of a Circle file, which has the tables of TensorFlow Lite."""
MANIFEST = "metadata/MANIFEST"
"""The path of the manifest in an nnpackage."""
SUBMODEL_SUFFIXES = (".nnef.tgz", ".nnef.tar")
COMPANION_SUFFIXES = (TENSOR_SUFFIX, SAFETENSORS_SUFFIX, JSON_SUFFIX, *SUBMODEL_SUFFIXES)
"""Suffixes of the files of a model other than its document and quantization."""
ARCHIVES = (".tar", ".tgz", ".gz", ".tbz2", ".bz2", ".txz", ".xz", ".zip")

_SEPARATOR = re.compile(r"[/\\]")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_MAX_FILE_NAME = 100
_DRIVE = re.compile(r"[A-Za-z]:")


def is_onnx(path: FilePath) -> bool:
    """Whether a path names an ONNX file, or a file of another name that begins as one."""
    name = os.fspath(path).lower()
    return name.endswith(ONNX_SUFFIX) or (
        not name.endswith((DOCUMENT_SUFFIX, TFLITE_SUFFIX, CIRCLE_SUFFIX, *ARCHIVES))
        and _begins_as_onnx(path)
    )


def is_tflite(path: FilePath) -> bool:
    """Whether a path names a file of TensorFlow Lite or Circle, or a file that begins as one."""
    name = os.fspath(path).lower()
    return name.endswith((TFLITE_SUFFIX, CIRCLE_SUFFIX)) or (
        not name.endswith((DOCUMENT_SUFFIX, ONNX_SUFFIX, *ARCHIVES))
        and _beginning(path, 8)[4:] in (TFLITE_IDENTIFIER, CIRCLE_IDENTIFIER)
    )


def is_torch(path: FilePath) -> bool:
    """Whether a path names a program of `torch.export.save`, or another file of PyTorch."""
    return os.fspath(path).lower().endswith(TORCH_SUFFIXES)


def _beginning(path: FilePath, count: int) -> bytes:
    """The first bytes of a file; none if it cannot be read."""
    try:
        with open_regular(path) as stream:
            return stream.read(count)
    except (NnefError, OSError):
        return b""


def _begins_as_onnx(path: FilePath) -> bool:
    """Whether a file begins with the version of the format, field 1 of a small number.

    Texts and archives cannot begin so.
    """
    head = _beginning(path, 8)
    if head[4:] in (TFLITE_IDENTIFIER, CIRCLE_IDENTIFIER):
        return False
    head = head[:3]
    return len(head) == 3 and head[0] == 8 and 0 < head[1] < 64 and head[2] & 7 in (0, 2)


def normal_path(name: str) -> tuple[str, str]:
    """(relative path with single slashes, fault) of a member's name; the fault is "" if valid."""
    if "\0" in name:
        return name, "its name holds a NUL character"
    if name[:1] in ("/", "\\") or _DRIVE.match(name):
        return name, "its path is absolute"
    names = [name for name in _SEPARATOR.split(name) if name not in ("", ".")]
    if ".." in names:
        return name, "its path leads out of the archive with '..'"
    return "/".join(names), ""


def label_path(label: str, container: str) -> str:
    r"""The path of the tensor file for a variable's label, relative to the document.

    `/` and `\` separate folders; one leading `/` is dropped, as in the Khronos tools.  Raises
    NnefError `container/label` if the label names no file inside the container.
    """
    if label[:1] in ("/", "\\"):
        label = label[1:]
    path, wrong = normal_path(label)
    if wrong or not path:
        wrong = wrong.replace("archive", "container") or "it is empty"
        raise NnefError.of(
            "container/label",
            f"label '{printable(label)}' names no tensor file: {wrong}",
            Place(container),
            "labels are relative paths such as 'conv1/filter'",
        )
    return path + TENSOR_SUFFIX


class FileNames:
    """Names of files in one folder.

    Characters other than letters, digits, `_`, `.` and `-` become `_`; a leading dot too.  Names
    have at most 100 characters, and are distinct also where case does not count.
    """

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._numbers: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """A file name, without suffix, for `name`; another one each time."""
        safe = _UNSAFE.sub("_", name)[:_MAX_FILE_NAME] or "_"
        if safe[0] == ".":
            safe = f"_{safe[1:]}"
        unique, number = safe, self._numbers.get(safe.lower(), 1)
        while unique.lower() in self._used:
            number += 1
            unique = f"{safe[: _MAX_FILE_NAME - 10]}-{number}"
        self._numbers[safe.lower()] = number
        self._used.add(unique.lower())
        return unique


def file_names(names: Iterable[str]) -> list[str]:
    """A file name, without suffix, for each of `names`; see `FileNames`."""
    files = FileNames()
    return [files.unique(name) for name in names]


class CaselessIndex:
    """Looks up paths exactly or, if that fails, ignoring case, as for labels (section 4.1)."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._exact: set[str] = set()
        self._lower: dict[str, list[str]] = {}
        for path in paths:
            self._exact.add(path)
            self._lower.setdefault(path.lower(), []).append(path)

    def find(self, path: str, container: str) -> str | None:
        """The matching path or None; NnefError `container/ambiguous` if several match."""
        if path in self._exact:
            return path
        alike = self._lower.get(path.lower(), [])
        if len(alike) > 1:
            listed = " and ".join(f"'{printable(other)}'" for other in sorted(alike)[:4])
            raise NnefError.of(
                "container/ambiguous",
                f"'{printable(path)}' matches {listed}, whose names differ only in case",
                Place(container),
                "remove or rename one of them",
            )
        return alike[0] if alike else None


def document_root(paths: list[str], container: str) -> str:
    """The folder of the document: "", or "top/" if it is in a top-level folder.

    Raises NnefError `container/missing` or `container/ambiguous`.
    """
    if DOCUMENT in paths:
        return ""
    place = Place(container)
    documents = sorted(path for path in paths if path.rsplit("/", 1)[-1] == DOCUMENT)
    nearest = [path for path in documents if path.count("/") == 1]
    if len(nearest) == 1:
        return nearest[0][: -len(DOCUMENT)]
    listed = ", ".join(f"'{printable(path)}'" for path in documents[:5])
    if len(nearest) > 1:
        raise NnefError.of(
            "container/ambiguous",
            f"{len(nearest)} documents in different folders: {listed}",
            place,
            f"a container holds one network, with {DOCUMENT} at its top",
        )
    if documents:
        hint = f"found {listed}: move it to the top"
    else:
        hint = _missing_document_hint(paths)
    raise NnefError.of("container/missing", f"there is no {DOCUMENT}", place, hint)


def _missing_document_hint(paths: list[str]) -> str:
    """A hint that names similar files, or the files that exist."""
    similar = [path for path in paths if path.lower().endswith(DOCUMENT_SUFFIX)]
    if similar:
        return f"found '{printable(min(similar))}': rename it to {DOCUMENT}"
    models = [path for path in paths if path.lower().endswith((TFLITE_SUFFIX, CIRCLE_SUFFIX))]
    if models:
        hint = f"found '{printable(min(models))}': open that; "
        return f"{hint}a package of TensorFlow Lite models needs {MANIFEST}"
    archives = [path for path in paths if path.lower().endswith(ARCHIVES)]
    if archives:
        return f"found '{printable(min(archives))}', an archive: open that"
    if not paths:
        return f"it is empty; put {DOCUMENT} at its top"
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    listed = ", ".join(f"'{printable(path)}'" for path in sorted(paths)[:3])
    return f"found only {listed}{more}; put {DOCUMENT} at its top"
