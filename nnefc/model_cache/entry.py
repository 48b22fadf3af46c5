"""An entry of the model cache: find it, make it, open it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nnefc.artifacts.content import content_of_graph
from nnefc.formats.files import FilePath, printable, release_pages
from nnefc.formats.fingerprint import Fingerprint, take_fingerprint
from nnefc.frontends.read_model import read_graph
from nnefc.kernels.target.isa import NATIVE
from nnefc.model_cache import passes_are_observed
from nnefc.model_cache.facts import entry_name, facts_of, sources_are_unchanged
from nnefc.model_cache.provenance import FromDocument, Variables
from nnefc.options.compile_config import CompileConfig
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import NnefError, Place

if TYPE_CHECKING:
    import numpy as np

    from nnefc.ir import Graph
    from nnefc.runtime.artifact.read import Artifact
    from nnefc.runtime.cache.key import Facts
    from nnefc.runtime.cache.lru_folder import LruFolder
    from nnefc.runtime.run.model import CompiledModel
    from nnefc.support.progress import Progress

    Array = np.ndarray[Any, Any]

LEAST_BYTES: Final = 4 << 20
"""Documents with fewer bytes are not cached: compiling them takes no time."""
_MAX_SHARE: Final = 4
"""No entry takes more than this fraction, 1/4, of the size limit of the cache."""
_ABSENT: Final = "there is no such document"
_NO_ARCHIVE: Final = "it is neither an archive nor a folder without links in it"


class NotCacheable(Exception):
    """A model cannot be in the cache; the message says why."""


class CachedModel(NamedTuple):
    """A model from the cache."""

    model: CompiledModel
    warnings: Sequence[str]
    """Those of the import of its document."""


@dataclass(frozen=True, eq=False)
class ModelCacheEntry:
    """The entry of a compiled model, which exists in the folder or can be made."""

    folder: LruFolder
    name: str
    facts: Facts
    """What the model depends on."""
    document: Fingerprint
    digest: str
    """Of the document."""
    importing: ImportConfig
    config: CompileConfig
    """With the number of threads and the methods that are used."""
    threads: int | None
    """Threads as the caller asked for them."""

    @classmethod
    def of(
        cls,
        source: FilePath,
        importing: ImportConfig,
        config: CompileConfig,
        folder: LruFolder | None = None,
    ) -> ModelCacheEntry:
        """The entry for a document; `folder`: None: that of the user, which is created.

        Raises NotCacheable.
        """
        from nnefc.driver.lower import with_tuned_methods
        from nnefc.runtime.run.team import shared_team

        folder = folder or _folder()
        if passes_are_observed():
            raise NotCacheable("NNEFC_VERIFY or NNEFC_DUMP is set: passes are to run")
        document = _look_at(source, folder)
        try:
            digest = document.digest()
        except (OSError, NnefError):
            raise NotCacheable(_ABSENT) from None
        used = with_tuned_methods(config)._replace(threads=shared_team(config.threads).threads)
        if not sources_are_unchanged():
            raise NotCacheable("sources of nnefc have changed since this process began")
        facts = facts_of(digest, source, importing, used)
        return cls(
            folder, entry_name(facts), facts, document, digest, importing, used, config.threads
        )

    def find(self) -> CachedModel | None:
        """The model; None if it is not in the cache."""
        artifact = self._open()
        model = artifact and self._model(artifact)
        return CachedModel(model, artifact.options["warnings"]) if artifact and model else None

    @property
    def is_there(self) -> bool:
        """Whether the cache has the entry; this does not count as a use of it."""
        return self._open(use=False) is not None

    def make(
        self, graph: Graph, messages: Sequence[str], progress: Progress | None
    ) -> CompiledModel | None:
        """Compile the graph of the document and store the model; None if it cannot be stored.

        `messages`: the warnings of the import.  Raises NnefError as compiling does.
        """
        from nnefc.driver.kernels_ahead import expecting_usual_kernels
        from nnefc.support.memory_errors import memory_errors

        expecting = expecting_usual_kernels(self.config._replace(threads=self.threads))
        try:
            with memory_errors("keep the model"), expecting:
                self._write(graph, messages, progress)
        except (OSError, NotCacheable):
            return None
        finally:
            release_pages()  # of the document, which is not needed any more
        artifact = self._open(compared=True)
        return artifact and self._model(artifact)

    def _write(self, graph: Graph, messages: Sequence[str], progress: Progress | None) -> None:
        """Write the entry; raises OSError or NotCacheable if that is not possible."""
        from nnefc.ir.graph import walk
        from nnefc.ops.custom import registered
        from nnefc.runtime.artifact.write import write_artifact

        if not registered().keys().isdisjoint(op.name for op in walk(graph)):
            raise NotCacheable("what a function of yours gives may be different the next time")
        notes = {"kept": self.name, "warnings": list(messages), "facts": dict(self.facts)}
        with self.folder.writing(self._file) as file:  # first, as it may not be possible
            portable, builds = content_of_graph(graph, self.config, [NATIVE], progress, notes)
            if portable.nbytes > self.folder.limit // _MAX_SHARE:
                raise NotCacheable("it is too large")
            write_artifact(file, portable, builds)
            if not self.document.is_unchanged:  # files are read as late as now
                raise NotCacheable("the document has changed")

    @property
    def _file(self) -> str:
        return self.folder.file_name(self.name)

    def _open(self, *, compared: bool = False, use: bool = True) -> Artifact | None:
        """The file of the entry; `compared`: its weights are known to be whole."""
        from nnefc.runtime.artifact.file import open_mapping
        from nnefc.runtime.artifact.read import Artifact

        mapping = self.folder.map(self._file, use=use)
        if mapping is None:
            return None
        try:
            content = open_mapping(mapping, self.folder.path_of(self._file))
            artifact = Artifact(content, compared=compared)
        except NnefError:  # it is damaged
            return None
        return artifact if artifact.options.get("kept") == self.name else None

    def _model(self, artifact: Artifact) -> CompiledModel | None:
        """The model in a file; None if it has no code for this processor."""
        from nnefc.runtime.run.model import CompiledModel

        number = artifact.best_target()
        if number is None:
            return None
        origin = FromDocument(artifact, self.config, self.imported)
        compiled = artifact.compiled(number)
        compiled = compiled._replace(
            variables=Variables(compiled.variables, origin),
            constants=partial(self._constants, compiled.constants),
        )
        return CompiledModel(compiled, origin, threads=self.threads)

    def _constants(self, read: Any) -> Sequence[Array]:
        """The constants in the file, which is removed if it is damaged."""
        try:
            return read()
        except NnefError:
            entries = [entry for entry in self.folder.entries() if entry.name == self.name]
            self.folder.remove(entries)
            raise

    def imported(self) -> Graph:
        """The graph of the document, imported again."""
        now = self.document if self.document.is_unchanged else take_fingerprint(self.document.path)
        if now is None or (now is not self.document and now.digest() != self.digest):
            raise NnefError.of(
                "data/file",
                "the document is not there any more as it was when the model was compiled",
                Place(printable(str(self.document.path))),
                "graph and variables of a model that was kept are read when they are asked for: put"
                " the document back, or compile it with keep=False",
            )
        return read_graph(self.document.path, self.importing)


def _folder() -> LruFolder:
    """The folder of the model cache."""
    from nnefc.runtime.cache import kernel_cache

    folder = kernel_cache.weight_folder()
    if folder is None:
        raise NotCacheable("there is no cache")
    return folder


def _look_at(source: FilePath, folder: LruFolder) -> Fingerprint:
    """The document, if the folder may hold its compiled model; raises NotCacheable."""
    document = take_fingerprint(source)
    if document is None:
        raise NotCacheable(_NO_ARCHIVE if Path(source).exists() else _ABSENT)
    if document.nbytes < LEAST_BYTES:
        raise NotCacheable(f"the document has less than {LEAST_BYTES >> 20} MB")
    if document.nbytes > folder.limit // _MAX_SHARE:
        raise NotCacheable(
            f"the document takes more than 1/{_MAX_SHARE} of what the cache may hold"
        )
    return document
