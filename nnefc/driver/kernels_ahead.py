"""Kernels that are compiled ahead, with the first model: what other models are likely to need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnefc.kernels.template import Kernel


def expecting_usual(threads: int | None, accuracy: str) -> AbstractContextManager[None]:
    """In this block, where much is compiled, kernels of the usual graphs are, too."""
    from nnefc.runtime.compile.kernel_compiler import expecting

    return expecting(partial(usual_kernels, threads, accuracy))


def usual_kernels(threads: int | None, accuracy: str) -> Iterator[Kernel]:
    """Those of `nnefc.driver.typical_graphs.usual_graphs`; none while somebody looks at the
    passes.
    """
    from nnefc.driver.compile import lowered
    from nnefc.driver.typical_graphs import usual_graphs
    from nnefc.passes.pipeline import is_watched

    if not is_watched():
        for graph in usual_graphs():
            yield from lowered(graph, threads=threads, accuracy=accuracy, methods={}).kernels
