"""Compile a model: from files or a graph to native code."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, Unpack, cast

from nnefc.driver.compile import check_environment, compile_graph
from nnefc.driver.lower_graph import with_tuned_algorithms
from nnefc.options.arguments import check_flags, check_names, check_progress
from nnefc.options.compile_config import CompileConfig
from nnefc.options.import_config import (
    IMPORT_OPTIONS,
    ImportConfig,
    ImportOptions,
    Path,
    import_config,
)
from nnefc.support.errors import warn_python

if TYPE_CHECKING:
    from nnefc.ir import Graph
    from nnefc.model_cache.entry import ModelCacheEntry
    from nnefc.runtime.run.model_interface import Model
    from nnefc.support.progress import Progress


def compile(
    source: Path | Graph,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    strict: bool = False,
    accuracy: Literal["fast", "strict"] = "fast",
    tuned: bool = True,
    check_indices: bool = True,
    precision: Literal["float32", "bfloat16", "float16"] = "float32",
    strict_quantization: bool = False,
    keep: bool = True,
    **options: Unpack[ImportOptions],
) -> Model:
    """Compile a model to native code, or load it from the model cache.

    Variables need data: files of the model, or `random_weights`.

    Args:
        source: As for `import_model`, or a graph, which is not modified.
        threads: Threads a call may use, the calling one included; None: all usable CPUs.
        progress: Called as `progress(done, total, label)` while kernels are compiled, and before
            that while large files are read.
        strict: As for `import_model`; not with a graph.
        accuracy: "fast" may compute convolutions by Winograd's algorithm, with errors below 2e-4 of
            the largest result; a NaN or an infinity spreads.  More than 8 rows are rounded to 12 or
            16 bits before weights in blocks.  "strict" sums products, with errors below 1e-5.
        tuned: Use the algorithms that `tune` measured to be fastest for convolutions on this
            machine; False: use estimates only.
        check_indices: A call with an index out of range, such as a token that the embedding does
            not have, raises NnefError `input/index`; False: it uses the nearest item.  Indices that
            are known now are always checked.
        precision: "bfloat16" and "float16" round the operands of products to 16 bits where that is
            faster.  On other processors the model is float32, with a warning.
        strict_quantization: Layers of a quantized model that are computed in floats are an error.
        keep: Store the compiled model in the model cache, and load it from there when the same
            document is compiled with the same options.
        options: `shapes`, `symbols`, `scalar`, `integer`, `random_weights`, `quantize`, `limits`,
            `dialect`, as for `import_model`; not with a graph.

    Returns:
        A callable: arrays in the order of the graph's parameters in, one array or a tuple out.
        A `DynamicModel`, which takes arrays of different shapes, if the extents of inputs are
        symbols that `shapes` and `symbols` do not determine, or if operators keep states.

    Raises:
        NnefError: With all errors.
    """
    check_names(compile, options, IMPORT_OPTIONS)
    flags = {"check_indices": check_indices, "tuned": tuned, "precision": precision}
    config = CompileConfig.of(threads, accuracy, **flags, strict_quantization=strict_quantization)
    _check_machine(config)
    check_progress(progress)
    check_flags(strict=strict, keep=keep)
    if not _is_graph(source):
        importing = import_config(source, options, strict=strict)
        return _compile_document(cast(Path, source), importing, config, progress, keep=keep)
    from nnefc.api.importing import graph_from

    return _compile_graph(graph_from(source, strict=strict, **options), config, progress)


def _is_graph(source: object) -> bool:
    """Whether the model is a graph; paths are recognised without importing the IR."""
    if isinstance(source, str | os.PathLike):
        return False
    from nnefc.ir import Graph

    return isinstance(source, Graph)


def _compile_graph(graph: Graph, config: CompileConfig, progress: Progress | None) -> Model:
    """The model of a graph, which has no states."""
    from nnefc.artifacts.graph_origin import FromGraph

    _require_stateless(graph)
    config = with_tuned_algorithms(config)
    return compile_graph(graph, config, progress=progress, origin=FromGraph(graph, config))


def _check_machine(config: CompileConfig) -> None:
    """Raise NnefError for settings of the environment; warn if a precision is not faster here."""
    check_environment()
    if config.precision != "float32":
        from nnefc.driver.precision import warn_of_precision

        warn_of_precision(config)


def _compile_document(
    source: Path,
    importing: ImportConfig,
    config: CompileConfig,
    progress: Progress | None,
    *,
    keep: bool,
) -> Model:
    """The model of a document; with `keep` it is loaded from the model cache or stored there."""
    entry = _cache_entry(source, importing, config) if keep else None
    if entry is not None and (cached := _find(entry)):
        return cached
    from nnefc.api.importing import read_with_warnings
    from nnefc.artifacts.graph_origin import FromGraph
    from nnefc.ir import Graph

    config = with_tuned_algorithms(config)
    graph, messages = read_with_warnings(source, importing, progress, dynamic=True)
    if not isinstance(graph, Graph):
        from nnefc.dynamic.dynamic_model import DynamicModel

        store = None
        if entry is not None:
            from nnefc.model_cache.dynamic_entry import DynamicEntry

            store = DynamicEntry(entry, messages)
        return DynamicModel.of(graph, importing.shapes, config, progress, store)
    if entry is not None and (model := entry.build(graph, messages, progress)):
        return model
    return compile_graph(graph, config, progress=progress, origin=FromGraph(graph, config))


def _cache_entry(
    source: Path, importing: ImportConfig, config: CompileConfig
) -> ModelCacheEntry | None:
    """The entry of the model cache for a document; None if its model is not cacheable."""
    from nnefc.model_cache.entry import ModelCacheEntry, NotCacheable

    try:
        return ModelCacheEntry.of(source, importing, config)
    except NotCacheable:
        return None


def _find(entry: ModelCacheEntry) -> Model | None:
    """The model of an entry of the model cache; the warnings of its import are issued again."""
    artifact = entry.open()
    if artifact is None:
        return None
    messages = artifact.options["warnings"]
    if artifact.is_dynamic is True:
        from nnefc.model_cache.dynamic_entry import DynamicEntry

        model = DynamicEntry(entry, messages).found(artifact)
    else:
        model = entry.model(artifact)
    if model is not None:
        for message in messages:
            warn_python(message)
    return model


def _require_stateless(graph: Graph) -> None:
    """Raise NnefError for a graph with states, which calls of a compiled graph would not keep."""
    from nnefc.dynamic.states import stateful_model_error

    if states := graph.state_shapes:
        raise stateful_model_error("a graph", states)
