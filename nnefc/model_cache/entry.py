"""A compiled model and its entry among those that are kept: found, made, mapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nnefc.artifacts.save import new_content
from nnefc.formats.files import FilePath, printable, release_pages
from nnefc.formats.fingerprint import Fingerprint, look_at
from nnefc.kernels.target.isa import NATIVE
from nnefc.model_cache import is_asked_for_passes
from nnefc.model_cache.facts import facts_of, name_of, sources_are_those_that_run
from nnefc.model_cache.provenance import FromDocument, Variables
from nnefc.support.errors import Diagnostics, NnefError, Place

if TYPE_CHECKING:
    import numpy as np

    from nnefc.api.compile import ImportOptions
    from nnefc.driver.targets import LoweringOptions
    from nnefc.ir import Graph
    from nnefc.runtime.artifact.read import Artifact
    from nnefc.runtime.cache.folder import CacheFolder
    from nnefc.runtime.cache.key import Facts
    from nnefc.runtime.compile.kernel_compiler import Progress
    from nnefc.runtime.run.model import CompiledModel

    Array = np.ndarray[Any, Any]

LEAST_BYTES: Final = 4 << 20
"""Of a document: what is smaller is compiled in no time."""
_SHARE: Final = 4
"""No entry takes more than one part in so many of what the cache may hold."""
_ABSENT: Final = "there is no such document"
_NO_ARCHIVE: Final = "it is neither an archive nor a folder without links in it"


class NotCacheable(Exception):
    """A model is not one of those that are kept; the message says why."""


class Found(NamedTuple):
    """A model that was compiled before."""

    model: CompiledModel
    warnings: Sequence[str]
    """Those of the import of its document."""


@dataclass(frozen=True, eq=False)
class ModelCacheEntry:
    """The place of a compiled model among those that are kept."""

    folder: CacheFolder
    name: str
    facts: Facts
    """What it depends on."""
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
        *,
        strict: bool = False,
        threads: int | None = None,
        accuracy: str = "fast",
        methods: Mapping[str, str] | None = None,
        folder: CacheFolder | None = None,
    ) -> ModelCacheEntry:
        """The arguments are those of `compile`.  `methods`: None: those that `tune` has kept;
        `folder`: None: the one of the user, which is made.

        Raises NotKept, and NnefError `input/...` for arguments that make no sense.
        """
        from nnefc.driver.compile import methods_for
        from nnefc.driver.targets import LoweringOptions
        from nnefc.options.arguments import check_import
        from nnefc.runtime.run.team import team

        given = options.get("shapes"), options.get("random_weights")
        _, shapes, seed = check_import(source, *given)
        options = {**options, "shapes": shapes, "random_weights": seed}
        folder = folder or _folder()
        if is_asked_for_passes():
            raise NotCacheable("NNEFC_VERIFY or NNEFC_DUMP is set: passes are to run")
        document = _look_at(source, folder)
        try:
            digest = document.digest()
        except (OSError, NnefError):
            raise NotCacheable(_ABSENT) from None
        methods = methods_for(methods, threads, accuracy)
        how = LoweringOptions(team(threads).threads, accuracy, methods)
        if not sources_are_those_that_run():
            raise NotCacheable("sources of nnefc have changed since this process began")
        facts = facts_of(digest, source, options, strict, how)
        return cls(folder, name_of(facts), facts, document, digest, options, strict, how, threads)

    def find(self) -> Found | None:
        """The model; None if it is not there."""
        artifact = self._open()
        model = artifact and self._model(artifact)
        return Found(model, artifact.options["warnings"]) if artifact and model else None

    @property
    def is_there(self) -> bool:
        """Whether it would be found; that is no use of it."""
        return self._open(use=False) is not None

    def make(
        self, graph: Graph, messages: Sequence[str], progress: Progress | None
    ) -> CompiledModel | None:
        """Compile the graph of the document and keep the model; None if that is not possible.

        `messages`: the warnings of the import.  Raises NnefError as compiling does.
        """
        from nnefc.driver.kernels_ahead import expecting_usual
        from nnefc.options.arguments import memory_for

        expecting = expecting_usual(self.threads, self.how.accuracy)
        try:
            with memory_for("keep the model"), expecting:
                self._write(graph, messages, progress)
        except (OSError, NotCacheable):
            return None
        finally:
            release_pages()  # of the document, which is not needed any more
        artifact = self._open(compared=True)
        return artifact and self._model(artifact)

    def _write(self, graph: Graph, messages: Sequence[str], progress: Progress | None) -> None:
        """Write the entry; raises OSError or NotKept if there can be none."""
        from nnefc.frontends.nnef.custom import registered
        from nnefc.ir.graph import walk
        from nnefc.runtime.artifact.write import write_artifact

        if not registered().keys().isdisjoint(op.name for op in walk(graph)):
            raise NotCacheable("what a function of yours gives may be different the next time")
        notes = {"kept": self.name, "warnings": list(messages), "facts": dict(self.facts)}
        with self.folder.writing(self._file) as file:  # first, as it may not be possible
            portable, builds = new_content(graph, self.how, [NATIVE], progress, notes)
            if portable.nbytes > self.folder.limit // _SHARE:
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
            content = open_mapping(mapping, self.folder.where(self._file))
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
        origin = FromDocument(artifact, self)
        compiled = artifact.compiled(number)
        compiled = compiled._replace(
            variables=Variables(compiled.variables, origin),
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
        from nnefc.api.compile import import_with

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


def _folder() -> CacheFolder:
    """Where models are kept."""
    from nnefc.runtime.cache import cache

    folder = cache.weights()
    if folder is None:
        raise NotCacheable("there is no cache")
    return folder


def _look_at(source: FilePath, folder: CacheFolder) -> Fingerprint:
    """A document that is kept in that folder."""
    document = look_at(source)
    if document is None:
        raise NotCacheable(_NO_ARCHIVE if Path(source).exists() else _ABSENT)
    if document.nbytes < LEAST_BYTES:
        raise NotCacheable(f"the document has less than {LEAST_BYTES >> 20} MB")
    if document.nbytes > folder.limit // _SHARE:
        raise NotCacheable(f"the document takes more than 1/{_SHARE} of what the cache may hold")
    return document
