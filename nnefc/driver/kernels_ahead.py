"""Compile code ahead of need: support code while a model is lowered, usual kernels after it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnefc.kernels.family import Kernel
    from nnefc.options.compile_config import CompileConfig


@contextmanager
def compiling_around(config: CompileConfig) -> Generator[None]:
    """A block that lowers a graph and compiles its kernels.

    Workers start with the block if nothing is cached.  If the block compiled kernels, it is
    followed by compiling those of usual graphs.
    """
    from nnefc.runtime.compile.compile_ahead import compiling_ahead
    from nnefc.runtime.compile.kernel_compiler import compiled_early
    from nnefc.runtime.compile.support_code import functions

    with compiling_ahead(partial(usual_kernels, config)), compiled_early(functions("executor")):
        yield


def usual_kernels(config: CompileConfig) -> Iterator[Kernel]:
    """The kernels of `typical_graphs.usual_graphs`; none while passes are verified or dumped."""
    from nnefc.driver.lower_graph import lower_graph
    from nnefc.driver.typical_graphs import usual_graphs
    from nnefc.passes.pipeline import is_watched

    if not is_watched():
        for graph in usual_graphs():
            yield from lower_graph(graph, config._replace(algorithms={})).kernels
