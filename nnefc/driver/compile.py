"""Graphs to models: passes, lowering, kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nnefc.options.arguments import check_accuracy, check_environment, check_threads, memory_for
from nnefc.support.errors import Diagnostic, NnefError

if TYPE_CHECKING:
    from nnefc.ir import Graph
    from nnefc.passes.pipeline import Hook
    from nnefc.program.program import Program
    from nnefc.runtime.compile.kernel_compiler import Progress
    from nnefc.runtime.memory.weight_pool import WeightPool
    from nnefc.runtime.run.model import CompiledModel


def compile_with(
    graph: Graph,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    accuracy: str = "fast",
    methods: Mapping[str, str] | None = None,
    hook: Hook | None = None,
    shared: WeightPool | None = None,
) -> CompiledModel:
    """`compile` for callers that look at the graph between passes, which `hook` is called with.

    `methods`: see `Chooser`; None: those that `tune` has kept for this machine.
    `shared`: what plans for other shapes have in common with this one.
    """
    from nnefc.artifacts.provenance import FromGraph
    from nnefc.driver.kernels_ahead import expecting_usual
    from nnefc.driver.targets import LoweringOptions
    from nnefc.runtime.run.model import CompiledModel

    check_environment()
    threads = check_threads(threads)
    methods = methods_for(methods, threads, accuracy)
    program = lowered(
        graph,
        threads=threads,
        accuracy=accuracy,
        methods=methods,
        hook=hook,
        growing=shared is not None,
    )
    origin = FromGraph(graph, LoweringOptions(threads, accuracy, methods))
    with memory_for("compile the model"), expecting_usual(threads, accuracy):
        return CompiledModel.of(
            program,
            graph,
            threads=threads,
            progress=progress,
            origin=origin,
            shared=shared,
        )


def lowered(
    graph: Graph,
    *,
    threads: int | None = None,
    accuracy: str = "fast",
    methods: Mapping[str, str] | None = None,
    hook: Hook | None = None,
    growing: bool = False,
) -> Program:
    """The launches that compute a graph on this machine, before any kernel is compiled.

    `growing`: plans for other shapes follow, with the same weights and kernels.
    """
    threads, _ = check_threads(threads), check_accuracy(accuracy)
    with memory_for("compile the model"):
        return lower_prepared(
            prepared(graph, hook),
            threads=threads,
            accuracy=accuracy,
            methods=methods,
            hook=hook,
            keep_sources=growing,
            growing=growing,
        )


def prepared(graph: Graph, hook: Hook | None = None) -> Graph:
    """A graph after the passes that do not ask for the machine; `graph` is left as it is."""
    from nnefc.frontends.nnef.custom import require_known
    from nnefc.frontends.nnef.custom import spec as custom_spec
    from nnefc.passes.pipeline import DEFAULT, run_pipeline

    require_known(graph)
    _require_fitting_data(graph)
    working = graph.clone()
    with memory_for("compile the model"):
        run_pipeline(working, DEFAULT, hook=hook, lookup=custom_spec)
    return working


def lower_prepared(
    graph: Graph,
    *,
    threads: int | None = None,
    accuracy: str = "fast",
    methods: Mapping[str, str] | None = None,
    hook: Hook | None = None,
    keep_sources: bool = False,
    growing: bool = False,
) -> Program:
    """The launches that compute a prepared graph on this machine; the graph is used up.

    `keep_sources`, `growing`: see `nnefc.lower.lower`.
    """
    from nnefc.formats.files import release_pages
    from nnefc.kernels.vector.builder import lanes_of
    from nnefc.lower import lower
    from nnefc.ops.tools.cost import parameter_bytes
    from nnefc.passes.cost.batch import Costs
    from nnefc.passes.cost.convolution import WARM_PART, Chooser
    from nnefc.passes.machine.split_batch import SplitBatch
    from nnefc.passes.pipeline import DEFAULT, for_machine, run_pipeline, run_split
    from nnefc.runtime.machine.data_caches import largest_cache
    from nnefc.runtime.run.team import team

    sums_only = check_accuracy(accuracy)
    methods = methods_for(methods, threads, accuracy)
    cache = largest_cache()
    choose = Chooser(sums_only, methods, warm=WARM_PART * parameter_bytes(graph) <= cache)
    passes = for_machine(lanes_of("float32"), choose)
    run_pipeline(graph, passes, hook=hook, done=len(DEFAULT))
    costs = Costs.of_machine(cache, team(threads).threads)
    before = len(DEFAULT) + len(passes)
    stages = run_split(graph, SplitBatch(choose, costs), before, hook=hook)
    del graph  # stages have what they need of it
    release_pages()
    release = None if keep_sources else release_pages
    program = lower(
        stages, release=release, threads=threads, keep_sources=keep_sources, growing=growing
    )
    release_pages()
    return program


def methods_for(
    methods: Mapping[str, str] | None, threads: int | None, accuracy: str
) -> Mapping[str, str]:
    """How convolutions are to be computed; None: as `tune` has found on this machine."""
    from nnefc.runtime.cache import tuning_store
    from nnefc.runtime.run.team import team

    if methods is not None:
        return methods
    return {} if check_accuracy(accuracy) else tuning_store.find(team(threads).threads)


def _require_fitting_data(graph: Graph) -> None:
    """Raise NnefError for data that has changed on disk, or, as users may replace it, of another
    type than its variable.
    """
    from nnefc.formats.files import require_unchanged

    require_unchanged(variable.data for variable in graph.variables.values())
    errors: list[Diagnostic] = []
    for variable in graph.variables.values():
        type_, data = variable.type, variable.data
        if data is None:
            continue
        for rule, what, got, expected in (
            ("data/shape", "shape", data.shape, type_.dims),
            ("data/type", "type", data.dtype, type_.dtype.numpy),
        ):
            if got != expected:
                message = f"data of variable {variable.label!r} has {what} {got}, not {expected}"
                errors.append(Diagnostic(rule, message))
    if errors:
        raise NnefError(errors)
