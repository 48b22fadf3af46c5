"""Import and compile models, with progress bars and warnings on standard error."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from nnefc.cli.support.diagnostics import report
from nnefc.cli.support.options import model_path
from nnefc.cli.support.printing import compiling, reading
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.ir import Graph
    from nnefc.options.compile_config import CompileConfig
    from nnefc.options.import_config import ImportConfig
    from nnefc.passes.pipeline import Hook
    from nnefc.runtime.run.compiled_model import CompiledModel


def load(
    model: str | Path,
    config: ImportConfig | None = None,
    why: str = "the command needs known shapes",
) -> Graph:
    """The graph of a model; raises NnefError if a shape has a symbol without a value.

    `why`: the reason why symbols need values, for the hint.
    """
    with needing_symbols(why):
        return cast("Graph", read(model, config, dynamic=False))


@contextmanager
def needing_symbols(why: str) -> Generator[None]:
    """Within the block, errors of symbols without a value tell `why` they need one."""
    try:
        yield
    except NnefError as error:
        raise NnefError(
            each._replace(hint=f"{why}: {each.hint}")
            if each.rule == "input/symbol" and "no value" in each.message
            else each
            for each in error.errors
        ) from None


def read(
    model: str | Path,
    config: ImportConfig | None = None,
    *,
    quiet: bool = False,
    dynamic: bool = True,
    sources: bool = False,
) -> Graph | GraphSource:
    """`nnefc.frontends.read_model.read_model`; prints warnings, unless `quiet`."""
    from nnefc.frontends.read_model import read_model
    from nnefc.options.import_config import DEFAULT

    config = config or DEFAULT
    path = model_path(model) if isinstance(model, str) else model
    diagnostics = config.diagnostics()
    try:
        with reading():
            return read_model(path, config, diagnostics, dynamic=dynamic, sources=sources)
    finally:
        if not quiet:
            report(diagnostics.warnings)


def compile_graph(
    graph: Graph, config: CompileConfig, *, hook: Hook | None = None
) -> CompiledModel:
    """`nnefc.driver.compile.compile_graph` with stored tuning results."""
    from nnefc.artifacts.graph_origin import FromGraph
    from nnefc.driver.compile import compile_graph
    from nnefc.driver.lower_graph import with_tuned_algorithms

    config = with_tuned_algorithms(config)
    origin = FromGraph(graph, config)
    with compiling() as advance:
        return compile_graph(graph, config, progress=advance, origin=origin, hook=hook)


def compile_graphs(graphs: Sequence[Graph], threads: int | None = None) -> list[CompiledModel]:
    """`nnefc.driver.compile.compile_graphs` with stored tuning results."""
    from nnefc.driver.compile import compile_graphs
    from nnefc.driver.lower_graph import with_tuned_algorithms
    from nnefc.options.compile_config import CompileConfig

    config = with_tuned_algorithms(CompileConfig.of(threads))
    with compiling() as advance:
        return compile_graphs(graphs, config, advance)
