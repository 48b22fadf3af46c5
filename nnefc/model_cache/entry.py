"""An entry of the model cache: find, build, store and open a model."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from nnefc.formats.files import FilePath, exists, printable, release_pages
from nnefc.formats.fingerprints import Fingerprint, Stamp, take_fingerprint
from nnefc.kernels.target.isa import NATIVE
from nnefc.model_cache import passes_are_observed
from nnefc.model_cache.cached_origin import FromCache, Variables
from nnefc.model_cache.digest_record import DigestRecord, begin_digest
from nnefc.model_cache.facts import (
    DOCUMENT,
    entry_name,
    facts_of,
    is_current,
    sources_are_unchanged,
)
from nnefc.options.compile_config import CompileConfig
from nnefc.options.import_config import ImportConfig
from nnefc.runtime.machine.resources import stores_models
from nnefc.support.errors import NnefError, Place

if TYPE_CHECKING:
    import numpy as np

    from nnefc.ir import Graph
    from nnefc.runtime.artifact.read_dynamic import DynamicArtifact
    from nnefc.runtime.artifact.read_static import Artifact
    from nnefc.runtime.cache.key import Facts
    from nnefc.runtime.cache.lru_folder import LruFolder
    from nnefc.runtime.run.compiled_model import CompiledModel
    from nnefc.support.progress import Progress

    Array = np.ndarray[Any, Any]

_MAX_SHARE: Final = 4
"""An entry takes at most 1/4 of the size limit of the cache."""
_ABSENT: Final = "there is no such document"
_NOT_LISTED: Final = (
    "it is no model, or its folder holds too many files, or links to other things than files"
)


class NotCacheable(Exception):
    """A model cannot be in the cache; the message gives the reason."""


class ModelCacheEntry(NamedTuple):
    """The entry of a compiled model, which exists in the folder or can be built."""

    folder: LruFolder
    name: str
    facts: Facts
    """The facts that the model depends on."""
    document: Fingerprint
    digest: str
    """The digest of the files of the document."""
    importing: ImportConfig
    config: CompileConfig
    """The compile options, with the actual number of threads and algorithms."""
    threads: int | None
    """The option of the caller."""

    @classmethod
    def of(
        cls,
        source: FilePath,
        importing: ImportConfig,
        config: CompileConfig,
        folder: LruFolder | None = None,
    ) -> ModelCacheEntry:
        """The entry for a document; raises NotCacheable.

        `folder`: None: the cache of the user, which is created.
        """
        folder = folder or _folder()
        if passes_are_observed():
            raise NotCacheable("NNEFC_VERIFY or NNEFC_DUMP is set: passes must run")
        if not stores_models():
            raise NotCacheable("NNEFC_KEEP is off")
        record = DigestRecord.load(folder, source)
        document = _fingerprint(source, folder, record.stamp if record else ())
        digesting = begin_digest(document, record, source, folder)
        # what does not need the digest is done while other threads may read the document
        if not sources_are_unchanged():
            raise NotCacheable("sources of nnefc have changed since this process began")
        actual = _with_actual_algorithms(config)
        facts = facts_of(source, importing, actual)
        _import_reader()
        try:
            digest = digesting()
        except (OSError, NnefError):
            raise NotCacheable(_ABSENT) from None
        facts = {DOCUMENT: digest, **facts}
        return cls(
            folder, entry_name(facts), facts, document, digest, importing, actual, config.threads
        )

    @property
    def exists(self) -> bool:
        """Whether the cache has the entry; this does not count as a use of it."""
        return self.open(use=False) is not None

    def build(
        self, graph: Graph, messages: Sequence[str], progress: Progress | None
    ) -> CompiledModel | None:
        """Compile the graph of the document and store the model; None if it cannot be stored.

        `messages`: the warnings of the import.  Raises the NnefErrors of the compiler.
        """
        from nnefc.driver.kernels_ahead import compiling_around
        from nnefc.support.memory_errors import memory_errors

        expecting = compiling_around(self.config._replace(threads=self.threads))
        try:
            with memory_errors("keep the model"), expecting:
                self._write(graph, messages, progress)
        except (OSError, NotCacheable):
            return None
        finally:
            release_pages()  # those of the document are no longer needed
        artifact = self.open(verified=True)
        return None if artifact is None or artifact.is_dynamic is True else self.model(artifact)

    def _write(self, graph: Graph, messages: Sequence[str], progress: Progress | None) -> None:
        """Compile the graph and write the entry; raises OSError or NotCacheable."""
        from nnefc.artifacts.content import content_of_graph
        from nnefc.runtime.artifact.write_static import write_artifact

        require_known_operations(graph)
        # The file is opened before compiling, because that may fail.
        with self.writing() as file:
            notes = self.notes(messages)
            portable, builds = content_of_graph(graph, self.config, [NATIVE], progress, notes)
            self.require_room(portable.nbytes)
            write_artifact(file, portable, builds)

    def notes(self, messages: Sequence[str]) -> dict[str, Any]:
        """The entry's own options; `messages`: the warnings of the import."""
        return {"kept": self.name, "warnings": list(messages), "facts": dict(self.facts)}

    @contextmanager
    def writing(self) -> Generator[BinaryIO]:
        """Write the file in the block; raises OSError, or NotCacheable for a changed document."""
        from nnefc.runtime.artifact.artifact_file import ALWAYS_VERIFIED

        with self.folder.writing(self._file, ALWAYS_VERIFIED) as file:
            yield file
            if not self.document.is_unchanged:  # files may have been read until now
                raise NotCacheable("the document has changed")

    def require_room(self, nbytes: int) -> None:
        """Raise NotCacheable for a file that takes too much of the folder."""
        if nbytes > self.folder.limit // _MAX_SHARE:
            raise NotCacheable("it is too large")

    @property
    def _file(self) -> str:
        return self.folder.file_name(self.name)

    def open(
        self, *, verified: bool = False, use: bool = True
    ) -> Artifact | DynamicArtifact | None:
        """The file of the entry; `verified`: its weights need not be compared with checksums.

        `use`: whether this counts as a use of the entry.
        """
        from nnefc.runtime.artifact.artifact_file import open_mapping
        from nnefc.runtime.artifact.read_artifact import artifact_in

        mapping = self.folder.map(self._file, use=use)
        if mapping is None:
            return None
        try:
            content = open_mapping(mapping, self.folder.path_of(self._file))
            artifact = artifact_in(content, verified=verified)
        except NnefError:  # the file is damaged
            return None
        options = artifact.options
        is_found = options.get("kept") == self.name and is_current(options["facts"], self.facts)
        return artifact if is_found else None

    def model(self, artifact: Artifact) -> CompiledModel | None:
        """The model in a file; None if the file has no code for this processor."""
        from nnefc.runtime.run.compiled_model import CompiledModel

        number = artifact.best_target()
        if number is None:
            return None
        origin = FromCache(artifact, self.config, self.imported)
        compiled = artifact.compiled(number)
        compiled = compiled._replace(
            variables=Variables(compiled.variables, origin),
            constants=partial(self._constants, compiled.constants),
        )
        return CompiledModel(compiled, origin, threads=self.threads)

    def _constants(self, read: Any) -> Sequence[Array]:
        """The constants in the file; a damaged file is removed from the cache."""
        try:
            return read()
        except NnefError:
            entries = [entry for entry in self.folder.entries() if entry.name == self.name]
            self.folder.remove(entries)
            raise

    def imported(self) -> Graph:
        """The graph of the document, imported again."""
        from nnefc.frontends.read_model import read_graph

        return read_graph(self.unchanged_path(), self.importing)

    def unchanged_path(self) -> FilePath:
        """The path of the document; raises NnefError if it is another one by now."""
        current = (
            self.document if self.document.is_unchanged else take_fingerprint(self.document.path)
        )
        if current is None or (current is not self.document and current.digest() != self.digest):
            raise NnefError.of(
                "data/file",
                "the document has been changed or removed since the model was compiled",
                Place(printable(self.document.path)),
                "graph and variables of a cached model are read from its document when they are"
                " needed: restore the document, or compile it with keep=False",
            )
        return self.document.path


def require_known_operations(graph: Graph) -> None:
    """Raise NotCacheable for a graph with custom operations."""
    from nnefc.ir.graph import walk
    from nnefc.ops import custom

    if any(map(custom.spec, {*graph.declarations, *(op.name for op in walk(graph))})):
        raise NotCacheable("custom operations may compute something else the next time")


def _folder() -> LruFolder:
    """The folder of the model cache."""
    from nnefc.runtime.cache import kernel_cache

    folder = kernel_cache.weight_folder()
    if folder is None:
        raise NotCacheable("there is no cache")
    return folder


def _with_actual_algorithms(config: CompileConfig) -> CompileConfig:
    """The options with the actual number of threads and algorithms."""
    from nnefc.driver.lower_graph import with_tuned_algorithms
    from nnefc.runtime.run.team import shared_team

    return with_tuned_algorithms(config)._replace(threads=shared_team(config.threads).threads)


def _import_reader() -> None:
    """Import the modules that open an entry."""
    from nnefc.runtime.artifact import read_static
    from nnefc.runtime.run import compiled_model

    del read_static, compiled_model


def _fingerprint(source: FilePath, folder: LruFolder, known: Stamp) -> Fingerprint:
    """The document, if its compiled model may be in the folder; raises NotCacheable.

    `known`: as for `take_fingerprint`.
    """
    document = take_fingerprint(source, known)
    if document is None:
        raise NotCacheable(_NOT_LISTED if exists(source) else _ABSENT)
    if document.nbytes > folder.limit // _MAX_SHARE:
        raise NotCacheable(f"the document takes more than 1/{_MAX_SHARE} of the limit of the cache")
    return document
