"""Models as the options of a command say: read, compiled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nnefc.cli.options import model_path, parse_limits, parse_shapes
from nnefc.cli.printing import progress, report, reported_warnings
from nnefc.errors import Diagnostics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nnefc.ir import Graph
    from nnefc.passes.pipeline import Hook
    from nnefc.runtime.model import CompiledModel


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
) -> Graph:
    """Import a model as the options say; warnings go to standard error, unless `quiet`."""
    from nnefc.api import import_with

    parsed = parse_limits(limits)
    diagnostics = Diagnostics(strict=strict, limit=parsed.errors)
    try:
        return import_with(
            model_path(model) if isinstance(model, str) else model,
            diagnostics,
            shapes=parse_shapes(shapes),
            random_weights=random_weights,
            scalar=scalar,
            limits=parsed,
            load_data=data,
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
    from nnefc.api import compile_with

    with reported_warnings(), progress("compiling") as advance:
        return compile_with(
            graph,
            threads=threads,
            progress=advance,
            accuracy=accuracy,
            methods=methods,
            hook=hook,
        )
