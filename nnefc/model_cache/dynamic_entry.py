"""Entries of models with symbols or states: plans, stored by the calls that make them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from nnefc.dynamic.dynamic_model import DynamicModel
from nnefc.model_cache.entry import NotCacheable, require_known_operations
from nnefc.model_cache.facts import entry_name
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.dynamic.planner import Planner
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.model_cache.entry import ModelCacheEntry
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.artifact.read_dynamic import DynamicArtifact


class DynamicEntry(NamedTuple):
    """Implements `nnefc.dynamic.plan_store.PlanStore` by an entry of the model cache."""

    entry: ModelCacheEntry
    messages: Sequence[str]
    """The warnings of the import."""
    pairs: Mapping[str, str] = MappingProxyType({})
    """The inputs that sessions keep, with the outputs that are their next values."""
    artifact: DynamicArtifact | None = None
    """The file of the entry as it was opened."""

    @property
    def config(self) -> CompileConfig:
        return self.entry.config._replace(threads=self.entry.threads)

    def find(self) -> DynamicModel | None:
        artifact = self.entry.open()
        if artifact is None or artifact.is_dynamic is False:
            return None
        return self.found(artifact)

    def found(self, artifact: DynamicArtifact) -> DynamicModel | None:
        """The model in the file; None if it is damaged, or has no code for this processor."""
        if artifact.best_target() is None:
            return None
        with suppress(NnefError):
            opened = self._replace(artifact=artifact)
            return DynamicModel.of_artifact(artifact, self.entry.threads, opened)
        return None

    def document(self) -> GraphSource:
        from nnefc.frontends.read_model import read_model
        from nnefc.ir import Graph

        source = read_model(self.entry.unchanged_path(), self.entry.importing)
        assert not isinstance(source, Graph), "it was none when its plans were stored"
        return source.with_states(self.pairs) if self.pairs else source

    def store(self, planner: Planner) -> None:
        """Write the file again, with the latest plan; at most `MAX_PROGRAMS` plans."""
        from nnefc.dynamic.artifact_content import requests_in
        from nnefc.dynamic.kept_plans import write_kept
        from nnefc.dynamic.planner import MAX_PROGRAMS

        earlier = [] if self.artifact is None else requests_in(self.artifact)
        if len(earlier) + planner.traces > MAX_PROGRAMS:
            return
        with suppress(OSError, NotCacheable, MemoryError):
            _, latest = planner.programs[-1]
            require_known_operations(latest.graph)
            self.entry.require_room(sum(array.nbytes for array in planner.document.arrays()))
            fixed, notes = self.entry.importing.shapes, self.entry.notes(self.messages)
            with self.entry.writing() as file:
                write_kept(file, planner, fixed, earlier, notes)

    def with_states(self, pairs: Mapping[str, str]) -> DynamicEntry:
        facts = {**self.entry.facts, "kept inputs": json.dumps(sorted(pairs.items()))}
        entry = self.entry._replace(facts=facts, name=entry_name(facts))
        return DynamicEntry(entry, self.messages, pairs)
