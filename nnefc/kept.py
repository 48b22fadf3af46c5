"""Models that were compiled before: kept whole in the cache folder, as artifacts.

An entry is named by a digest of all that a compiled model depends on: the bytes of the document,
how it is imported and lowered, the machine, the versions of nnefc and of what translates kernels.
It is mapped like any artifact, so that processes share its weights.  What is damaged, or cannot be
written, is as good as none.
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from nnefc.errors import Diagnostics, NnefError, NnefWarning, Place
from nnefc.formats.files import FilePath, printable, release_pages
from nnefc.formats.fingerprint import Fingerprint, look_at
from nnefc.kernels.isa import NATIVE
from nnefc.saving import FromArtifact, new_content

if TYPE_CHECKING:
    import mmap

    import numpy as np

    from nnefc.api import ImportOptions
    from nnefc.ir import Graph, Variable
    from nnefc.runtime.artifact_read import Artifact
    from nnefc.runtime.cache_folder import CacheFolder
    from nnefc.runtime.model import CompiledModel
    from nnefc.runtime.objects import Progress
    from nnefc.targets import LoweringOptions

    Array = np.ndarray[Any, Any]

LEAST_BYTES: Final = 4 << 20
"""Of a document: what is smaller is compiled in no time."""
_SHARE: Final = 4
"""No entry takes more than one part in so many of what the cache may hold."""
_NAME_BYTES: Final = 32


@dataclass(frozen=True, eq=False)
class Kept:
    """The place of a compiled model among those that are kept."""

    folder: CacheFolder
    name: str
    document: Fingerprint
    digest: str
    """Of the document."""
    options: ImportOptions
    strict: bool
    how: LoweringOptions
    """Threads and methods are those that will be used."""
    threads: int | None
    """As they were asked for."""

    @classmethod
    def of(
        cls,
        source: FilePath,
        options: ImportOptions,
        strict: bool,
        how: LoweringOptions,
        threads: int | None,
    ) -> Kept | None:
        """None if there is no cache, or the document is not one that is kept.

        Shapes and seed among the options are those that `check_import` gives.
        """
        from nnefc.runtime import cache as caches

        folder = None if _is_asked_for_passes() else caches.weights()
        document = None if folder is None else look_at(source)
        if folder is None or document is None:
            return None
        if not LEAST_BYTES <= document.nbytes <= folder.limit // _SHARE:
            return None
        try:
            digest = document.digest()
        except (OSError, NnefError):  # it is gone
            return None
        facts = (
            digest,
            os.fspath(source),  # which messages name
            sorted((key, repr(value)) for key, value in {**options, "strict": strict}.items()),
            (how.threads, how.accuracy, sorted((how.methods or {}).items())),
            _surroundings(),
        )
        name = hashlib.blake2b(repr(facts).encode(), digest_size=_NAME_BYTES).hexdigest()
        return cls(folder, name, document, digest, options, strict, how, threads)

    def find(self) -> CompiledModel | None:
        """The model, after the warnings that its import gave; None if it is not there."""
        artifact = self._open()
        if artifact is None:
            return None
        for message in artifact.options["warnings"]:
            warnings.warn(NnefWarning(message), stacklevel=3)
        return self._model(artifact)

    def make(
        self, graph: Graph, messages: Sequence[str], progress: Progress | None
    ) -> CompiledModel | None:
        """Compile the graph of the document and keep the model; None if that is not possible.

        `messages`: the warnings of the import.  Raises NnefError as compiling does.
        """
        from nnefc.arguments import memory_for

        try:
            with memory_for("keep the model"):
                self._write(graph, messages, progress)
        except (OSError, _NotKept):
            return None
        finally:
            release_pages()  # of the document, which is not needed any more
        artifact = self._open(compared=True)
        return artifact and self._model(artifact)

    def _write(self, graph: Graph, messages: Sequence[str], progress: Progress | None) -> None:
        """Write the entry; raises OSError or _NotKept if there can be none."""
        from nnefc.frontends.nnef.custom import registered
        from nnefc.runtime.artifact_write import write_artifact

        if not registered().keys().isdisjoint(op.name for op in graph.ops):
            raise _NotKept  # what a function of the user's gives may be different the next time
        notes = {"kept": self.name, "warnings": list(messages)}
        with self.folder.writing(self._file) as file:  # first, as it may not be possible
            portable, builds = new_content(graph, self.how, [NATIVE], progress, notes)
            if portable.nbytes > self.folder.limit // _SHARE:
                raise _NotKept
            write_artifact(file, portable, builds)
            if not self.document.is_unchanged:  # files are read as late as now
                raise _NotKept

    @property
    def _file(self) -> str:
        return self.folder.file_name(self.name)

    def _open(self, *, compared: bool = False) -> Artifact | None:
        """The file of the entry; `compared`: its weights are known to be whole."""
        from nnefc.runtime.artifact_file import open_mapping
        from nnefc.runtime.artifact_read import Artifact

        mapping = self.folder.map(self._file)
        if mapping is None:
            return None
        try:
            content = open_mapping(mapping, str(self.folder.path / self._file))
            artifact = Artifact(content, compared=compared)
        except NnefError:  # it is damaged
            return None
        return artifact if artifact.options.get("kept") == self.name else None

    def _model(self, artifact: Artifact) -> CompiledModel | None:
        """The model in a file; None if it has no code for this processor."""
        from nnefc.runtime.model import CompiledModel

        number = artifact.best_target()
        if number is None:
            return None
        origin = FromDocument(artifact, self)
        compiled = artifact.compiled(number)
        compiled = replace(
            compiled,
            variables=_Variables(compiled.variables, origin),
            constants=partial(self._constants, compiled.constants),
        )
        return CompiledModel(compiled, origin, threads=self.threads)

    def _constants(self, read: Any) -> Sequence[Array]:
        """Those of the file, which is removed if it is found to be damaged."""
        try:
            return read()
        except NnefError:
            entries = [entry for entry in self.folder.entries() if entry.name == self.name]
            self.folder.remove(entries)
            raise

    def imported(self) -> Graph:
        """The graph of the document, imported again."""
        from nnefc.api import import_with

        now = self.document if self.document.is_unchanged else look_at(self.document.path)
        if now is None or (now is not self.document and now.digest() != self.digest):
            raise NnefError.of(
                "data/file",
                "the document is not there any more as it was when the model was compiled",
                Place(printable(str(self.document.path))),
                "graph and variables of a model that was kept are read when they are asked for: put"
                " the document back, or compile it with keep=False",
            )
        return import_with(self.document.path, Diagnostics(strict=self.strict), **self.options)


class _NotKept(Exception):
    """What was to be kept is not to be."""


def is_whole(mapping: mmap.mmap, name: str) -> bool:
    """Whether the file of an entry is as it was written."""
    from nnefc.runtime.artifact_file import open_mapping

    try:
        options = open_mapping(mapping, name, verify=True).content["options"]
    except (NnefError, KeyError):
        return False
    return options.get("kept") == name


@dataclass(frozen=True, eq=False)
class FromDocument(FromArtifact):
    """The origin of a model that was found among those that are kept."""

    kept: Kept
    _found: dict[str, Graph] = field(default_factory=dict[str, "Graph"])
    """Filled atomically: no lock that the child of a fork might find closed."""

    @property
    def graph(self) -> Graph:
        """That of the document, as a model has it that was compiled here."""
        found = self._found.get("graph")
        return self._found.setdefault("graph", self.kept.imported()) if found is None else found

    @property
    def how(self) -> LoweringOptions:
        return self.kept.how


class _Variables(Mapping[str, "Variable"]):
    """The variables of a document, which is read again for those that are not updated."""

    def __init__(self, updated: Mapping[str, Variable], origin: FromDocument) -> None:
        self._updated = updated
        self._origin = origin

    def __getitem__(self, key: str) -> Variable:
        found = self._updated.get(key)
        return self._origin.graph.variables[key] if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._origin.graph.variables)

    def __len__(self) -> int:
        return len(self._origin.graph.variables)


def _is_asked_for_passes() -> bool:
    """Whether the environment asks for something between passes: see `passes.pipeline`."""
    verify = os.environ.get("NNEFC_VERIFY", "0") not in ("", "0")
    return verify or bool(os.environ.get("NNEFC_DUMP"))


@cache
def _surroundings() -> str:
    """What all models depend on: the machine, the versions of all that takes part."""
    from nnefc.kernels.isa import host
    from nnefc.runtime.cache_key import surroundings_of
    from nnefc.runtime.machine import largest_cache
    from nnefc.runtime.native import interface

    codegen = surroundings_of("codegen", host())
    assert codegen is not None
    return repr((codegen.digest, interface(), largest_cache(), _SOURCES))


def _sources(package: Path) -> list[tuple[str, int, int]]:
    """The sources in a package: name, size and time of each."""
    found: list[tuple[str, int, int]] = []
    for place, _, names in os.walk(package, followlinks=True):
        for name in names:
            if name.endswith(".py"):
                file = Path(place, name)
                status = file.stat()
                found.append((str(file), status.st_size, status.st_mtime_ns))
    return sorted(found)


_SOURCES: Final = _sources(Path(cast(str, sys.modules["nnefc"].__file__)).parent)
"""As they are when this process begins to compile, not when it has found something else."""
