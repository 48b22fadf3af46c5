"""`tune`: measure which algorithm computes each convolution of a model fastest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Unpack

from nnefc.api.importing import graph_from
from nnefc.driver.tuning import Tuning, tune_graph
from nnefc.options.arguments import (
    check_flags,
    check_names,
    check_precision,
    check_progress,
    check_threads,
)
from nnefc.options.import_config import IMPORT_OPTIONS, ImportOptions, Path

if TYPE_CHECKING:
    from nnefc.ir import Graph
    from nnefc.support.progress import Progress


def tune(
    source: Path | Graph,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    strict: bool = False,
    precision: Literal["float32", "bfloat16", "float16"] = "float32",
    **options: Unpack[ImportOptions],
) -> Tuning:
    """Measure which algorithm is fastest for each convolution of a model, and store the results.

    `nnefc.compile` then uses them for convolutions of the same shapes, in this and in other models,
    with the same number of threads.  Tuning takes seconds, for large networks minutes; load on
    the machine makes it slower and less accurate.

    Args:
        source: As for `import_model`, or a graph.
        threads: As for `compile`.
        progress: Called as `progress(done, total, label)` before each step and once at the end.
        strict: As for `import_model`; not with a graph.
        precision: As for `compile`; models of another precision have choices of their own.
        options: As for `compile`.

    Raises:
        NnefError: As `compile` does.
    """
    check_names(tune, options, IMPORT_OPTIONS)
    count, items = check_threads(threads), check_precision(precision)
    check_progress(progress)
    check_flags(strict=strict)
    return tune_graph(graph_from(source, strict=strict, **options), count, progress, items)
