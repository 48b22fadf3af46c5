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
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from nnefc.errors import NnefError, NnefWarning, Place
from nnefc.formats.files import FilePath, open_regular, printable, release_pages
from nnefc.kernels.isa import NATIVE
from nnefc.saving import FromArtifact, new_content
from nnefc.targets import LoweringOptions

if TYPE_CHECKING:
    import mmap

    from nnefc.api import ImportOptions
    from nnefc.ir import Graph, Variable
    from nnefc.runtime.artifact_read import Artifact
    from nnefc.runtime.cache_folder import CacheFolder
    from nnefc.runtime.model import CompiledModel
    from nnefc.runtime.objects import Progress

LEAST_BYTES: Final = 4 << 20
"""Of a document: what is smaller is compiled in no time."""
_MOST_FILES: Final = 10_000
"""Of a folder."""
_SHARE: Final = 4
"""No entry takes more than one part in so many of what the cache may hold."""
_NAME_BYTES: Final = 32
_PIECE: Final = 1 << 18
"""Bytes of a file that are read at a time."""
_PASSES: Final = ("NNEFC_DUMP", "NNEFC_VERIFY")
"""Variables that ask for something to be done between passes."""

Stamp = tuple[tuple[str, int, int, int, int], ...]
"""What tells that files have not changed: name, device, number, size and time of each."""


@dataclass(frozen=True, eq=False)
class Document:
    """A document as it was when it was looked at."""

    path: Path
    files: tuple[Path, ...]
    stamp: Stamp

    @property
    def nbytes(self) -> int:
        return sum(size for *_, size, _ in self.stamp)

    @property
    def is_unchanged(self) -> bool:
        try:
            return _stamp(self.path, self.files) == self.stamp
        except OSError:
            return False

    @cached_property
    def digest(self) -> str:
        """Of the names and bytes of all files."""
        whole = hashlib.sha256()
        for file in self.files:
            name = os.fsencode(file.relative_to(self.path))
            with open_regular(file) as stream:
                whole.update(b"%d %b" % (len(name), name))
                whole.update(_digest(stream))
        return whole.hexdigest()


def _digest(file: BinaryIO) -> bytes:
    digest = hashlib.sha256()
    while piece := file.read(_PIECE):
        digest.update(piece)
    return digest.digest()


def look_at(source: FilePath) -> Document | None:
    """A document, if it is one that is kept."""
    try:
        path = Path(source).absolute()
        if path.is_file() and path.suffix.lower() == ".nnef":  # its data is beside other files
            return None
        files = (path,) if path.is_file() else tuple(_files_in(path))
        document = Document(path, files, _stamp(path, files))
    except (OSError, ValueError, TypeError):  # which importing has more to say about
        return None
    return document if document.nbytes >= LEAST_BYTES else None


def _files_in(folder: Path) -> Iterator[Path]:
    """All files, in order; raises ValueError if there are too many, or links and other things."""
    count = 0
    for place, folders, names in os.walk(folder, onerror=_raise):
        folders.sort()
        for name in [*folders, *sorted(names)]:
            file = Path(place, name)
            count += 1
            if count > _MOST_FILES or file.is_symlink():
                raise ValueError(name)
            if name not in folders:
                yield file


def _raise(error: OSError) -> None:
    raise error


def _stamp(path: Path, files: tuple[Path, ...]) -> Stamp:
    return tuple(
        (name, s.st_dev, s.st_ino, s.st_size, max(s.st_mtime_ns, s.st_ctime_ns))
        for file in files
        for name, s in [(str(file.relative_to(path)), file.stat())]
    )


@dataclass(frozen=True, eq=False)
class Kept:
    """The place of a compiled model among those that are kept."""

    folder: CacheFolder
    name: str
    document: Document
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

        Raises NnefError `input/...` for options that are none.
        """
        from nnefc.arguments import check_import
        from nnefc.runtime import cache as caches

        if any(map(os.environ.get, _PASSES)):
            return None
        folder = caches.weights()
        document = look_at(source) if folder is not None else None
        if folder is None or document is None or document.nbytes > folder.limit // _SHARE:
            return None
        shapes, seed = check_import(source, options.get("shapes"), options.get("random_weights"))[
            1:
        ]
        checked = {**options, "strict": strict, "shapes": shapes, "random_weights": seed}
        try:
            facts = (
                document.digest,
                os.fspath(source),  # which messages name
                sorted((key, repr(value)) for key, value in checked.items()),
                (how.threads, how.accuracy, sorted((how.methods or {}).items())),
                _surroundings(),
            )
        except (OSError, NnefError):  # the document is gone
            return None
        text = repr(facts)
        name = hashlib.blake2b(text.encode(), digest_size=_NAME_BYTES).hexdigest()
        return cls(folder, name, document, options, strict, how, threads)

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
        if not self._keep(graph, messages, progress):
            return None
        artifact = self._open(compared=True)
        return artifact and self._model(artifact)

    def _open(self, *, compared: bool = False) -> Artifact | None:
        """The file of the entry; `compared`: its weights are known to be whole."""
        from nnefc.runtime.artifact_file import open_mapping
        from nnefc.runtime.artifact_read import Artifact

        file = self.folder.file_name(self.name)
        mapping = self.folder.map(file)
        if mapping is None:
            return None
        try:
            content = open_mapping(mapping, str(self.folder.path / file))
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
        compiled = replace(compiled, variables=_Variables(compiled.variables, origin))
        return CompiledModel(compiled, origin, threads=self.threads)

    def _keep(self, graph: Graph, messages: Sequence[str], progress: Progress | None) -> bool:
        """Write the entry; whether that was possible."""
        from nnefc.frontends.nnef.custom import registered
        from nnefc.runtime.artifact_write import write_artifact

        if not self.document.is_unchanged:  # it is another one than that which was looked at
            return False
        if not registered().keys().isdisjoint(op.name for op in graph.ops):
            return False  # what a function of the user's gives may be different the next time
        notes = {"kept": self.name, "warnings": list(messages)}
        content = new_content(graph, self.how, [NATIVE], progress, notes)
        try:
            with self.folder.writing(self.folder.file_name(self.name)) as file:
                write_artifact(file, *content)
        except OSError:
            return False
        finally:
            release_pages()  # of the document, which is not needed any more
        return True

    def imported(self) -> Graph:
        """The graph of the document, imported again."""
        from nnefc.api import import_model

        then = self.document
        now = then if then.is_unchanged else look_at(then.path)
        if now is None or now.digest != then.digest:
            raise NnefError.of(
                "data/file",
                "the document is not there any more as it was when the model was compiled",
                Place(printable(str(then.path))),
                "the graph of a model that was kept is read when it is asked for",
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NnefWarning)
            return import_model(self.document.path, strict=self.strict, **self.options)


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

    @property
    def graph(self) -> Graph:
        """That of the document, as a model has it that was compiled here."""
        return self._imported

    @cached_property
    def _imported(self) -> Graph:
        return self.kept.imported()


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


@cache
def _surroundings() -> str:
    """What all models depend on: the machine, the versions of all that takes part."""
    from nnefc.kernels.isa import host
    from nnefc.runtime.cache_key import surroundings_of
    from nnefc.runtime.machine import largest_cache
    from nnefc.runtime.native import interface

    codegen = surroundings_of("codegen", host())
    assert codegen is not None
    facts = (codegen.digest, interface(), largest_cache(), _sources())
    return repr(facts)


def _sources() -> list[tuple[str, int, int]]:
    """The sources of nnefc: name, size and time of each."""
    package = Path(cast(str, sys.modules["nnefc"].__file__)).parent
    found: list[tuple[str, int, int]] = []
    for place, _, names in os.walk(package, followlinks=True):
        for name in names:
            if name.endswith(".py"):
                file = Path(place, name)
                status = file.stat()
                found.append((str(file), status.st_size, status.st_mtime_ns))
    return sorted(found)
