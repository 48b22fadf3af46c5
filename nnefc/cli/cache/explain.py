"""`nnefc cache explain`: whether a model is cached and its kernels are available, and why not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nnefc.cli.cache.folders import open_kernels
from nnefc.cli.cache.models import ModelLookup, look_up_model
from nnefc.cli.support.import_and_compile import load
from nnefc.cli.support.option_groups import CompileOptions, DocumentOptions
from nnefc.cli.support.options import Json, Model, Threads
from nnefc.cli.support.printing import (
    abbreviate,
    console,
    count,
    print_json,
    print_table,
    progress,
    table,
)

if TYPE_CHECKING:
    from nnefc.ir import Graph
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.cache.report import CacheLookup, EntryIndex


def explain(
    model: Model,
    threads: Threads = None,
    json: Json = False,
    *,
    compiling: CompileOptions,
    document: DocumentOptions,
) -> None:
    """Show for each kernel of a model whether it is shipped or cached, and if not, why.

    Shipped kernels are part of the installed package, and are used first.
    For a missing kernel, the differences to the nearest entry of the same kernel are shown, such
    as another source, processor, or version of numba. The last line is about the compiled model,
    which needs no kernels if nnefc.compile has stored it. Nothing is compiled or written. Artifacts
    contain their kernels and need no cache.

    Examples:

        nnefc cache explain net.nnef.tgz

        nnefc cache explain graph.nnef --random-weights 1 --json
    """
    from nnefc.runtime.cache.report import EntryIndex, survey

    with progress("reading") as advance:
        index = EntryIndex.of(survey(open_kernels(), advance))
    importing, config = document.config_of(model), compiling.config(threads)
    graph = load(model, importing)
    kernels, uncacheable = _look_up_kernels(graph, config, index)
    lookup = look_up_model(model, importing, config)
    if json:
        print_json([*map(_kernel_record, kernels), _model_record(lookup)])
    else:
        _print(kernels, uncacheable, lookup)


def _look_up_kernels(
    graph: Graph, config: CompileConfig, index: EntryIndex
) -> tuple[list[CacheLookup], int]:
    """(a look-up for each kernel of a graph, the number of kernels that are never cached)"""
    from nnefc.driver.lower_graph import lower_graph
    from nnefc.kernels.target.isa import host
    from nnefc.runtime.cache.report import CacheLookup
    from nnefc.runtime.compile import support_code
    from nnefc.runtime.compile.compile_unit import key_of
    from nnefc.runtime.shipped.shipped_kernels import is_shipped

    program = lower_graph(graph, config)
    isa = host()
    sources = [*dict.fromkeys(program.kernels), *support_code.functions("executor")]
    lookups: list[CacheLookup] = []
    for source in sources:
        if key := key_of(source, isa):
            shipped = is_shipped(source, isa)
            lookups.append(CacheLookup(key, True, shipped=True) if shipped else index.explain(key))
    return lookups, len(sources) - len(lookups)


def _print(kernels: Sequence[CacheLookup], uncacheable: int, model: ModelLookup) -> None:
    view = table("kernel", "arguments", "in the cache", fold=["arguments", "in the cache"])
    for lookup in kernels:
        view.add_row(lookup.key.family, abbreviate(lookup.key.arguments), _answer(lookup))
    out = console()
    print_table(out, view)
    shipped = sum(lookup.shipped for lookup in kernels)
    cached = sum(lookup.hit for lookup in kernels) - shipped
    numbers = f"{shipped} shipped, {cached}" if shipped else f"{cached}"
    out.print(f"{numbers} of {count(len(kernels), 'kernel')} in the cache")
    if uncacheable:
        out.print(f"{count(uncacheable, 'kernel')} of other packages, which are never cached")
    out.print(
        f"the compiled model is not in the cache: {'; '.join(model.reasons)}"
        if model.reasons
        else "the compiled model is in the cache, and needs none of the kernels"
    )


def _answer(lookup: CacheLookup) -> str:
    if lookup.shipped:
        return "shipped"
    return "yes" if lookup.hit else f"no: {'; '.join(lookup.reasons)}"


def _model_record(model: ModelLookup) -> dict[str, Any]:
    return {
        "kind": "model",
        "family": None,
        "arguments": None,
        "name": model.name,
        "hit": not model.reasons,
        "shipped": False,
        "reasons": list(model.reasons),
    }


def _kernel_record(lookup: CacheLookup) -> dict[str, Any]:
    return {
        "kind": "kernel",
        "family": lookup.key.family,
        "arguments": lookup.key.arguments,
        "name": lookup.key.name,
        "hit": lookup.hit,
        "shipped": lookup.shipped,
        "reasons": list(lookup.reasons),
    }
