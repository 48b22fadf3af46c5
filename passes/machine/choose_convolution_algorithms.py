"""Choose the algorithm of every convolution by the cost model or by tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from nnefc.ir import Graph, Op
from nnefc.ir.convolution_algorithm import ConvolutionAlgorithm
from nnefc.ops.tools.convolution import is_blocked_convolution, is_code_convolution
from nnefc.passes.analysis.half_support import HalfKernels, convolves_halves
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.analysis.whole_sums import sums_whole_numbers
from nnefc.passes.cost.code_convolution import CodeRates, fastest_of_codes
from nnefc.passes.cost.convolution import algorithms, fastest, operation_key


@dataclass(frozen=True)
class ChooseConvolutionAlgorithms:
    """Set the attribute `algorithm` of every `fused_conv` and `fused_deconv`.

        %y: float32[1,64,56,56] = fused_conv(%x, %w, %b) {...}

    becomes

        %y: float32[1,64,56,56] = fused_conv(%x, %w, %b) {..., algorithm = winograd6}

    The fastest algorithm depends on the batch, so the pass runs again on the stages of a batch.
    Sums of whole numbers that become integers are computed directly, because they are exact then.

    Convolutions of codes have the attribute if Winograd's algorithm, which is exact, is fastest.
    """

    name: ClassVar[str] = "choose_convolution_algorithms"
    enters_loops: ClassVar[bool] = False
    block: int = 8
    """Channels in a block."""
    strict: bool = False
    """Whether to use only algorithms with the rounding errors of direct convolution."""
    warm: bool = False
    """Whether weights are in the last cache when they are read."""
    tuned: Mapping[str, ConvolutionAlgorithm] = field(
        default_factory=dict[str, ConvolutionAlgorithm]
    )
    """Algorithms by `operation_key`, which take precedence over the cost model.

    An algorithm that cannot compute the convolution is ignored; with `strict` all are."""
    codes: CodeRates = CodeRates()
    halves: HalfKernels | None = None
    """The kernels that multiply halves in direct convolution where they can."""

    def run(self, graph: Graph) -> bool:
        changed, known = False, KnownValues(graph)
        for op in graph.ops:
            if is_blocked_convolution(op):
                algorithm = self.choose(op)
            elif is_code_convolution(op):
                algorithm = fastest_of_codes(op, known, self.codes)
            else:
                continue
            changed |= op.attributes.get("algorithm") != algorithm
            op.attributes.pop("algorithm", None)
            if algorithm is not None:
                op.attributes["algorithm"] = algorithm
        return changed

    def choose(self, op: Op) -> ConvolutionAlgorithm:
        """The algorithm for one convolution."""
        sums, *others = algorithms(op, self.block)
        if op.inputs[0].type.dtype.is_half:  # for this algorithm
            chosen = op.attributes.get("algorithm")
            return chosen if chosen in others else sums
        if self.strict or not others or sums_whole_numbers(op):
            return sums
        able = self.halves is not None and convolves_halves(op, self.halves, self.block)
        halves = self.halves if able else None
        tuned = self.tuned.get(operation_key(op, halves=halves.dtype if halves else None))
        if tuned in (sums, *others):
            return tuned
        rate = halves.rate if halves else 1.0
        return fastest(op, warm=self.warm, halves=rate) or sums
