"""Compiled models in the model cache: look them up, store them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from nnefc.cli.support.options import model_path
from nnefc.cli.support.printing import compiling, reading

if TYPE_CHECKING:
    from nnefc.options.compile_config import CompileConfig
    from nnefc.options.import_config import ImportConfig


class ModelLookup(NamedTuple):
    """Whether a compiled model is in the cache, and if not, why."""

    name: str | None
    """The name of its entry; None if it cannot be cached."""
    reasons: Sequence[str]
    """Why it is missing; empty for a hit."""


def look_up_model(model: str, importing: ImportConfig, config: CompileConfig) -> ModelLookup:
    """Whether `nnefc.compile` would find the model in the cache; nothing is compiled."""
    from nnefc.model_cache.entry import ModelCacheEntry, NotCacheable
    from nnefc.model_cache.report import reasons_for_miss
    from nnefc.runtime.cache.kernel_cache import open_weight_folder

    try:
        entry = ModelCacheEntry.of(model_path(model), importing, config, open_weight_folder())
    except NotCacheable as error:
        return ModelLookup(None, [str(error)])
    return ModelLookup(entry.name, reasons_for_miss(entry))


def store_model(model: str, importing: ImportConfig, config: CompileConfig) -> bool:
    """Compile a model into the cache unless it is there; returns whether it is there then.

    Warnings are not reported: importing the model for its kernels has reported them.
    """
    from nnefc.frontends.read_model import read_model
    from nnefc.ir import Graph
    from nnefc.model_cache.entry import ModelCacheEntry, NotCacheable

    try:
        entry = ModelCacheEntry.of(model_path(model), importing, config)
    except NotCacheable:
        return False
    if entry.open() is not None:
        return True
    diagnostics = importing.diagnostics()
    with reading():
        graph = read_model(model_path(model), importing, diagnostics)
    if not isinstance(graph, Graph):
        return False  # symbolic shapes: each call compiles for its own
    messages = [str(diagnostic) for diagnostic in diagnostics.warnings]
    with compiling() as advance:
        return entry.build(graph, messages, advance) is not None
