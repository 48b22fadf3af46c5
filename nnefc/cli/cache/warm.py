"""`nnefc cache warm`: collect the kernels of models, and compile the missing ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnefc.cli.support.diagnostics import reported
from nnefc.cli.support.import_and_compile import read
from nnefc.cli.support.printing import compiling
from nnefc.formats.files import printable
from nnefc.support.errors import Diagnostic, Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from nnefc.frontends.common.graph_source import GraphSource, Shapes
    from nnefc.ir import Graph
    from nnefc.kernels.family import Kernel
    from nnefc.options.compile_config import CompileConfig
    from nnefc.options.import_config import ImportConfig


@dataclass(frozen=True, slots=True)
class WarmReport:
    """Numbers of kernels: all, and those that had to be compiled."""

    kernels: int
    compiled: int


@dataclass(frozen=True, slots=True)
class GraphToWarm:
    """A graph whose kernels to compile; `dynamic_shapes`: plans for other shapes follow its own."""

    graph: Graph
    dynamic_shapes: bool = False


def graphs_to_warm(models: Mapping[str, ImportConfig]) -> Iterator[GraphToWarm]:
    """The graphs of models; without models, the typical graphs of common networks."""
    from nnefc.driver import typical_graphs

    return _graphs_of_models(models) if models else map(GraphToWarm, typical_graphs.graphs())


def _graphs_of_models(models: Mapping[str, ImportConfig]) -> Iterator[GraphToWarm]:
    """The graphs to compile for each model.

    A model with symbolic shapes or states has one graph for `nnefc.compile` and others for
    `nnefc run`.  Symbols without a value get small ones, which a note names.
    """
    from nnefc.ir import Graph

    for model, config in models.items():
        source = read(model, config, sources=True)
        if isinstance(source, Graph):
            yield GraphToWarm(source)
        else:
            yield from _graphs_of_source(model, source, config.shapes)


def _graphs_of_source(model: str, source: GraphSource, shapes: Shapes) -> Iterator[GraphToWarm]:
    from nnefc.frontends.common.graph_source import sample_graph

    with reported() as diagnostics:
        sample = sample_graph(source, shapes, diagnostics)
        if sample.values:
            message = f"kernels of {source.name} are compiled for {sample}"
            hint = "--symbol NAME=VALUE or --shape NAME=EXTENTS chooses other values"
            place = Place(printable(model))
            diagnostics.add(Diagnostic("input/trial", message, place, "note", hint=hint))
    yield GraphToWarm(sample.graph)
    if source.free or sample.graph.needs_session:
        yield GraphToWarm(sample.graph, dynamic_shapes=True)
    if states := sample.graph.state_shapes:
        yield GraphToWarm(source.graph(sample.shapes, states=states), dynamic_shapes=True)


def kernels_of(graphs: Iterable[GraphToWarm], config: CompileConfig) -> list[Kernel]:
    """The kernels of graphs and their relatives, for one thread and for those of `config`."""
    from nnefc.driver.lower_graph import lower_graph

    kernels: dict[Kernel, None] = {}
    for each in graphs:
        for threads in dict.fromkeys([config.threads, 1]):
            program = lower_graph(
                each.graph, config._replace(threads=threads), dynamic_shapes=each.dynamic_shapes
            )
            for kernel in program.kernels:
                kernels.update(dict.fromkeys([kernel, *kernel.relatives()]))
    return list(kernels)


def compile_missing(kernels: Iterable[Kernel]) -> WarmReport:
    """Compile the kernels that are not in the cache, with a progress bar on standard error."""
    from nnefc.kernels.target.isa import host
    from nnefc.runtime.cache import kernel_cache
    from nnefc.runtime.compile import support_code
    from nnefc.runtime.compile.compile_unit import key_of
    from nnefc.runtime.compile.kernel_compiler import object_codes
    from nnefc.runtime.shipped.shipped_kernels import is_shipped

    support = (
        function
        for module in support_code.SUPPORT_MODULES
        for function in support_code.functions(module)
    )
    sources, isa = [*kernels, *support], host()
    keys = [key_of(source, isa) for source in sources if not is_shipped(source, isa)]
    missing = sum(key is None or kernel_cache.load_kernel(key) is None for key in keys)
    with compiling() as advance:
        object_codes(sources, advance)
    return WarmReport(len(sources), missing)
