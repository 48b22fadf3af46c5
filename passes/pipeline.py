"""The pass pipeline: phases of passes in order, with hooks, timing, verification and dumps.

`NNEFC_VERIFY=1` verifies the graph after each pass.  `NNEFC_DUMP=folder` writes the graph after
each pass that changed it: `000_import.ir`, `030_expand_compounds.ir` and so on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Final

from nnefc.ir import DType, Graph, print_graph
from nnefc.ir.stages import Stage, single_stage
from nnefc.ir.verify import check
from nnefc.ops.core.spec import Lookup
from nnefc.ops.internal import branches
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.analysis.half_support import HalfKernels
from nnefc.passes.canonicalise.canonicalise import Canonicalise
from nnefc.passes.canonicalise.expand_compounds import ExpandCompounds
from nnefc.passes.canonicalise.widen_halves import WidenHalves
from nnefc.passes.cleanup.eliminate_common_subexpressions import EliminateCommonSubexpressions
from nnefc.passes.cleanup.eliminate_dead_code import EliminateDeadCode
from nnefc.passes.cleanup.merge_affine import MergeAffine
from nnefc.passes.cleanup.nest_concats import NestConcats
from nnefc.passes.cleanup.sink_dequantization import SinkDequantization
from nnefc.passes.cleanup.sink_transposes import SinkTransposes
from nnefc.passes.fold.fold_affine import FoldAffine
from nnefc.passes.fold.fold_constants import FoldConstants
from nnefc.passes.fuse.fuse_attention import FuseAttention
from nnefc.passes.fuse.fuse_convolution_epilogue import FuseConvolutionEpilogue
from nnefc.passes.fuse.fuse_elementwise import FuseElementwise
from nnefc.passes.fuse.fuse_matmul_epilogue import FuseMatmulEpilogue
from nnefc.passes.fuse.fuse_normalization import FuseNormalization
from nnefc.passes.fuse.fuse_views import FuseViews
from nnefc.passes.fuse.sink_reshapes import SinkReshapes
from nnefc.passes.interface import Pass, StagePass
from nnefc.passes.loops.hoist_from_scans import HoistFromScans
from nnefc.passes.loops.merge_products import MergeProducts
from nnefc.passes.loops.simplify_ifs import SimplifyIfs
from nnefc.passes.loops.simplify_scans import SimplifyScans
from nnefc.passes.machine.assign_layouts import AssignLayouts
from nnefc.passes.machine.choose_code_types import ChooseCodeTypes
from nnefc.passes.machine.choose_convolution_algorithms import ChooseConvolutionAlgorithms
from nnefc.passes.machine.flatten_convolutions import FlattenConvolutions
from nnefc.passes.machine.interleave_deconvolutions import InterleaveDeconvolutions
from nnefc.passes.machine.lower_precision import LowerPrecision
from nnefc.passes.machine.shuffle_channels import ShuffleChannels
from nnefc.passes.machine.split_batch import SplitBatch
from nnefc.passes.op_queries import WITH_BODIES
from nnefc.passes.quantize.cancel_quantizations import CancelQuantizations
from nnefc.passes.quantize.choose_code_products import ChooseCodeProducts
from nnefc.passes.quantize.convolutions_of_pairs import ConvolutionsOfPairs
from nnefc.passes.quantize.fold_codes import FoldCodes
from nnefc.passes.quantize.fuse_code_convolutions import FuseCodeConvolutions
from nnefc.passes.quantize.fuse_code_resize import FuseCodeResize
from nnefc.passes.quantize.fuse_code_softmax import FuseCodeSoftmax
from nnefc.passes.quantize.fuse_integers import FuseIntegers, is_no_operation_on_codes
from nnefc.passes.quantize.hoist_quantizations import HoistQuantizations
from nnefc.passes.quantize.known_zero_points import KnownZeroPoints
from nnefc.passes.quantize.narrow_sums import NarrowSums
from nnefc.passes.quantize.recognise_quantizations import RecogniseQuantizations
from nnefc.passes.quantize.rescale_codes import RescaleCodes
from nnefc.passes.quantize.sink_dequantizations import SinkDequantizations
from nnefc.passes.quantize.split_weights import SplitWeights
from nnefc.passes.quantize.sum_codes import SumCodes
from nnefc.passes.quantize.tabulate_functions import TabulateFunctions
from nnefc.support.errors import NnefError, Place


@dataclass(frozen=True, slots=True)
class Phase:
    """Passes with a common aim, in order."""

    name: str
    passes: tuple[Pass | StagePass, ...]


def _quantization(expand: ExpandCompounds) -> Phase:
    """The phase that computes on codes; `expand` is for the operations that are left."""
    return Phase(
        "quantization",
        (
            FoldCodes(),
            SinkDequantizations(),
            HoistQuantizations(),
            EliminateCommonSubexpressions(),
            CancelQuantizations(),
            TabulateFunctions(),
            SumCodes(),
            FuseCodeSoftmax(),
            FuseCodeResize(),
            KnownZeroPoints(),
            EliminateDeadCode(),
            SplitWeights(),
            ConvolutionsOfPairs(),
            FuseCodeConvolutions(),
            FuseIntegers(),
            NarrowSums(),
            ChooseCodeProducts(),
            RescaleCodes(),
            expand,
        ),
    )


def target_independent(lookup: Lookup | None = None) -> tuple[Phase, ...]:
    """The phases that do not depend on the machine.

    `lookup`: custom operations, which are not in the table.

    Canonicalisation runs twice.  The first run gives every operation the form that folding and the
    passes on loops recognise.  These passes leave transposes that cancel, copies, and constants as
    operands; the second run simplifies them.
    """
    expand = ExpandCompounds(lookup) if lookup else ExpandCompounds()
    return (
        Phase(
            "expand",
            (
                WidenHalves(),
                RecogniseQuantizations(),
                replace(expand, only=is_no_operation_on_codes),
            ),
        ),
        _quantization(expand),
        Phase("canonicalise", (Canonicalise(), SinkDequantization())),
        Phase("loops", (SimplifyScans(), SimplifyIfs(), HoistFromScans(), MergeProducts())),
        Phase("fold", (FoldConstants(), SinkTransposes())),
        Phase(
            "simplify",
            (
                Canonicalise(),
                EliminateCommonSubexpressions(),
                EliminateDeadCode(),
                SimplifyScans(),
                SimplifyIfs(),
            ),
        ),
        Phase("linear algebra", (FuseNormalization(), FoldAffine(), MergeAffine())),
        Phase("convolutions", (FlattenConvolutions(), InterleaveDeconvolutions(), NestConcats())),
        Phase(
            "fuse",
            (
                SinkReshapes(),
                FuseElementwise(),
                FuseViews(),
                FuseMatmulEpilogue(),
                FuseAttention(),
                EliminateDeadCode(),
            ),
        ),
    )


DEFAULT: Final = target_independent()
"""The phases for graphs without custom operations."""


def for_machine(
    block: int,
    choose: ChooseConvolutionAlgorithms | None = None,
    codes: DType = DType.UINT8,
    halves: HalfKernels | None = None,
) -> tuple[Phase, ...]:
    """The phase after `DEFAULT`, whose passes depend on the machine.

    `block`: channels in a block, the float32 items of a vector.  `codes`: the type of codes that
    kernels multiply.  `halves`: those that multiply bfloat16, if any.
    """
    return (
        Phase(
            "layout",
            (
                ChooseCodeTypes(codes),
                FuseConvolutionEpilogue(block=block),
                ShuffleChannels(),
                choose or ChooseConvolutionAlgorithms(block),
                LowerPrecision(halves, block),
                AssignLayouts(block, halves.block if halves else 0),
                EliminateDeadCode(),
            ),
        ),
    )


def for_batch(split: SplitBatch, choose: ChooseConvolutionAlgorithms) -> tuple[Phase, ...]:
    """The last phase: cut the graph into stages, and choose algorithms for their batch sizes."""
    return (Phase(STAGES, (split, choose)),)


STAGES: Final = "stages"
"""Name of the last phase."""


def passes_of(phases: Iterable[Phase]) -> list[Pass | StagePass]:
    """The passes of all phases, in order."""
    return [pass_ for phase in phases for pass_ in phase.passes]


@dataclass(frozen=True, slots=True)
class PassRun:
    """The argument of a hook: the pass that ran, or "import" before the first pass.

    `number` counts 0, 10, 20 and so on; `seconds` is the time that the pass took.  After the graph
    is cut into `stages`, the hook is called for each: stage number `stage` runs `turns` times.
    """

    number: int
    name: str
    changed: bool
    seconds: float
    stage: int = 0
    turns: int = 1
    stages: int = 1
    phase: str = ""


Hook = Callable[[Graph, PassRun], None]
"""Called before the first pass and after each pass."""


def run_pipeline(
    graph: Graph,
    phases: Iterable[Phase] = DEFAULT,
    *,
    hook: Hook | None = None,
    done: int = 0,
) -> list[Stage]:
    """Run the passes of `phases` over `graph`, in place; returns its stages.

    Without a pass that cuts the graph into stages, `graph` is the only stage.
    `done`: number of passes that ran before.
    """
    hooks = [*_environment(), *([hook] if hook else [])]

    def report(graph: Graph, ran: PassRun) -> None:
        for each in hooks:
            each(graph, ran)

    if not done:
        report(graph, PassRun(0, "import", True, 0.0))
    stages: list[Stage] | None = None
    steps = [(phase.name, pass_) for phase in phases for pass_ in phase.passes]
    for number, (phase, pass_) in enumerate(steps, done + 1):
        start = perf_counter()
        if isinstance(pass_, StagePass):
            assert stages is None, "a graph is cut into stages once"
            stages = pass_.split(graph)
            changed = len(stages) > 1
        else:
            graphs = [graph] if stages is None else [stage.graph for stage in stages]
            changed = sum(run_pass(pass_, each) for each in graphs) > 0
        seconds = perf_counter() - start
        current = [(graph, 1)] if stages is None else [(s.graph, s.turns) for s in stages]
        for i, (each, turns) in enumerate(current):
            ran = PassRun(10 * number, pass_.name, changed, seconds, i, turns, len(current), phase)
            report(each, ran)
    return stages or [single_stage(graph)]


def run_pass(pass_: Pass, graph: Graph) -> bool:
    """Run a pass over bodies, those of loops if it enters them, then over the graph itself."""
    changed = False
    for op in graph.ops:
        if op.name in WITH_BODIES and (pass_.enters_loops or op.name == branches.NAME):
            for body in op.bodies:
                changed |= run_pass(pass_, body)
    return pass_.run(graph) or changed


def _environment() -> Iterator[Hook]:
    """The hooks that environment variables enable."""
    if os.environ.get("NNEFC_VERIFY", "0") not in ("", "0"):
        yield verify_hook
    folder = os.environ.get("NNEFC_DUMP")
    if folder:
        yield dump_hook(Path(folder))


def is_watched() -> bool:
    """Whether environment variables enable a hook."""
    return next(_environment(), None) is not None


def verify_hook(graph: Graph, ran: PassRun) -> None:
    """Raise NnefError (`internal/ir`) if the graph is not valid."""
    check(graph, rule_problems, after=ran.name)


def dump_hook(folder: Path) -> Hook:
    """A hook that writes the graph after every pass into a file in `folder`.

    It raises NnefError `data/write` if writing fails.
    """

    def dump(graph: Graph, ran: PassRun) -> None:
        if not ran.changed:
            return
        stage = f"_{ran.stage:02}_x{ran.turns}" if ran.stages > 1 else ""
        path = folder / f"{ran.number:03}_{ran.name}{stage}.ir"
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        text = print_graph(graph, locations=True)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)
        except (OSError, ValueError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or str(error)
            raise NnefError.of(
                "data/write",
                f"cannot write the graph: {reason}",
                Place(str(path)),
                "NNEFC_DUMP names a folder to write to; unset it if that is not wanted",
            ) from None

    return dump
