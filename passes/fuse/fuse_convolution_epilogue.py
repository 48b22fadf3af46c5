"""Fuse activations, additions and other epilogues into convolutions on blocked tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Blocked, Expression, Graph, Op, Value
from nnefc.ops.core.blocked_rules import is_slice_of_block
from nnefc.ops.core.window_arithmetic import Window, convolution_groups
from nnefc.ops.internal.simple_epilogue import simple_epilogue
from nnefc.ops.tools.convolution import is_blocked_convolution, is_plain_convolution, window_of
from nnefc.passes.analysis.blocked_support import (
    MAX_PLANE,
    can_be_blocked,
    in_reach,
    is_blockable_elementwise,
)
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.fuse.absorb_elementwise import (
    absorb,
    defining_op,
    epilogue_of,
    name_with_epilogue,
    only_used_by,
)
from nnefc.passes.op_queries import is_elementwise_or_fused
from nnefc.symbolic.integers import is_symbolic, largest, mark_degraded


@dataclass(frozen=True)
class FuseConvolutionEpilogue:
    """Replace a convolution, and the element-wise operation that alone uses it, by `fused_conv`.

        %0: float32[1,16,8,8] = conv(%x, %w, %b) {...}
        %1: float32[1,16,8,8] = fused(%0, %z) {expression = (%0: float32, %1: float32) {
          %2: float32 = add(%0, %1); %3: float32 = relu(%2); return %3 }}

    becomes

        %1: float32[1,16,8,8] = fused_conv(%x, %w, %b, %z) {..., expression = ...}

    Fused are float32 convolutions with known filter and bias and a border of zeros, which are not
    too large for tables of offsets.  They have one group, or groups whose channels divide a block
    of `block` channels or are whole blocks, perhaps with a half one.  `deconv` is fused likewise.
    An expression becomes the epilogue if its other operands have the shape of the result or are
    known items per channel.  With symbolic shapes, or where groups share blocks, it must also be a
    simple epilogue, which tiles compute in registers.  If two convolutions are added, the later one
    has the addition.
    """

    name: ClassVar[str] = "fuse_convolution_epilogue"
    enters_loops: ClassVar[bool] = False
    block: int = 8

    def run(self, graph: Graph) -> bool:
        known = KnownValues(graph)
        fusible = {op: i for i, op in enumerate(graph.ops) if self._fits(op, known)}
        for op in list(graph.ops):
            if not is_elementwise_or_fused(op):
                continue
            results = [
                v
                for v in dict.fromkeys(op.inputs)
                if v.op in fusible and self._absorbs(graph, op, v, known)
            ]
            if results:
                last = max(results, key=lambda v: fusible[defining_op(v)])
                convolution = defining_op(last)
                absorb(graph, op, last)
                del fusible[convolution]
        for op in fusible:
            _rename(graph, op)
        return any(map(is_blocked_convolution, graph.ops))

    def _fits(self, op: Op, known: KnownValues) -> bool:
        """Whether kernels on blocked tensors can compute `op`, if it is a convolution."""
        if not is_plain_convolution(op) or op.attributes["border"] != "constant":
            return False
        x, filter_, bias = op.inputs
        if not can_be_blocked(x.type):
            return False
        if filter_ not in known or bias not in known:
            return False
        groups = convolution_groups(x.type.dims, op.attributes)
        inputs, outputs = x.type.dims[1], op.output.type.dims[1]
        if not self._in_reach(x, window_of(op), inputs // groups):
            return False
        return groups == 1 or self._splits(inputs // groups, outputs // groups)

    def _splits(self, inputs: int, outputs: int) -> bool:
        """Whether groups of `inputs` and `outputs` channels fit blocks.

        They are whole blocks, perhaps with a half one, or small slices of a block, which kernels
        shuffle in vectors.
        """
        if inputs % self.block == 0 and outputs % self.block == 0:
            return True
        entry = Blocked(self.block, ()).entry
        if inputs >= self.block >= 2 * entry and inputs % entry == outputs % entry == 0:
            return True
        return is_slice_of_block(self.block, inputs, outputs)

    def _in_reach(self, x: Value, window: Window, channels: int) -> bool:
        """Whether int32 offsets reach all taps of `channels` channels, and the halo is small."""
        if largest([math.prod(window.output), window.volume]) > MAX_PLANE:
            return False
        layout = Blocked(self.block, window.reach(), x.type.dtype.itemsize)
        return in_reach(window.input, channels, layout)

    def _absorbs(self, graph: Graph, op: Op, value: Value, known: KnownValues) -> bool:
        """Whether the convolution that computes `value` can have element-wise `op` as epilogue."""
        if not (only_used_by(graph, value, op) and is_blockable_elementwise(op, known)):
            return False
        if any(v.type.dtype is not value.type.dtype for v in op.inputs):
            return False
        if _is_simple(op, value):
            return True
        if self._share_blocks(defining_op(value)):
            return False
        if is_symbolic(value.type.dims):
            mark_degraded(value.type.dims)
            return False
        return True

    def _share_blocks(self, convolution: Op) -> bool:
        """Whether tiles of different groups write to one block."""
        x, y = convolution.inputs[0].type.dims, convolution.output.type.dims
        groups = convolution_groups(x, convolution.attributes)
        return x[1] // groups >= self.block and y[1] // groups % self.block > 0 and groups > 1


def _is_simple(op: Op, value: Value) -> bool:
    """Whether element-wise `op` is a simple epilogue of `value`."""
    expression, others = epilogue_of(op, value)
    epilogue = simple_epilogue(expression)
    if epilogue is None or epilogue.residual is None:
        return epilogue is not None
    return others[epilogue.residual - 1].type.dims == value.type.dims


def _rename(graph: Graph, op: Op) -> None:
    """Replace a convolution by a fused one with the identity as expression."""
    plain = Expression((op.output.type.dtype,), (), (0,))
    fused = Op(
        name_with_epilogue(op),
        op.inputs,
        {**op.attributes, "expression": plain},
        [op.output.type],
        [op.output.name],
        op.location,
    )
    graph.insert(fused, op)
    graph.replace_value(op.output, fused.output)
    graph.erase(op)
