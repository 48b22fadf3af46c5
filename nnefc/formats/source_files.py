"""The files of a document that graphs have read, in memory: a container without a disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from nnefc.formats.container import Container
from nnefc.formats.item_encodings import Array
from nnefc.formats.paths import DOCUMENT, TENSOR_SUFFIX, CaselessIndex
from nnefc.formats.tensor_file import StoredTensor
from nnefc.support.errors import NnefError, Place
from nnefc.support.limits import Limits
from nnefc.support.value_inputs import ValueInput


class SourceFiles(NamedTuple):
    """Texts and tensors by path; those of a submodel are in its folder."""

    file: str
    """The name of the document in messages."""
    texts: Mapping[str, bytes]
    tensors: Mapping[str, StoredTensor]
    random_weights: int | None
    """The seed of random values for tensors that no graph has read."""
    symbols: Mapping[str, int]
    """Values of symbols that all graphs have."""
    limits: Limits
    kind: str = "tract"
    """The format of the document: "tract", "onnx", "tflite", "nnpackage" or "torch"."""
    value_inputs: Mapping[str, ValueInput] = MappingProxyType({})
    """The inputs whose values decide shapes, by name."""


def container_of(files: SourceFiles) -> Container:
    """The files as a container."""
    return Container(files.file, _Members(files), files.limits, DOCUMENT, graph_file=files.file)


class _Members:
    """Implements `nnefc.formats.container.Members`."""

    def __init__(self, files: SourceFiles) -> None:
        self._files = files
        self._index = CaselessIndex([*files.texts, *files.tensors])

    def display_name(self, path: str) -> str:
        return f"{self._files.file}: {path}"

    def find(self, path: str) -> str | None:
        return self._index.find(path, self._files.file)

    def read(self, path: str, limit: int) -> bytes:
        text = self._files.texts[path]
        if len(text) > limit:
            message = f"{len(text):,} bytes, more than the {limit:,} allowed"
            raise NnefError.of("limit/size", message, Place(self.display_name(path)))
        return text

    def tensor(self, path: str, limits: Limits) -> Array:
        return self.stored(path, limits).array

    def stored(self, path: str, limits: Limits) -> StoredTensor:
        return self._files.tensors[path]

    def content(self, path: str) -> bytes:
        return self._files.texts.get(path, b"")

    def names_in(self, folder: str) -> Iterable[str]:
        names = (path[len(folder) :] for path in self._files.texts if path.startswith(folder))
        return sorted(name for name in names if "/" not in name)

    def tensor_paths(self) -> Iterator[str]:
        return (path for path in self._files.tensors if path.endswith(TENSOR_SUFFIX))

    def close(self) -> None:
        """Do nothing: no file is held open."""
