"""The passes in order, and what happens between them: printing, verifying, timing, dumps.

`NNEFC_VERIFY=1` verifies the graph after each pass.  `NNEFC_DUMP=folder` writes the graph
after each pass that changed it: `000_import.ir`, `010_expand_compounds.ir` and so on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from nnefc.ir import Graph, print_graph
from nnefc.ir.stages import Stage
from nnefc.ir.verify import check
from nnefc.ops.core.spec import Lookup
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.base import Pass
from nnefc.passes.canonicalise.canonicalise import Canonicalise
from nnefc.passes.canonicalise.expand_compounds import ExpandCompounds
from nnefc.passes.canonicalise.widen_halves import WidenHalves
from nnefc.passes.cleanup.eliminate_common_subexpressions import EliminateCommonSubexpressions
from nnefc.passes.cleanup.eliminate_dead_code import EliminateDeadCode
from nnefc.passes.cleanup.merge_affine import MergeAffine
from nnefc.passes.cleanup.nest_concats import NestConcats
from nnefc.passes.cleanup.sink_dequantization import SinkDequantization
from nnefc.passes.cleanup.sink_transposes import SinkTransposes
from nnefc.passes.cost.convolution import Chooser
from nnefc.passes.fold.fold_affine import FoldAffine
from nnefc.passes.fold.fold_constants import FoldConstants
from nnefc.passes.fuse.fuse_attention import FuseAttention
from nnefc.passes.fuse.fuse_convolution import FuseConvolution
from nnefc.passes.fuse.fuse_elementwise import FuseElementwise
from nnefc.passes.fuse.fuse_epilogue import FuseEpilogue
from nnefc.passes.fuse.fuse_normalization import FuseNormalization
from nnefc.passes.fuse.fuse_views import FuseViews
from nnefc.passes.loops.hoist_from_scans import HoistFromScans
from nnefc.passes.loops.merge_products import MergeProducts
from nnefc.passes.loops.simplify_scans import SimplifyScans
from nnefc.passes.machine.assign_layouts import AssignLayouts
from nnefc.passes.machine.flatten_convolutions import FlattenConvolutions
from nnefc.passes.machine.interleave_deconvolutions import InterleaveDeconvolutions
from nnefc.passes.machine.shuffle_channels import ShuffleChannels
from nnefc.passes.machine.split_batch import SplitBatch
from nnefc.support.errors import NnefError, Place

DEFAULT: tuple[Pass, ...] = (
    WidenHalves(),
    ExpandCompounds(),
    Canonicalise(),
    SinkDequantization(),
    SimplifyScans(),
    HoistFromScans(),
    MergeProducts(),
    FoldConstants(),
    SinkTransposes(),
    Canonicalise(),
    EliminateCommonSubexpressions(),
    EliminateDeadCode(),
    SimplifyScans(),
    FuseNormalization(),
    FoldAffine(),
    MergeAffine(),
    FlattenConvolutions(),
    InterleaveDeconvolutions(),
    NestConcats(),
    FuseElementwise(),
    FuseViews(),
    FuseEpilogue(),
    FuseAttention(),
    EliminateDeadCode(),
)


OUTERMOST = (FuseConvolution, ShuffleChannels, AssignLayouts)
"""Passes that leave bodies of loops out: these stay row-major."""


def for_machine(block: int, choose: Chooser | None = None) -> tuple[Pass, ...]:
    """What follows `DEFAULT`: passes that depend on the machine.

    `block`: channels in a block, the float32 items of a vector.  `choose`: how convolutions are
    computed, where costs alone are not to decide.
    """
    return (
        FuseConvolution(block=block),
        ShuffleChannels(),
        AssignLayouts(block, choose or Chooser()),
        EliminateDeadCode(),
    )


@dataclass(frozen=True, slots=True)
class Ran:
    """What a hook learns: the pass that ran, "import" before the first one.

    `number` counts 0, 10, 20 and so on; `seconds` is the time that the pass took.  After the graph
    was cut into stages there is a call for each of them: number `stage`, which runs `turns` times.
    """

    number: int
    name: str
    changed: bool
    seconds: float
    stage: int = 0
    turns: int = 1


Hook = Callable[[Graph, Ran], None]
"""Called before the first pass and after each one."""


def run_pipeline(
    graph: Graph,
    passes: Sequence[Pass] = DEFAULT,
    *,
    hook: Hook | None = None,
    lookup: Lookup | None = None,
    done: int = 0,
) -> bool:
    """Run `passes` over `graph`, in place; says whether anything changed.

    `lookup` gives the operations that are not in the table (custom ones).
    `done`: how many passes have run before.
    """
    hooks = [*_environment(), *([hook] if hook else [])]
    any_changed = False

    def report(ran: Ran) -> None:
        for each in hooks:
            each(graph, ran)

    if not done:
        report(Ran(0, "import", True, 0.0))
    for number, pass_ in enumerate(passes, done + 1):
        if lookup is not None and isinstance(pass_, ExpandCompounds):
            pass_ = replace(pass_, lookup=lookup)
        start = perf_counter()
        changed = run_pass(pass_, graph)
        any_changed |= changed
        report(Ran(10 * number, pass_.name, changed, perf_counter() - start))
    return any_changed


def run_pass(pass_: Pass, graph: Graph) -> bool:
    """Run a pass over the bodies of loops, innermost first, and over the graph itself."""
    changed = False
    if not isinstance(pass_, OUTERMOST):
        for op in graph.ops:
            for body in op.bodies:
                changed |= run_pass(pass_, body)
    return pass_.run(graph) or changed


def run_split(
    graph: Graph, split: SplitBatch, done: int, *, hook: Hook | None = None
) -> list[Stage]:
    """The stages of `graph`, over which `done` passes have run; hooks see each of them."""
    hooks = [*_environment(), *([hook] if hook else [])]
    start = perf_counter()
    stages = split.run(graph)
    seconds = perf_counter() - start
    for number, stage in enumerate(stages):
        ran = Ran(10 * done + 10, split.name, len(stages) > 1, seconds, number, stage.turns)
        for each in hooks:
            each(stage.graph, ran)
    return stages


def _environment() -> Iterator[Hook]:
    """The hooks that environment variables ask for."""
    if os.environ.get("NNEFC_VERIFY", "0") not in ("", "0"):
        yield verify_hook
    folder = os.environ.get("NNEFC_DUMP")
    if folder:
        yield dump_hook(Path(folder))


def is_watched() -> bool:
    """Whether environment variables ask for something between passes."""
    return next(_environment(), None) is not None


def verify_hook(graph: Graph, ran: Ran) -> None:
    """Raise NnefError (`internal/ir`) if the graph is not whole."""
    check(graph, rule_problems, after=ran.name)


def dump_hook(folder: Path) -> Hook:
    """A hook that writes the graph into `folder`, a file a pass.

    It raises NnefError `data/write` when it cannot.
    """

    def dump(graph: Graph, ran: Ran) -> None:
        if not ran.changed:
            return
        stage = f"_{ran.stage:02}_x{ran.turns}" if ran.name == SplitBatch.name else ""
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
