"""Compiled models that are kept in the cache: found, made, explained as options say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Unpack

from nnefc.cli.support.options import model_path, parse_limits, parse_shapes
from nnefc.cli.support.printing import progress, reading
from nnefc.support.errors import Diagnostics

if TYPE_CHECKING:
    from nnefc.model_cache.entry import ModelCacheEntry
    from nnefc.runtime.cache.folder import CacheFolder


class How(TypedDict, total=False):
    """The options that say how a model is compiled, as they were typed."""

    shapes: Sequence[str] | None
    random_weights: int | None
    scalar: str
    dialect: str
    threads: int | None
    accuracy: str
    limits: Sequence[str] | None


class ModelAnswer(NamedTuple):
    """Whether a compiled model is kept, and if not, why."""

    name: str | None
    """Of its entry; None if it is not one of those that are kept."""
    reasons: Sequence[str]


def kept_model(
    model: str, folder: CacheFolder | None = None, **how: Unpack[How]
) -> ModelCacheEntry:
    """Where `nnefc.compile` keeps a model with the same options; raises NotKept."""
    from nnefc.model_cache.entry import ModelCacheEntry

    return ModelCacheEntry.of(
        model_path(model),
        {
            "shapes": parse_shapes(how.get("shapes")),
            "random_weights": how.get("random_weights"),
            "scalar": how.get("scalar", "float32"),
            "dialect": how.get("dialect", "auto"),
            "limits": parse_limits(how.get("limits")),
        },
        threads=how.get("threads"),
        accuracy=how.get("accuracy", "fast"),
        folder=folder,
    )


def explain_model(model: str, **how: Unpack[How]) -> ModelAnswer:
    """Whether `nnefc.compile` would find the model; nothing is compiled."""
    from nnefc.model_cache.entry import NotCacheable
    from nnefc.model_cache.survey import why_not
    from nnefc.runtime.cache.cache import opened_weights

    try:
        kept = kept_model(model, opened_weights(), **how)
    except NotCacheable as error:
        return ModelAnswer(None, [str(error)])
    return ModelAnswer(kept.name, why_not(kept))


def keep_model(model: str, **how: Unpack[How]) -> bool:
    """See that a compiled model is kept, if it is one of those that are; whether it is.

    Its warnings are not given again: this comes after its kernels.
    """
    from nnefc.api.compile import read_with
    from nnefc.ir import Graph
    from nnefc.model_cache.entry import NotCacheable

    try:
        kept = kept_model(model, **how)
    except NotCacheable:
        return False
    if kept.find():
        return True
    diagnostics = Diagnostics()
    with reading():
        graph = read_with(model_path(model), diagnostics, dynamic=True, **kept.options)
    if not isinstance(graph, Graph):
        return False  # it is compiled for the shapes of a call
    messages = [str(diagnostic) for diagnostic in diagnostics.warnings]
    with progress("compiling") as advance:
        return kept.make(graph, messages, advance) is not None
