"""Which products of float32 have kernels that multiply halves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from nnefc.ir import DType, Op, Value
from nnefc.ir.convolution_algorithm import Depthwise, Direct, Grouped, Winograd
from nnefc.ops.core.border_taps import leaves_out_taps
from nnefc.ops.core.window_arithmetic import Window, convolution_groups
from nnefc.ops.internal.simple_epilogue import SimpleEpilogue, simple_epilogue
from nnefc.ops.tools.convolution import is_blocked_convolution, window_of
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.analysis.whole_sums import sums_whole_numbers
from nnefc.passes.cost.convolution import CHAIN_RATE, FEW_CHANNELS, HALF_RATE, MATRIX_RATE
from nnefc.symbolic.integers import hint, is_symbolic

LEAST_DEPTH: Final = 16
"""Least products of a sum of a matrix product for which words of two items pay."""
LEAST_COLUMNS: Final = 8
"""Least columns of a matrix product for which words of two items pay."""
LEAST_CHANNELS: Final = 3
"""Least input channels of a convolution: blocks have at least 4, the others are zeros."""
LONGEST_ROW: Final = 8
"""Most taps along a row whose few channels a row of a matrix register has room for."""
LEAST_ROWS: Final = 16
"""Least rows of attention, and what the width of its values has to be a multiple of."""
MOST_KEYS: Final = 1000
"""Most keys of attention, whose scores stay in the L2 cache."""
PRODUCTS: Final = ("matmul", "fused_matmul")
ATTENTION: Final = "attention"
_RESIDUALS: Final = 3
"""Operands of a convolution before those of its expression."""


@dataclass(frozen=True, slots=True)
class HalfKernels:
    """The kernels of a machine that multiply bfloat16, or float16."""

    dtype: DType = DType.BFLOAT16
    step: int = 2
    """Depths of matrix products are multiples of this."""
    convolve: bool = True
    """Whether direct convolutions multiply halves."""
    attend: bool = False
    """Whether attention multiplies halves."""
    block: int = 0
    """Channels in a block of bfloat16 of convolutions in matrix registers; 0 if there are none."""

    @property
    def rate(self) -> float:
        """Products of direct convolutions in the time of one of float32."""
        if self.block:
            return MATRIX_RATE
        return CHAIN_RATE if self.dtype is DType.FLOAT16 else HALF_RATE


def multiplies_halves(op: Op, kernels: HalfKernels, block: int, known: KnownValues) -> bool:
    """Whether a kernel computes `op` with its first two operands rounded to halves.

    `block`: channels in a block.
    """
    is_product = op.name in PRODUCTS or is_blocked_convolution(op)
    return is_product and float_reason(op, kernels, block, known) is None


def multiplies_rounded(op: Op) -> bool:
    """Whether `op`, whose operands have their final types, is a product of halves."""
    if not op.inputs or not op.inputs[0].type.dtype.is_half:
        return False
    if is_blocked_convolution(op):
        return op.attributes.get("algorithm") in (None, Direct())
    return op.name in PRODUCTS


def has_groups_in_blocks(op: Op) -> bool:
    """Whether a convolution has groups of few channels, whose kernel multiplies float32."""
    return isinstance(op.attributes.get("algorithm"), Depthwise | Grouped)


def float_reason(op: Op, kernels: HalfKernels, block: int, known: KnownValues) -> str | None:
    """Why a matrix product or a convolution on blocked tensors multiplies float32.

    None if a kernel multiplies halves.
    """
    if op.name in PRODUCTS:
        return _product_reason(op, kernels.step, known)
    algorithm = op.attributes.get("algorithm")
    if isinstance(algorithm, Winograd):
        return f"{algorithm} is faster"
    if not kernels.convolve:
        return "convolutions have no kernel for this processor"
    return convolution_reason(op, block, kernels.block)


def _product_reason(op: Op, step: int, known: KnownValues) -> str | None:
    a, b = op.inputs[:2]
    if not a.type.dtype is b.type.dtype is op.output.type.dtype is DType.FLOAT32:
        return f"items are {a.type.dtype} and {b.type.dtype}"
    if b not in known:
        return "both matrices are computed"
    if math.prod(b.type.dims[:-2]) != 1:
        return "the second matrix varies along the batch"
    if not op.output.type.volume:
        return "there are no products"
    depth, columns = b.type.dims[-2:]
    if op.attributes["transposeB"]:
        depth, columns = columns, depth
    if depth % step or depth < LEAST_DEPTH:
        return f"sums have {depth} products, no multiple of {max(step, LEAST_DEPTH)}"
    return f"there are {columns} columns" if columns < LEAST_COLUMNS else None


def convolves_halves(op: Op, kernels: HalfKernels, block: int) -> bool:
    """Whether `op`, a convolution on blocked tensors, multiplies halves if it is direct."""
    if op.inputs[0].type.dtype.is_half:
        return True
    return kernels.convolve and convolution_reason(op, block, kernels.block) is None


def convolution_reason(op: Op, block: int, matrices: int = 0) -> str | None:
    """Why direct convolution on blocked tensors multiplies float32; None if it does not.

    `matrices`: `HalfKernels.block`.
    """
    x, filter_ = op.inputs[:2]
    types = (x.type.dtype, filter_.type.dtype, op.output.type.dtype)
    if set(types) != {DType.FLOAT32} or sums_whole_numbers(op):
        return "sums have to be exact"
    groups = convolution_groups(x.type.dims, op.attributes)
    inputs, outputs = x.type.dims[1] // groups, op.output.type.dims[1] // groups
    if matrices:
        window = window_of(op)
        if is_symbolic((*window.input, *window.output)):
            return "extents vary"
        if leaves_out_taps(window):
            return "many taps lie in the border"
        if inputs <= FEW_CHANNELS and not _has_short_rows(window, groups):
            return f"there are {inputs} input channels"
        block = matrices
    if groups > 1 and not inputs % block == outputs % block == 0:
        return f"groups have {inputs} and {outputs} channels, no blocks of {block}"
    return f"there are {inputs} input channels" if inputs < LEAST_CHANNELS else None


def _has_short_rows(window: Window, groups: int) -> bool:
    """Whether a row of a matrix register has room for few channels of all taps along a row."""
    dense = window.dilation[-1] == 1 and not window.reverse
    return groups == 1 and dense and window.size[-1] <= LONGEST_ROW


def attention_reason(op: Op, kernels: HalfKernels) -> str | None:
    """Why an attention multiplies float32; None if a kernel multiplies halves."""
    a = op.attributes
    rows, keys, depth, width = *a["scores"][-2:], a["depth"], a["width"]
    if not kernels.attend:
        return "attention has no kernel for this processor"
    if any(v.type.dtype is not DType.FLOAT32 for v in op.inputs[:3]):
        return "items are not float32"
    if kernels.block and is_symbolic(a["scores"]):
        return "extents vary"
    if len(a["keys"]) > 1:
        return "keys come in several parts"
    if a["diagonal"] < keys - 1:
        return "rows attend to some of the keys"
    if rows < LEAST_ROWS or keys > MOST_KEYS:
        return f"there are {hint(rows)} rows and {hint(keys)} keys"
    if depth % kernels.step or width % LEAST_ROWS:
        return f"heads have {depth} and {width} items"
    views = (a["q"], *a["k"], *a["v"], a["y"])
    return "items are not contiguous" if any(view[-1] != 1 for view in views) else None


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
