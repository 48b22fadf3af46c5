"""Lower a graph to a program: the passes, then the launches of kernels.

    Graph ──prepare──▶ Graph ──lower_prepared──▶ Program

`prepare` runs the passes that are independent of the machine, `lower_prepared` those for this
machine and the lowering; `lower_graph` does both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nnefc.options.compile_config import CompileConfig
from nnefc.support.errors import Diagnostic, NnefError
from nnefc.support.memory_errors import memory_errors

if TYPE_CHECKING:
    from nnefc.ir import Graph
    from nnefc.passes.analysis.half_support import HalfKernels
    from nnefc.passes.cost.code_convolution import CodeRates
    from nnefc.passes.pipeline import Hook, Phase
    from nnefc.program.program import Program


def with_tuned_algorithms(config: CompileConfig) -> CompileConfig:
    """`config` with algorithms of convolutions: if None, those that `tune` has stored."""
    return config._replace(algorithms=_algorithms(config))


def _algorithms(config: CompileConfig) -> Mapping[str, str]:
    from nnefc.runtime.cache import tuning_store
    from nnefc.runtime.run.team import shared_team

    if config.algorithms is not None:
        return config.algorithms
    return (
        {}
        if config.is_strict
        else tuning_store.load_algorithms(shared_team(config.threads).threads)
    )


def lower_graph(
    graph: Graph, config: CompileConfig, *, hook: Hook | None = None, dynamic_shapes: bool = False
) -> Program:
    """The program of a graph for this machine; `graph` is not modified.

    `hook` is called after every pass.  `dynamic_shapes`: plans for other shapes will share weights
    and kernels.
    """
    prepared = prepare(graph, config, hook)
    with memory_errors("compile the model"):
        return lower_prepared(
            prepared, config, hook=hook, keep_sources=dynamic_shapes, dynamic_shapes=dynamic_shapes
        )


def prepare(graph: Graph, config: CompileConfig | None = None, hook: Hook | None = None) -> Graph:
    """A copy of a graph after the passes that are independent of the machine.

    Raises NnefError `quantization/float` for layers in floats that `config` does not allow.
    """
    from nnefc.ops.custom import require_known
    from nnefc.ops.custom import spec as custom_spec
    from nnefc.passes.pipeline import PassRun, run_pipeline, target_independent
    from nnefc.passes.quantize.float_layers import FloatLayers

    floats = FloatLayers() if config and config.strict_quantization else None

    def each(graph: Graph, ran: PassRun) -> None:
        for called in (hook, floats):
            if called is not None:
                called(graph, ran)

    require_known(graph)
    _require_fitting_data(graph)
    working = graph.clone()
    with memory_errors("compile the model"):
        run_pipeline(working, target_independent(custom_spec), hook=each)
    if floats is not None:
        floats.require_none()
    return working


def lower_prepared(
    graph: Graph,
    config: CompileConfig,
    *,
    hook: Hook | None = None,
    keep_sources: bool = False,
    dynamic_shapes: bool = False,
    cache_bytes: int | None = None,
) -> Program:
    """The program of a prepared graph for this machine; the graph is consumed.

    `keep_sources`, `dynamic_shapes`: see `nnefc.lower.lower`.  `cache_bytes`: size of the largest
    cache; None: of this machine.
    """
    from nnefc.driver.exact_kernels import needs_exact_kernels, use_exact_kernels
    from nnefc.driver.precision import half_kernels
    from nnefc.formats.files import release_pages
    from nnefc.lower import lower
    from nnefc.passes.pipeline import DEFAULT, passes_of, run_pipeline
    from nnefc.runtime.machine.resources import largest_cache, usable_cpus

    threads, halves = config.threads, half_kernels(config)
    cache = largest_cache() if cache_bytes is None else cache_bytes
    is_exact = needs_exact_kernels(graph)
    phases = _machine_phases(graph, config, cache, halves)
    stages = run_pipeline(graph, phases, hook=hook, done=len(passes_of(DEFAULT)))
    del graph  # stages refer to the data they need
    release_pages()
    release = None if keep_sources else release_pages
    program = lower(
        stages,
        threads=threads or usable_cpus(),
        cache_bytes=cache,
        release=release,
        keep_sources=keep_sources,
        dynamic_shapes=dynamic_shapes,
        check_indices=config.check_indices,
        strict=config.is_strict,
        halves=halves.dtype if halves else None,
    )
    if is_exact:
        use_exact_kernels(program)
    release_pages()
    return program


def _machine_phases(
    graph: Graph, config: CompileConfig, cache: int, halves: HalfKernels | None
) -> tuple[Phase, ...]:
    """The phases for this machine, whose largest cache has `cache` bytes."""
    from nnefc.ir.convolution_algorithm import parse_algorithms
    from nnefc.ir.types import DType
    from nnefc.kernels.target.isa import host
    from nnefc.kernels.vector.lane_builder import lanes_of
    from nnefc.ops.tools.cost import parameter_bytes
    from nnefc.passes.cost.batch import Costs
    from nnefc.passes.cost.convolution import WARM_CACHE_RATIO
    from nnefc.passes.machine.choose_convolution_algorithms import ChooseConvolutionAlgorithms
    from nnefc.passes.machine.split_batch import SplitBatch
    from nnefc.passes.pipeline import for_batch, for_machine
    from nnefc.runtime.run.team import shared_team

    block = lanes_of("float32")
    choose = ChooseConvolutionAlgorithms(
        block,
        strict=config.is_strict,
        warm=WARM_CACHE_RATIO * parameter_bytes(graph) <= cache,
        tuned=parse_algorithms(_algorithms(config)),
        codes=_code_rates(),
        halves=halves,
    )
    split = SplitBatch(Costs.of_machine(cache, shared_team(config.threads).threads))
    machine = for_machine(block, choose, DType(host().codes), halves)
    return (*machine, *for_batch(split, choose))


def _code_rates() -> CodeRates:
    """The rates of products of codes on this machine."""
    from nnefc.kernels.vector.dot_words import WORD_CODES, WORD_PAIR, pair_dot, word_dot
    from nnefc.passes.cost.code_convolution import CodeRates

    words, pairs = word_dot(), pair_dot()
    return CodeRates(
        words=WORD_CODES / words.instructions,
        pairs=WORD_PAIR / pairs.instructions,
        weight=words.planes / 4,
    )


def _require_fitting_data(graph: Graph) -> None:
    """Raise NnefError for data that has changed on disk, or does not fit its variable.

    Users may have replaced the data of a variable.
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
