"""Compiled models in the model cache: found, made, explained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from nnefc.cli.support.options import model_path
from nnefc.cli.support.printing import progress, reading

if TYPE_CHECKING:
    from nnefc.options.compile_config import CompileConfig
    from nnefc.options.import_config import ImportConfig


class ModelAnswer(NamedTuple):
    """Whether a compiled model is in the cache, and if not, why."""

    name: str | None
    """Of its entry; None if it cannot be in the cache."""
    reasons: Sequence[str]


def explain_model(model: str, importing: ImportConfig, config: CompileConfig) -> ModelAnswer:
    """Whether `nnefc.compile` would find the model; nothing is compiled."""
    from nnefc.model_cache.entry import ModelCacheEntry, NotCacheable
    from nnefc.model_cache.survey import reasons_for_miss
    from nnefc.runtime.cache.kernel_cache import open_weight_folder

    try:
        entry = ModelCacheEntry.of(model_path(model), importing, config, open_weight_folder())
    except NotCacheable as error:
        return ModelAnswer(None, [str(error)])
    return ModelAnswer(entry.name, reasons_for_miss(entry))


def store_model(model: str, importing: ImportConfig, config: CompileConfig) -> bool:
    """Compile a model into the cache unless it is there; whether it is there then.

    Its warnings are not reported again: this comes after its kernels.
    """
    from nnefc.frontends.read_model import read_model
    from nnefc.ir import Graph
    from nnefc.model_cache.entry import ModelCacheEntry, NotCacheable

    try:
        entry = ModelCacheEntry.of(model_path(model), importing, config)
    except NotCacheable:
        return False
    if entry.find():
        return True
    diagnostics = importing.diagnostics()
    with reading():
        graph = read_model(model_path(model), importing, diagnostics)
    if not isinstance(graph, Graph):
        return False  # it is compiled for the shapes of a call
    messages = [str(diagnostic) for diagnostic in diagnostics.warnings]
    with progress("compiling") as advance:
        return entry.make(graph, messages, advance) is not None
