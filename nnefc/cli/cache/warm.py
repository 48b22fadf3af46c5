"""`nnefc cache warm`: collect the kernels that models need, and compile those that are missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnefc.cli.support.models import read
from nnefc.cli.support.printing import progress, reported
from nnefc.formats.files import printable
from nnefc.support.errors import Diagnostic, Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nnefc.frontends.common.graph_source import GraphSource, Shapes
    from nnefc.ir import Graph
    from nnefc.kernels.template import Kernel
    from nnefc.options.import_config import ImportConfig


@dataclass(frozen=True, slots=True)
class WarmReport:
    """The number of kernels that were needed, and of those that had to be compiled."""

    kernels: int
    compiled: int


@dataclass(frozen=True, slots=True)
class GraphToWarm:
    """A graph whose kernels are needed; `growing`: in plans for other shapes, too."""

    graph: Graph
    growing: bool = False


def graphs_of_models(models: Iterable[str], config: ImportConfig) -> Iterator[GraphToWarm]:
    """The graphs that models become, one model after the other.

    A model for several shapes or with states is compiled as `nnefc.compile` and as `nnefc run` do;
    symbols that no shape tells have small values, which a note names.
    """
    from nnefc.ir import Graph

    for model in models:
        found = read(model, config, sources=True)
        if isinstance(found, Graph):
            yield GraphToWarm(found)
        else:
            yield from _graphs_of(model, found, config.shapes)


def _graphs_of(model: str, found: GraphSource, shapes: Shapes) -> Iterator[GraphToWarm]:
    from nnefc.frontends.common.graph_source import sample_graph

    with reported() as diagnostics:
        trial = sample_graph(found, shapes, diagnostics)
        if trial.values:
            message = f"kernels of {found.name} are those for {trial}"
            hint = "--shape NAME=EXTENTS is for others"
            place = Place(printable(model))
            diagnostics.add(Diagnostic("tract/trial", message, place, "note", hint=hint))
    yield GraphToWarm(trial.graph)
    if found.free or trial.graph.needs_session:
        yield GraphToWarm(trial.graph, growing=True)
    if states := trial.graph.state_shapes:
        yield GraphToWarm(found.graph(trial.shapes, states=states), growing=True)


def kernels_of(needed: Iterable[GraphToWarm], threads: int | None) -> list[Kernel]:
    """What graphs need, on one thread and on `threads` (None: one for each processor)."""
    from nnefc.driver.lower import lower_graph
    from nnefc.options.compile_config import CompileConfig

    found: dict[Kernel, None] = {}
    for each in needed:
        for count in dict.fromkeys([threads, 1]):
            program = lower_graph(each.graph, CompileConfig(count), growing=each.growing)
            found.update(dict.fromkeys(program.kernels))
    return list(found)


def warm_up(kernels: Iterable[Kernel]) -> WarmReport:
    """Compile what is not in the cache; progress is shown on standard error."""
    from nnefc.kernels.target.isa import host
    from nnefc.runtime.cache import kernel_cache as cache
    from nnefc.runtime.compile import support_code
    from nnefc.runtime.compile.kernel_compiler import object_codes
    from nnefc.runtime.compile.unit import key_of

    parts = (
        function
        for part in support_code.SUPPORT_MODULES
        for function in support_code.functions(part)
    )
    wanted, isa = [*kernels, *parts], host()
    keys = [key_of(source, isa) for source in wanted]
    missing = sum(key is None or cache.load_kernel(key) is None for key in keys)
    with progress("compiling") as advance:
        object_codes(wanted, advance)
    return WarmReport(len(wanted), missing)
