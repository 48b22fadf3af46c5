"""Models as the options of a command say: read, compiled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from nnefc.cli.support.options import model_path, parse_limits, parse_shapes
from nnefc.cli.support.printing import progress, reading, report, reported_warnings
from nnefc.support.errors import Diagnostics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nnefc.frontends.tract.source import Source
    from nnefc.ir import Graph
    from nnefc.passes.pipeline import Hook
    from nnefc.runtime.run.model import CompiledModel


def load(
    model: str | Path,
    *,
    shapes: Sequence[str] | None = None,
    random_weights: int | None = None,
    scalar: str = "float32",
    strict: bool = False,
    limits: Sequence[str] | None = None,
    data: bool = True,
    quiet: bool = False,
    dialect: str = "auto",
) -> Graph:
    """Import a model as the options say; warnings go to standard error, unless `quiet`."""
    graph = read(
        model,
        shapes=shapes,
        random_weights=random_weights,
        scalar=scalar,
        strict=strict,
        limits=limits,
        data=data,
        quiet=quiet,
        dialect=dialect,
        dynamic=False,
    )
    return cast("Graph", graph)


def read(
    model: str | Path,
    *,
    shapes: Sequence[str] | None = None,
    random_weights: int | None = None,
    scalar: str = "float32",
    strict: bool = False,
    limits: Sequence[str] | None = None,
    data: bool = True,
    quiet: bool = False,
    dialect: str = "auto",
    dynamic: bool = True,
    sources: bool = False,
) -> Graph | Source:
    """What `load` gives, or a `Source` of graphs if shapes of inputs are not known, or there are
    states; or of any document of tract, if `sources` are wanted.
    """
    from nnefc.api.compile import read_with

    parsed = parse_limits(limits)
    diagnostics = Diagnostics(strict=strict, limit=parsed.errors)
    try:
        with reading():
            return read_with(
                model_path(model) if isinstance(model, str) else model,
                diagnostics,
                dynamic,
                shapes=parse_shapes(shapes),
                random_weights=random_weights,
                scalar=scalar,
                limits=parsed,
                load_data=data,
                dialect=dialect,
                sources=sources,
            )
    finally:
        if not quiet:
            report(diagnostics.warnings)


def compile_graph(
    graph: Graph,
    threads: int | None = None,
    accuracy: str = "fast",
    *,
    methods: Mapping[str, str] | None = None,
    hook: Hook | None = None,
) -> CompiledModel:
    """Compile; progress is shown on standard error.  `methods`, `hook`: see `compile_with`."""
    from nnefc.driver.compile import compile_with

    with reported_warnings(), progress("compiling") as advance:
        return compile_with(
            graph,
            threads=threads,
            progress=advance,
            accuracy=accuracy,
            methods=methods,
            hook=hook,
        )
