"""Compile a graph to a model: lower it, then generate the code of its kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnefc.options.compile_config import CompileConfig
from nnefc.support.memory_errors import memory_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nnefc.ir import Graph
    from nnefc.passes.pipeline import Hook
    from nnefc.runtime.memory.weight_pool import WeightPool
    from nnefc.runtime.run.compiled_model import CompiledModel, Origin
    from nnefc.support.progress import Progress


def check_environment() -> None:
    """Raise NnefError `input/environment` for wrong variables, even if nothing is compiled."""
    from nnefc.runtime.machine.resources import (
        compile_jobs,
        compiles_ahead,
        stores_models,
        uses_shipped,
    )

    compile_jobs()
    compiles_ahead()
    stores_models()
    uses_shipped()


def compile_graph(
    graph: Graph,
    config: CompileConfig,
    *,
    progress: Progress | None = None,
    origin: Origin | None = None,
    hook: Hook | None = None,
    shared: WeightPool | None = None,
) -> CompiledModel:
    """The compiled model of a graph, which is not modified.

    Args:
        graph: The graph to compile.
        config: Its algorithms, if they are None, are those that `tune` has stored.
        progress: Called as `progress(done, total, label)` while kernels are compiled.
        origin: The origin of the model, which saves it; None: it cannot be saved.
        hook: Called after every pass.
        shared: Weights and memory shared with plans for other shapes.
    """
    from nnefc.driver.kernels_ahead import compiling_around
    from nnefc.driver.lower_graph import lower_graph
    from nnefc.runtime.run.compiled_model import CompiledModel

    check_environment()
    with memory_errors("compile the model"), compiling_around(config):
        program = lower_graph(graph, config, hook=hook, dynamic_shapes=shared is not None)
        return CompiledModel.of(
            program,
            graph,
            threads=config.threads,
            progress=progress,
            origin=origin,
            shared=shared,
        )


def compile_graphs(
    graphs: Sequence[Graph], config: CompileConfig, progress: Progress | None = None
) -> list[CompiledModel]:
    """The compiled models of several graphs, in less time than one after the other.

    Workers compile the kernels of all graphs together.  The models cannot be saved.
    """
    from nnefc.driver.kernels_ahead import compiling_around
    from nnefc.driver.lower_graph import lower_graph
    from nnefc.runtime.compile.compiled_program import compile_kernels_of
    from nnefc.runtime.run.compiled_model import CompiledModel

    check_environment()
    with memory_errors("compile the models"), compiling_around(config):
        programs = [lower_graph(graph, config) for graph in graphs]
        compile_kernels_of(programs, progress)
        return [
            CompiledModel.of(program, graph, threads=config.threads)
            for program, graph in zip(programs, graphs, strict=True)
        ]
