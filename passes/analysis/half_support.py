"""Which products of float32 have kernels that multiply bfloat16."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from nnefc.ir import DType, Op, Value
from nnefc.ir.convolution_algorithm import Direct
from nnefc.ops.core.window_arithmetic import convolution_groups
from nnefc.ops.internal.simple_epilogue import SimpleEpilogue, simple_epilogue
from nnefc.ops.tools.convolution import is_blocked_convolution
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.analysis.whole_sums import sums_whole_numbers

LEAST_DEPTH: Final = 16
"""Least products of a sum of a matrix product for which words of two items pay."""
LEAST_COLUMNS: Final = 8
"""Least columns of a matrix product for which words of two items pay."""
LEAST_CHANNELS: Final = 3
"""Least input channels of a convolution: blocks have at least 4, the others are zeros."""
_PRODUCTS: Final = ("matmul", "fused_matmul")
_RESIDUALS: Final = 3
"""Operands of a convolution before those of its expression."""


@dataclass(frozen=True, slots=True)
class HalfKernels:
    """The kernels of a machine that multiply bfloat16."""

    step: int = 2
    """Depths of matrix products are multiples of this."""
    convolve: bool = True
    """Whether direct convolutions multiply bfloat16."""


def multiplies_halves(op: Op, kernels: HalfKernels, block: int, known: KnownValues) -> bool:
    """Whether a kernel computes `op` with its first two operands rounded to bfloat16.

    `block`: channels in a block.
    """
    if op.name in _PRODUCTS:
        return _is_product(op, kernels.step, known)
    if not is_blocked_convolution(op) or op.attributes.get("algorithm") != Direct():
        return False
    return kernels.convolve and convolves_halves(op, block)


def _is_product(op: Op, step: int, known: KnownValues) -> bool:
    a, b = op.inputs[:2]
    if not a.type.dtype is b.type.dtype is op.output.type.dtype is DType.FLOAT32:
        return False
    if b not in known or math.prod(b.type.dims[:-2]) != 1 or not op.output.type.volume:
        return False
    depth, columns = b.type.dims[-2:]
    if op.attributes["transposeB"]:
        depth, columns = columns, depth
    return depth % step == 0 and depth >= LEAST_DEPTH and columns >= LEAST_COLUMNS


def convolves_halves(op: Op, block: int) -> bool:
    """Whether direct convolution computes `op`, a convolution on blocked tensors, in bfloat16."""
    x, filter_ = op.inputs[:2]
    types = (x.type.dtype, filter_.type.dtype, op.output.type.dtype)
    if set(types) != {DType.FLOAT32} or sums_whole_numbers(op):
        return False
    groups = convolution_groups(x.type.dims, op.attributes)
    inputs, outputs = x.type.dims[1] // groups, op.output.type.dims[1] // groups
    if groups == 1:
        return inputs >= LEAST_CHANNELS
    return inputs % block == outputs % block == 0


def tile_epilogue(op: Op) -> SimpleEpilogue | None:
    """The epilogue of a convolution if its tiles compute it in registers; None for others.

    It maps zeros to zeros, so that the padding of blocks stays zero.
    """
    epilogue = simple_epilogue(op.attributes["expression"])
    if epilogue is None or not epilogue.low <= 0 <= epilogue.high:
        return None
    residual = residual_of(op, epilogue)
    return epilogue if residual is None or residual.type.dims == op.output.type.dims else None


def residual_of(op: Op, epilogue: SimpleEpilogue) -> Value | None:
    """The operand of a convolution that its epilogue adds."""
    if epilogue.residual is None:
        return None
    return op.inputs[_RESIDUALS - 1 + epilogue.residual]
