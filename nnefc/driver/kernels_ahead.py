"""Compile usual kernels ahead of need, after those of the first model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnefc.kernels.template import Kernel
    from nnefc.options.compile_config import CompileConfig


def expecting_usual_kernels(config: CompileConfig) -> AbstractContextManager[None]:
    """A block that is followed by compiling the kernels of usual graphs, if it compiled others."""
    from nnefc.runtime.compile.compile_ahead import compiling_ahead

    return compiling_ahead(partial(usual_kernels, config))


def usual_kernels(config: CompileConfig) -> Iterator[Kernel]:
    """The kernels of `typical_graphs.usual_graphs`; none while passes are verified or dumped."""
    from nnefc.driver.lower import lower_graph
    from nnefc.driver.typical_graphs import usual_graphs
    from nnefc.passes.pipeline import is_watched

    if not is_watched():
        for graph in usual_graphs():
            yield from lower_graph(graph, config._replace(algorithms={})).kernels
