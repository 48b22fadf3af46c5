"""Explain the changes of each pass to a graph, and the time that they save.

Multiply-adds are counted for the chosen algorithm of each convolution.  Times of a call come from
the cost model that chooses algorithms; they are rough, and only meant to be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nnefc.cli.support.measurements import duration
from nnefc.cli.support.printing import print_table, quantity, size, table

if TYPE_CHECKING:
    from rich.console import Console

    from nnefc.ir import Graph, Op
    from nnefc.options.compile_config import CompileConfig
    from nnefc.passes.analysis.half_support import HalfKernels
    from nnefc.passes.pipeline import PassRun
    from nnefc.passes.quantize.float_layers import FloatLayers

_MOST_NAMES: Final = 20
"""Names of layers on a line."""


def _float_layers() -> FloatLayers:
    from nnefc.passes.quantize.float_layers import FloatLayers

    return FloatLayers()


@dataclass(frozen=True, slots=True)
class PassRecord:
    """Operations of the graph after a pass, and their cost.

    `seconds`: time of the pass; `estimate`: seconds of a call on one core.
    """

    name: str
    changed: bool
    seconds: float
    operations: Counter[str]
    macs: int
    traffic: int
    estimate: float

    @property
    def size(self) -> int:
        """The number of operations that compute something."""
        from nnefc.ops.tools.table import operations

        entries = operations().items()
        stored = sum(self.operations[name] for name, spec in entries if spec.traits.data)
        return self.operations.total() - stored


@dataclass(slots=True)
class PassRecorder:
    """A hook for `run_pipeline` that records each pass; `facts` and `print` report them."""

    stages: list[PassRecord] = field(default_factory=list[PassRecord])
    warm: bool = False
    """Whether the weights fit into the last-level cache."""
    _floats: FloatLayers = field(default_factory=_float_layers)
    halves: HalfKernels | None = None
    """The kernels that multiply halves, if the model may be rounded."""
    precisions: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """How many products multiply halves (no reason) or float32, by operation and reason."""
    copies: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """How many results are float32 although products read them as halves."""

    @classmethod
    def of(cls, config: CompileConfig) -> PassRecorder:
        """A recorder for a model that is compiled with `config`."""
        from nnefc.driver.precision import half_kernels

        return cls(halves=half_kernels(config))

    def __call__(self, graph: Graph, ran: PassRun) -> None:
        """Record the graph after a pass; stages of one pass are added up."""
        from nnefc.ir.graph import walk
        from nnefc.kernels.vector.lane_builder import lanes_of
        from nnefc.ops.tools.cost import parameter_bytes, traffic_bytes
        from nnefc.passes.analysis.half_report import copies, precisions
        from nnefc.passes.cost.graph import executed_macs, nanoseconds
        from nnefc.passes.machine.lower_precision import LowerPrecision
        from nnefc.runtime.machine.resources import largest_cache

        if not self.stages:
            self.warm = parameter_bytes(graph) <= largest_cache()
        self._floats(graph, ran)
        if self.halves is not None and ran.name == LowerPrecision.name:
            self.precisions = precisions(graph, self.halves, lanes_of("float32"))
            self.copies = copies(graph)
        if ran.stage and not ran.changed:
            return
        if self.stages and not ran.changed:
            last = self.stages[-1]
            unchanged = last.operations, last.macs, last.traffic, last.estimate
            self.stages.append(PassRecord(ran.name, False, ran.seconds, *unchanged))
            return
        operations = Counter(kind(op) for op in walk(graph))
        macs = ran.turns * sum(map(executed_macs, graph.ops))
        traffic = ran.turns * traffic_bytes(graph)
        estimate = ran.turns * nanoseconds(graph, warm=self.warm) / 1e9
        if ran.stage:
            earlier = self.stages.pop()
            operations += earlier.operations
            macs, traffic = macs + earlier.macs, traffic + earlier.traffic
            estimate += earlier.estimate
        cost = macs, traffic, estimate
        self.stages.append(PassRecord(ran.name, ran.changed, ran.seconds, operations, *cost))

    def facts(self) -> list[dict[str, Any]]:
        """A record for each pass, the import first."""
        return [
            {
                "pass": stage.name,
                "changed": stage.changed,
                "seconds": stage.seconds,
                "operations": stage.size,
                "macs": stage.macs,
                "traffic_bytes": stage.traffic,
                "estimated_seconds": stage.estimate,
                "removed": dict(before.operations - stage.operations),
                "added": dict(stage.operations - before.operations),
            }
            for before, stage in zip([self.stages[0], *self.stages], self.stages, strict=False)
        ]

    def print(self, out: Console) -> None:
        """Print a row for each pass, then the whole pipeline."""
        numeric = ["operations", "multiply-adds", "traffic", "estimate", "time"]
        view = table("pass", *numeric, "changes", numeric=numeric, fold=["changes"])
        for before, stage in zip([self.stages[0], *self.stages], self.stages, strict=False):
            view.add_row(
                stage.name,
                _change(before.size, stage.size, f"{stage.size:,}"),
                _change(before.macs, stage.macs, quantity(stage.macs)),
                _change(before.traffic, stage.traffic, size(stage.traffic)),
                _change(before.estimate, stage.estimate, duration(stage.estimate)),
                duration(stage.seconds) if stage.name != "import" else "",
                describe(before, stage),
            )
        print_table(out, view, optional=["time", "traffic", "multiply-adds"])
        first, last = self.stages[0], self.stages[-1]
        out.print(
            f"passes: {first.size:,} to {last.size:,} operations, {size(first.traffic)} to "
            f"{size(last.traffic)} between them, estimate for one core "
            f"{duration(first.estimate)} to {duration(last.estimate)}; took "
            f"{duration(sum(stage.seconds for stage in self.stages))}"
        )
        for (name, reason), number in self._floats.counted().items():
            named = _some(self._floats.names()[name, reason])
            out.print(f"codes computed in floats: {number} {name}: {reason}{named}")
        for name, number in self._floats.products.items():
            out.print(f"bits that depend on the processor: {number} {name} of reals")
        for (name, reason), number in self.precisions.items():
            precision, why = ("float32", f": {reason}") if reason else (self._half, "")
            out.print(f"products in {precision}: {number} {name}{why}")
        for (name, reason), number in self.copies.items():
            out.print(f"results in float32, copied as {self._half}: {number} {name}: {reason}")

    @property
    def _half(self) -> str:
        """The type that products may multiply instead of float32."""
        return str(self.halves.dtype) if self.halves else ""

    def precision_facts(self) -> list[dict[str, Any]]:
        """A record for each kind of product of a model that may be rounded to halves."""
        return [
            {
                "operation": name,
                "precision": "float32" if reason else self._half,
                "reason": reason,
                "number": number,
            }
            for (name, reason), number in self.precisions.items()
        ]

    def copy_facts(self) -> list[dict[str, Any]]:
        """A record for each kind of result that is float32 although products read halves."""
        return [
            {"operation": name, "reason": reason, "number": number}
            for (name, reason), number in self.copies.items()
        ]

    def varying_facts(self) -> list[dict[str, Any]]:
        """A record for each kind of product on reals in a graph with codes."""
        products = self._floats.products.items()
        return [{"operation": name, "number": number} for name, number in products]

    def float_facts(self) -> list[dict[str, Any]]:
        """A record for each operation on codes that is computed in floats, and for each reason."""
        names = self._floats.names()
        return [
            {"operation": kind[0], "reason": kind[1], "number": number, "results": names[kind]}
            for kind, number in self._floats.counted().items()
        ]


def kind(op: Op) -> str:
    """The name of an operation, with its algorithm and with "blocked" for blocked results."""
    notes = [str(op.attributes["algorithm"])] if "algorithm" in op.attributes else []
    if any(v.type.layout is not None for v in op.outputs):
        notes.append("blocked")
    return f"{op.name} ({', '.join(notes)})" if notes else op.name


def _change(before: float, after: float, text: str) -> str:
    """`text`, preceded by the relative change of a number if that is half a percent or more."""
    percent = round(100 * (after - before) / before) if before else 0
    return f"{percent:+d} %, {text}" if percent else text


def describe(before: PassRecord, after: PassRecord) -> str:
    """The operations that a pass removed and added: `12 add, 33 relu -> 33 fused`."""
    if not after.changed:
        return "nothing"
    if before is after:
        return ", ".join(_listed(after.operations))
    removed = ", ".join(_listed(before.operations - after.operations))
    added = ", ".join(_listed(after.operations - before.operations))
    if removed and added:
        return f"{removed} -> {added}"
    if removed:
        return f"removed {removed}"
    return f"added {added}" if added else "operands or attributes"


def _some(names: Sequence[str]) -> str:
    """Names in brackets, only the first of many."""
    shown = [*names[:_MOST_NAMES], *(["..."] if len(names) > _MOST_NAMES else [])]
    return f" ({', '.join(shown)})" if names else ""


def _listed(operations: Counter[str]) -> list[str]:
    """Counts of operations, the most frequent first."""
    most = sorted(operations.items(), key=lambda item: (-item[1], item[0]))
    return [f"{number} {name}" for name, number in most]
