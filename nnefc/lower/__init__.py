"""Lowering of IR graphs to a `Program`: every operation becomes launches over buffers."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING

from nnefc.ir import DType, Graph, Value
from nnefc.ir.stages import Stage, single_stage
from nnefc.lower.background_packing import BackgroundPacking
from nnefc.lower.batch_stages import Stages
from nnefc.lower.channel_padding import zero_padded_values
from nnefc.lower.constants import ConstantPool
from nnefc.lower.context import Lowering, ProgramContext, find_lowering, lowering
from nnefc.lower.lower_graph import lower_graph
from nnefc.ops.tools.cost import largest_live_bytes
from nnefc.program.program import Program
from nnefc.support.errors import Diagnostic, NnefError, Place
from nnefc.support.machine_model import L3_CACHE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Lowering", "load_lowerings", "lower", "lowering"]

_MODULES = (
    "views_and_variables",
    "elementwise.expression",
    "convolution.row_major",
    "window.sliding",
    "window.code_sums",
    "elementwise.local_response",
    "elementwise.mean_variance",
    "window.sampling",
    "window.region_max",
    "convolution.stepwise",
    "product.matmul",
    "product.code_matmul",
    "product.attention",
    "elementwise.reduce",
    "movement.strided",
    "movement.indexing",
    "movement.topk",
    "movement.suppression",
    "movement.weighted_gather",
    "window.resize",
    "window.grid_sample",
    "movement.fourier",
    "window.roi",
    "convolution.blocked",
    "convolution.codes",
    "blocked.elementwise",
    "elementwise.code_table",
    "elementwise.code_softmax",
    "elementwise.ordered_sum",
    "blocked.mean_variance",
    "blocked.layout",
    "blocked.pooling",
    "blocked.channels",
    "blocked.upsample",
    "scan",
    "branches",
    "product.dequantize_blocks",
    "movement.iota",
)


@cache
def load_lowerings() -> None:
    """Import the modules that register lowerings."""
    for module in _MODULES:
        importlib.import_module(f"nnefc.lower.{module}")


def lower(
    graph: Graph | Sequence[Stage],
    *,
    threads: int = 2,
    cache_bytes: int = L3_CACHE_BYTES,
    release: Callable[[], None] | None = None,
    keep_sources: bool = False,
    dynamic_shapes: bool = False,
    check_indices: bool = True,
    strict: bool = False,
    halves: DType | None = None,
) -> Program:
    """The launches that compute a graph, or all of its stages.

    Every operation must have a lowering (the pass `expand_compounds` ensures it) and every variable
    must have data of its shape.  Otherwise raises NnefError, which lists all errors.

    Updated variables live in state buffers: reads see the old value, and the last launches copy
    the new values in.  Graph outputs are computed in the caller's buffers where possible, and
    copied there otherwise.

    `threads`: number of threads that will run the program.
    `cache_bytes`: size of the largest cache.
    `release`: the graph is consumed: constants are dropped after their last use, and this is called
    whenever many bytes were dropped.
    `keep_sources`: packed weights stay `PackedWeight` descriptions, to be written to a file.
    `dynamic_shapes`: programs for other shapes follow, and should use the same kernels.
    `check_indices`: the program fails for indices out of range.
    `strict`: sums are as accurate as those of float32.
    `halves`: the type that the graph is rounded to; subnormal numbers may count as zero.
    """
    load_lowerings()
    stages = [single_stage(graph)] if isinstance(graph, Graph) else graph
    if errors := [error for stage in stages for error in _errors(stage.graph)]:
        raise NnefError(errors)
    program = Program()
    stage_buffers = Stages(program)
    # memory that the graph would need without stages may be spent on scratch buffers
    live_bytes = max(stage.turns * largest_live_bytes(stage.graph) for stage in stages)
    with BackgroundPacking() as packing:
        context = ProgramContext(
            program,
            ConstantPool(program, keep_sources=keep_sources, packing=packing),
            zero_padded_values(stages),
            threads,
            cache_bytes,
            live_bytes,
            dynamic_shapes,
            check_indices,
            strict,
            halves,
            release,
        )
        for stage in stages:
            with stage_buffers.lowering(stage) as (inputs, outputs):
                lower_graph(Lowering(stage.graph, context), inputs, outputs)
    return program


def _errors(graph: Graph) -> list[Diagnostic]:
    """Errors for strings, variables without data, and operations without a lowering."""
    errors = [_no_strings(value, None) for value in graph.inputs if _is_string(value)]
    return [*errors, *_errors_of_operations(graph)]


def _errors_of_operations(graph: Graph) -> list[Diagnostic]:
    errors: list[Diagnostic] = []
    for op in graph.ops:
        place = op.location.place if op.location else None
        if not any(map(_is_string, op.inputs)):  # report strings where they originate
            errors += [_no_strings(value, place) for value in op.outputs if _is_string(value)]
        if op.name == "variable":
            variable = graph.variables[op.attributes["label"].lower()]
            if variable.data is None:
                errors.append(
                    Diagnostic(
                        "data/missing",
                        f"variable {op.attributes['label']!r} has no data",
                        place,
                        hint=f"add the file {op.attributes['label']}.dat to the model,"
                        " or compile with random weights",
                    )
                )
        elif find_lowering(op) is None:
            errors.append(
                Diagnostic("internal/lowering", f"operation {op.name!r} has no lowering", place)
            )
        errors += [error for body in op.bodies for error in _errors_of_operations(body)]
    return errors


def _is_string(value: Value) -> bool:
    return value.type.dtype is DType.STRING


def _no_strings(value: Value, place: Place | None) -> Diagnostic:
    what = f"'{value.name}'" if value.name else "this"
    return Diagnostic(
        "type/string",
        f"{what} is a tensor of strings, for which there is no code",
        place,
        hint="only scalars, integers and logicals can be computed",
    )
