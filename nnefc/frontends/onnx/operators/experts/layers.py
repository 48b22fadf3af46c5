"""The matrices of experts, as reals or in blocks of 4 or 8 bits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_shape
from nnefc.frontends.common.values import Array, Operand, OperatorError
from nnefc.frontends.onnx.operators.neural.block_weights import (
    BlockWeights,
    block_weights,
    derived_variable,
    known_items,
    unpacked,
)


@dataclass(frozen=True, slots=True)
class Layer:
    """Matrices [e, rows, columns] with biases.

    matrices: reals [e, rows, columns], or the bytes [e, bytes] of a `format`.  shifts: what zero
    points add to each block [e, rows, blocks].  bias [e, 1, rows].
    """

    matrices: Operand
    rows: int
    columns: int
    bias: Operand | None = None
    format: str = ""
    shifts: Operand | None = None

    def product(self, make: OpBuilder, x: Operand) -> Operand:
        """The results [e, n, rows] for x [1 or e, n, columns]."""
        shape = (self.matrices.type.dims[0], self.rows, self.columns)
        matrices = self.matrices
        if self.format:
            matrices = make("dequantize_blocks", matrices, format=self.format, shape=shape)
        y = make("matmul", x, make.cast(matrices, x.type.dtype), transposeB=True)
        if self.shifts is not None:
            blocks = self.shifts.type.dims[2]
            parts = make.reshape(x, (*x.type.dims[:2], blocks, self.columns // blocks))
            sums = make.reshape(make("sum_reduce", parts, axes=(3,)), (*x.type.dims[:2], blocks))
            shifts = make.cast(self.shifts, x.type.dtype)
            y = make("add", y, make("matmul", sums, shifts, transposeB=True))
        return y if self.bias is None else make("add", y, make.cast(self.bias, x.type.dtype))

    def gathered(self, make: OpBuilder, numbers: Operand) -> Layer:
        """The matrices and biases with the indices `numbers` [n]."""
        matrices, bias, shifts = (
            None if x is None else make("gather", x, numbers, axis=0)
            for x in (self.matrices, self.bias, self.shifts)
        )
        assert matrices is not None
        return replace(self, matrices=matrices, bias=bias, shifts=shifts)


@dataclass(frozen=True, slots=True)
class QuantizedWeights:
    """Codes [e, rows, bytes of a row] with scales [e, rows] or [e, rows, blocks].

    `rounded`: whether scales may be rounded to 16 bits.
    """

    codes: Operand
    scales: Operand
    zeros: Operand | None
    bits: int
    block: int
    """Items of a block; 0 for one block per row."""
    rounded: bool


def real_layer(
    make: OpBuilder, name: str, weights: Operand, bias: Operand | None, shape: tuple[int, int, int]
) -> Layer:
    """A layer of weights of a shape [e, rows, columns]; raises OperatorError."""
    of_shape("moe", f"{name}_experts_weights", weights, shape)
    return Layer(weights, *shape[1:], _bias(make, name, bias, shape))


def quantized_layer(
    make: OpBuilder,
    name: str,
    given: QuantizedWeights,
    bias: Operand | None,
    shape: tuple[int, int, int],
) -> Layer:
    """A layer of quantized weights of a shape [e, rows, columns]; raises OperatorError.

    They stay in blocks whose size a format allows, otherwise they become float32.
    """
    experts, rows, columns = shape
    block = given.block or columns
    if columns % block or columns * given.bits % 8:
        message = f"{name}: {columns} columns are not whole blocks of {block} items in bytes"
        raise OperatorError("argument/moe", message)
    blocks = columns // block
    of_shape("moe", f"{name}_experts_weights", given.codes, (*shape[:2], columns * given.bits // 8))
    per_row = (*shape[:2], blocks) if given.block else shape[:2]
    of_shape("moe", f"{name}_scales", given.scales, per_row)
    sources = [known_items(make, given.codes, f"{name}_experts_weights")]
    sources.append(known_items(make, given.scales, f"{name}_scales"))
    zeros = None
    if given.zeros is not None:
        zeros = known_items(make, given.zeros, f"{name}_zero_points")
        sources.append(zeros)
        zeros = zeros if given.block else _zeros_of_rows(zeros, experts, rows, given.bits)
    many = (experts * rows, blocks, block)
    weights = block_weights("moe", sources[0], sources[1], zeros, many, given.bits)
    layer = _stored(make, weights, tuple(sources), shape, rounded=given.rounded)
    return replace(layer, bias=_bias(make, name, bias, shape))


def _stored(
    make: OpBuilder,
    weights: BlockWeights,
    sources: tuple[Array, ...],
    shape: tuple[int, int, int],
    *,
    rounded: bool,
) -> Layer:
    """A layer without biases of weights [e rows, columns], which are computed from `sources`."""
    experts, rows, columns = shape
    if weights.reason_of_reals:
        items = derived_variable(make, "experts", sources, lambda: weights.items().reshape(shape))
        return Layer(items, rows, columns)
    kind = weights.format(rounded=rounded)
    raw = derived_variable(
        make, f"experts.{kind}", sources, lambda: weights.stored(kind).reshape(experts, -1)
    )
    shifts = weights.shifts(kind)
    if shifts is None:
        return Layer(raw, rows, columns, format=kind)
    terms = derived_variable(
        make, "experts.zeros", sources, lambda: shifts.reshape(experts, rows, -1)
    )
    return Layer(raw, rows, columns, format=kind, shifts=terms)


def _zeros_of_rows(zeros: Array, experts: int, rows: int, bits: int) -> Array:
    """Zero points [e, rows] packed along the rows, as numbers; raises OperatorError."""
    packed = -(-rows * bits // 8)
    if zeros.shape != (experts, packed) or zeros.dtype != np.uint8:
        message = f"zero points [{experts}, {packed}] in bytes are expected, not "
        message += f"{list(zeros.shape)} of {zeros.dtype.name}"
        raise OperatorError("argument/moe", message)
    return unpacked(zeros, bits)[:, :rows].astype(np.float32)


def _bias(
    make: OpBuilder, name: str, bias: Operand | None, shape: tuple[int, int, int]
) -> Operand | None:
    """Biases [e, rows] as [e, 1, rows]; raises OperatorError."""
    if bias is None:
        return None
    of_shape("moe", f"{name}_experts_bias", bias, shape[:2])
    return make.reshape(bias, (shape[0], 1, shape[1]))
