"""Products with, and lookups in, weights that are quantized in blocks."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank_at_least
from nnefc.frontends.common.operators.axes import normalize_axis
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.values import Array, KnownTensor, Operand, OperatorError, operand
from nnefc.frontends.onnx.operators.neural.block_weights import (
    BlockWeights,
    block_weights,
    derived_variable,
    known_items,
    unpacked,
)
from nnefc.frontends.onnx.registry import MICROSOFT, operator
from nnefc.frontends.onnx.tensors import StorageTensor
from nnefc.ir import DType


@operator("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(
    make: OpBuilder,
    A: Operand,
    B: Operand,
    scales: Operand,
    zero_points: Operand | None = None,
    g_idx: Operand | None = None,
    bias: Operand | None = None,
    *,
    K: int,
    N: int,
    accuracy_level: int = 0,
    bits: int = 4,
    block_size: int,
    weight_prepacked: int = 0,
) -> Any:
    """A [.., K] times the transpose of weights [N, K] in blocks of `block_size` items, plus bias.

    Scales are rounded to 16 bits if `accuracy_level` permits less than float32, and stay float32
    otherwise.  g_idx [K]: the
    block whose scale and zero point each item has.  B without items is a matrix of zeros.
    """
    if weight_prepacked:
        message = f"weight_prepacked = {weight_prepacked}: weights in an order for other devices"
        raise OperatorError("onnx/unsupported", message)
    _check_sizes(bits, block_size, K, N)
    if of_rank_at_least("matmul", "A", A, 1)[-1] != K:
        raise OperatorError("argument/matmul", f"A has shape {list(A.type.dims)}, but K = {K}")
    wide = accumulation_type(A.type.dtype)
    x = make.cast(A, wide)
    x = make.reshape(x, (1, K)) if x.type.rank == 1 else x
    codes, sizes = known_items(make, B, "B"), known_items(make, scales, "scales")
    if 0 in codes.shape:
        zero = KnownTensor(np.zeros((1,) * x.type.rank, wide.numpy), wide)
        y = make.repeated(zero, (*x.type.dims[:-1], N))
        return _finished(make, y, bias, (*A.type.dims[:-1], N), A.type.dtype)
    zeros = None if zero_points is None else known_items(make, zero_points, "zero_points")
    blocks = -(-K // block_size)
    weights = block_weights("matmul", codes, sizes, zeros, (N, blocks, block_size), bits)
    sources = (codes, sizes) if zeros is None else (codes, sizes, zeros)
    columns = weights.codes.shape[1]
    indices = None if g_idx is None else known_items(make, g_idx, "g_idx")
    groups = None if indices is None else _groups(indices, K, block_size)
    if indices is not None and groups is not None:
        sources = (*sources, indices)
        reason = "g_idx names the block of each column"
        matrix = derived_variable(
            make, "float", sources, lambda: weights.items_of_groups(groups), reason=reason
        )
        y = _times_transpose(make, x, make.cast(matrix, wide))
    elif reason := weights.reason_of_reals:
        matrix = _reals(make, weights, sources, K, reason)
        y = _times_transpose(make, x, make.cast(matrix, wide))
    else:
        padding = tuple((0, columns - K if i == x.type.rank - 1 else 0) for i in range(x.type.rank))
        x = make("pad", x, padding=padding) if columns > K else x
        kind = weights.format(rounded=accuracy_level >= 2)
        y = _block_product(make, x, weights, kind, sources)
    return _finished(make, y, bias, (*A.type.dims[:-1], N), A.type.dtype)


def _check_sizes(bits: int, block_size: int, K: int, N: int) -> None:
    """Raise OperatorError for attributes that weights in blocks cannot have."""
    if bits not in (2, 4, 8):
        raise OperatorError("argument/matmul", f"bits = {bits}: weights have 2, 4 or 8 bits")
    if block_size < 16 or block_size & (block_size - 1):
        message = f"block_size = {block_size} is no power of two from 16"
        raise OperatorError("argument/matmul", message)
    for name, extent, what in (("K", K, "columns"), ("N", N, "rows")):
        if extent < 1:
            message = f"{name} = {extent}: the number of {what} of the weights is positive"
            raise OperatorError("argument/matmul", message)


def _finished(
    make: OpBuilder, y: Operand, bias: Operand | None, shape: tuple[int, ...], dtype: DType
) -> Operand:
    """A product plus bias, with the shape and type of the result."""
    if bias is not None:
        y = make("add", y, make.aligned_right(make.cast(bias, y.type.dtype), y.type.rank))
    return make.cast(make.reshape(y, shape), dtype)


def _groups(indices: Array, columns: int, block: int) -> Array | None:
    """The block of each column; None if blocks follow each other.  Raises OperatorError."""
    groups, blocks = indices.reshape(-1)[:columns], -(-columns // block)
    if len(groups) != columns or groups.min() < 0 or groups.max() >= blocks:
        message = f"g_idx has {indices.size} numbers"
        if groups.size:
            message += f" from {groups.min()} to {groups.max()}"
        hint = f"K = {columns} numbers of {blocks} blocks are expected"
        raise OperatorError("argument/matmul", message, hint)
    return None if np.array_equal(groups, np.arange(columns) // block) else groups


def _reals(
    make: OpBuilder, weights: BlockWeights, sources: tuple[Array, ...], columns: int, reason: str
) -> Operand:
    """The first columns of weights as float32; `reason`: why they are not in blocks."""

    def items() -> Array:
        return np.ascontiguousarray(weights.items()[:, :columns])

    return derived_variable(make, "float", sources, items, reason=reason)


def _block_product(
    make: OpBuilder, x: Operand, weights: BlockWeights, kind: str, sources: tuple[Array, ...]
) -> Operand:
    """x times the transpose of weights that stay in blocks of a format.

    Without zero points in the format, (c - z) s = (c - m) s + (m - z) s with the middle code m: the
    second term is constant in a block, and multiplies the sum of the block's inputs.
    """
    raw = derived_variable(make, kind, sources, lambda: weights.stored(kind))
    matrix = make("dequantize_blocks", raw, format=kind, shape=weights.codes.shape)
    y = _times_transpose(make, x, make.cast(matrix, x.type.dtype))
    shifts = weights.shifts(kind)
    if shifts is None:
        return y
    blocks = weights.scales.shape[1]
    parts = make.reshape(x, (*x.type.dims[:-1], blocks, weights.block))
    sums = make("sum_reduce", parts, axes=(parts.type.rank - 1,))
    sums = make.reshape(sums, (*x.type.dims[:-1], blocks))
    terms = derived_variable(make, "zeros", sources, lambda: shifts)
    return make("add", y, _times_transpose(make, sums, make.cast(terms, x.type.dtype)))


_FP4: Final = (0.0, 0.0625 / 12, 8 / 12, 1.0, 4 / 12, 6 / 12, 2 / 12, 3 / 12)
"""The numbers of the codes 0 to 7 of FP4; the codes 8 to 15 are their negatives."""
_NF4: Final = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
)  # fmt: skip
"""The numbers of the codes of NF4 (Dettmers et al., QLoRA, 2023)."""


@operator("MatMulBnb4", domain=MICROSOFT)
def matmul_bnb4(
    make: OpBuilder,
    A: Operand,
    B: Operand,
    absmax: Operand,
    *,
    K: int,
    N: int,
    block_size: int,
    quant_type: int,
    training_mode: int = 0,
    transB: bool = True,
) -> Any:
    """A times weights [N, K] in 4 bits, or times their transpose: A [.., K] if `transB`.

    B: two codes per byte, the upper bits first; absmax: the factor of each `block_size` codes.
    `quant_type`: 0 for FP4, 1 for NF4.  The weights become float32.  Raises OperatorError.
    """
    del training_mode
    if quant_type not in (0, 1) or block_size < 1 or K < 1 or N < 1:
        message = f"quant_type = {quant_type}, block_size = {block_size}, K = {K}, N = {N}"
        raise OperatorError("argument/matmul", message)
    codes, factors = known_items(make, B, "B"), known_items(make, absmax, "absmax")
    blocks = -(-N * K // block_size)
    if codes.dtype != np.uint8 or codes.size != -(-N * K // 2) or factors.size != blocks:
        message = f"B has {codes.size} items of {codes.dtype}, absmax {factors.size}"
        hint = f"{-(-N * K // 2)} bytes and {blocks} factors are expected"
        raise OperatorError("argument/matmul", message, hint)

    def items() -> Array:
        numbers = np.array(_NF4 if quant_type else (*_FP4, *(-x for x in _FP4)), np.float32)
        flat = codes.reshape(-1)
        both = np.stack([flat >> 4, flat & 15], 1).reshape(-1)[: N * K]
        sizes = np.repeat(factors.reshape(-1).astype(np.float32), block_size)[: N * K]
        return (numbers[both] * sizes).reshape(N, K)

    inner = K if transB else N
    if of_rank_at_least("matmul", "A", A, 1)[-1] != inner:
        raise OperatorError(
            "argument/matmul", f"A has shape {list(A.type.dims)}, not {inner} columns"
        )
    wide = accumulation_type(A.type.dtype)
    matrix = make.cast(derived_variable(make, "float", (codes, factors), items), wide)
    x = make.cast(A, wide)
    x = make.reshape(x, (1, inner)) if x.type.rank == 1 else x
    y = make("matmul", x, make.aligned_right(matrix, x.type.rank), transposeB=transB)
    return _finished(make, y, None, (*A.type.dims[:-1], N if transB else K), A.type.dtype)


def _times_transpose(make: OpBuilder, x: Operand, matrix: Operand) -> Operand:
    return make("matmul", x, make.aligned_right(matrix, x.type.rank), transposeB=True)


@operator("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(
    make: OpBuilder,
    data: Any,
    indices: Operand,
    scales: Operand,
    zero_points: Any = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Any:
    """Slices of weights that are quantized in blocks along `quantize_axis`, as real numbers.

    Bytes along the last dimension are gathered and dequantized at run time; other layouts are
    dequantized when the model is read.
    """
    codes, middle = _stored_codes(make, data, bits)
    zeros = None if zero_points is None else _stored_codes(make, zero_points, bits)[0]
    sizes = known_items(make, scales, "scales")
    rank = codes.ndim
    axis, along = normalize_axis(gather_axis, rank), normalize_axis(quantize_axis, rank)
    if block_size < 16:
        raise OperatorError("argument/gather", f"block_size = {block_size}")
    places = make.cast(indices, DType.INT64)
    if axis == 0 and along == rank - 1 and codes.shape[along] % block_size == 0:
        stored = _table_in_blocks(codes, zeros, sizes, middle)
        if stored is not None:
            given = (data, scales) if zero_points is None else (data, scales, zero_points)
            sources = tuple(_identity(make, each) for each in given)
            rows = _gathered_blocks(make, stored, sources, places, codes.shape[1:])
            return make.cast(rows, scales.type.dtype)
        bounds = (middle, block_size)
        return _gathered_bytes(make, data, codes, zeros, scales, places, *bounds)

    def items() -> Array:
        counts: Array = np.arange(int(codes.shape[along])) // block_size
        points = middle if zeros is None else np.take(zeros, counts, along).astype(np.float32)
        factors = np.take(sizes.astype(np.float32), counts, along)
        return ((codes.astype(np.float32) - points) * factors).astype(sizes.dtype)

    table = derived_variable(make, "float", (_identity(make, data), sizes), items)
    return make("gather", table, places, axis=axis)


def _table_in_blocks(
    codes: Array, zeros: Array | None, scales: Array, middle: float
) -> BlockWeights | None:
    """A table whose rows are whole blocks, [rows, items of a row]; None for other ones."""
    rows = len(codes)
    if not codes.size:
        return None
    flat, sizes = codes.reshape(rows, -1), scales.astype(np.float32).reshape(rows, -1)
    points = np.full_like(sizes, middle)
    if zeros is not None:
        points = zeros[..., : scales.shape[-1]].astype(np.float32).reshape(rows, -1)
    bits = 4 if codes.max() < 16 and points.max() < 16 else 8
    table = BlockWeights(flat, sizes, points, bits)
    return None if table.reason_of_reals else table


def _gathered_blocks(
    make: OpBuilder,
    table: BlockWeights,
    sources: tuple[Array, ...],
    places: Operand,
    row: tuple[int, ...],
) -> Operand:
    """Rows of a table that stays in blocks, in the shape of a row."""
    kind, shape = table.format(alone=True), table.codes.shape
    raw = derived_variable(make, f"{kind}_table", sources, lambda: table.stored(kind))
    matrix = make("dequantize_blocks", raw, format=kind, shape=shape)
    rows = make("gather", matrix, places, axis=0)
    return make.reshape(rows, (*places.type.dims, *row))


def _stored_codes(make: OpBuilder, x: Any, bits: int) -> tuple[Array, float]:
    """The codes of weights, unsigned, and their default zero point; raises OperatorError."""
    if isinstance(x, StorageTensor):
        items = x.array.astype(np.int16)
        is_signed = x.array.dtype.name.startswith("int")
        return (items + 8 if is_signed else items).astype(np.uint8), 8.0 if is_signed else 0.0
    array = known_items(make, operand(x), "data")
    if array.dtype != np.uint8 or bits not in (2, 4, 8):
        message = f"data of {array.dtype.name} in {bits} bits is not supported"
        raise OperatorError("onnx/unsupported", message)
    return unpacked(array, bits), float(1 << (bits - 1))


def _identity(make: OpBuilder, x: Any) -> Array:
    """The array of a constant, which is the same in all graphs of a model."""
    return x.array if isinstance(x, StorageTensor) else known_items(make, operand(x), "data")


def _gathered_bytes(
    make: OpBuilder,
    data: Any,
    codes: Array,
    zeros: Array | None,
    scales: Operand,
    places: Operand,
    middle: float,
    block: int,
) -> Operand:
    """Rows of codes, two in a byte if they have 4 bits, dequantized at run time."""
    wide = accumulation_type(scales.type.dtype)
    fits = int(codes.max(initial=0)) < 16

    def stored() -> Array:
        both = codes[..., ::2] | (codes[..., 1::2] << 4) if fits else codes
        return np.ascontiguousarray(both)

    table = derived_variable(make, "bytes", (_identity(make, data),), stored)
    rows: Operand = make("gather", table, places, axis=0)
    if fits:
        pairs = [make("bitand", rows, 15), make("shift_right", rows, 4)]
        shape = (*rows.type.dims, 1)
        columns = [make.reshape(each, shape) for each in pairs]
        rows = make("concat", columns, axis=len(shape) - 1)
    factors = make.cast(make("gather", scales, places, axis=0), wide)
    outer = factors.type.dims
    numbers = make.reshape(make.cast(rows, wide), (*outer, block))
    factors = make.reshape(factors, (*outer, 1))
    if zeros is None:
        numbers = make("sub", numbers, middle)
    else:
        points = KnownTensor(zeros[..., : outer[-1]].astype(np.uint8), DType.UINT8)
        own = make.cast(make("gather", points, places, axis=0), wide)
        numbers = make("sub", numbers, make.reshape(own, (*outer, 1)))
    y = make.reshape(make("mul", numbers, factors), (*outer[:-1], outer[-1] * block))
    return make.cast(y, scales.type.dtype)
