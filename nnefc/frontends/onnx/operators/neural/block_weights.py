"""Weights in blocks of 2, 4 or 8 bits with scales, as onnxruntime stores them.

They are stored in 4 or 8 bits, in the formats of `nnefc.support.block_formats`: with scales of 16
bits if that changes nothing, or if the operator permits it.  Zero points are no part of formats
with such scales, and may be other numbers than codes.  Then they become the product of sums of the
input with a matrix that has an item per block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.graph_variables import variable_value
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Array, KnownTensor, Operand, OperatorError
from nnefc.ir import DType, Value
from nnefc.support.block_formats import BLOCK_FORMATS, BLOCK_ITEMS

SMALLEST_SCALE: Final = 2.0**-14
"""The smallest normal number of float16."""


@dataclass(frozen=True, slots=True)
class BlockWeights:
    """A matrix [rows, columns]: (codes - zeros) scales.

    codes uint8 [rows, columns], scales and zeros float32 [rows, blocks of a row].
    """

    codes: Array
    scales: Array
    zeros: Array
    bits: int

    @property
    def block(self) -> int:
        """Items of a block."""
        return self.codes.shape[1] // self.scales.shape[1]

    @property
    def middle(self) -> int:
        """The zero point of symmetric codes."""
        return 1 << (self.bits - 1)

    def shifts(self, format: str) -> Array | None:
        """What zero points add to each block's items, float32 [rows, blocks]; None if nothing.

        `format`: how the matrix is stored; a format with zero points needs no shifts.
        """
        if BLOCK_FORMATS[format].has_zero or not self.has_shifts:
            return None
        with np.errstate(all="ignore"):  # as onnxruntime, any zero point is computed with
            return ((self.middle - self.zeros) * self.scales).astype(np.float32)

    @property
    def reason_of_reals(self) -> str:
        """Why no blocks hold the matrix; empty if a format does."""
        if self.block % BLOCK_ITEMS:
            return f"{self.block} weights in a block are no multiple of {BLOCK_ITEMS}"
        return "" if np.isfinite(self.scales).all() else "scales are not finite"

    def format(self, *, rounded: bool = False, alone: bool = False) -> str:
        """The format that holds the matrix.

        Args:
            rounded: Scales may be rounded to 16 bits.
            alone: Zero points must be part of the blocks; they are whole numbers.  Otherwise they
                may be `shifts`.
        """
        name = "q8" if self.bits == 8 else "q4"
        if self._has_short_scales(rounded=rounded) and not (alone and self.has_shifts):
            return {"q8": "q8_1", "q4": "q4_0"}[name]
        in_blocks = self.has_shifts and (alone or self._has_whole_zeros())
        return f"{name}_f32_zero" if in_blocks else f"{name}_f32"

    @property
    def has_shifts(self) -> bool:
        """Whether a block has another zero point than the middle code."""
        return bool(((self.zeros != self.middle) & (self.scales != 0)).any())

    def _has_short_scales(self, *, rounded: bool) -> bool:
        """Whether scales have 16 bits, or may have them."""
        with np.errstate(over="ignore"):
            if np.array_equal(self.scales.astype(np.float16).astype(np.float32), self.scales):
                return True
        sizes = np.abs(self.scales)
        return rounded and bool(
            ((sizes == 0) | ((sizes >= SMALLEST_SCALE) & (sizes < 65000))).all()
        )

    def _has_whole_zeros(self) -> bool:
        """Whether zero points are codes."""
        zeros = self.zeros
        return bool(((zeros >= 0) & (zeros < 1 << self.bits) & (zeros == np.rint(zeros))).all())

    def stored(self, format: str) -> Array:
        """The bytes in a format, [rows, bytes of a row]."""
        kind, rows = BLOCK_FORMATS[format], self.codes.shape[0]
        repeats = self.block // BLOCK_ITEMS
        scales = np.repeat(self.scales.astype(f"<f{kind.scale_bytes}"), repeats, axis=1)
        parts = [np.ascontiguousarray(scales[..., None]).view(np.uint8)]
        # codes of 8 bits are signed, those of fewer bits begin at 0
        lowest = self.middle if self.bits == 8 else self.middle - 8
        if kind.has_zero:
            zeros = (self.zeros.astype(np.int16) - lowest).astype(np.uint8)
            parts.append(np.repeat(zeros, repeats, axis=1)[..., None])
        if kind.unused_bytes:
            parts.append(np.zeros((*scales.shape, kind.unused_bytes), np.uint8))
        codes = (self.codes.astype(np.int16) - lowest).astype(np.uint8)
        codes = codes.reshape(rows, -1, BLOCK_ITEMS)
        if kind.bits != 8:
            half = BLOCK_ITEMS // 2
            codes = codes[..., :half] | (codes[..., half:] << 4)
        return np.concatenate([*parts, codes], 2).reshape(rows, -1)

    def items(self) -> Array:
        """The matrix as float32."""
        blocks = self.codes.reshape(*self.scales.shape, self.block).astype(np.float32)
        with np.errstate(all="ignore"):
            wide = (blocks - self.zeros[..., None]) * self.scales[..., None]
        return wide.reshape(self.codes.shape)

    def items_of_groups(self, groups: Array) -> Array:
        """The first columns as float32, with the scale and zero point of block `groups[column]`."""
        codes = self.codes[:, : len(groups)].astype(np.float32)
        with np.errstate(all="ignore"):
            return (codes - self.zeros[:, groups]) * self.scales[:, groups]


def block_weights(
    what: str,
    codes: Array,
    scales: Array,
    zeros: Array | None,
    shape: tuple[int, int, int],
    bits: int,
) -> BlockWeights:
    """The weights of onnxruntime's layout; raises OperatorError `argument/WHAT`.

    `shape`: rows, blocks of a row, items of a block.  `zeros`: codes in bytes, or numbers.
    """
    rows, blocks, block = shape

    def fitted(name: str, array: Array, row: tuple[int, ...]) -> Array:
        if array.size == rows * math.prod(row):
            return array.reshape(rows, *row)
        message = f"{name} have shape {list(array.shape)}, not {[rows, *row]}"
        hint = f"{rows} rows of {blocks} blocks of {block} items in {bits} bits"
        raise OperatorError(f"argument/{what}", message, hint)

    items = unpacked(fitted("weights", codes, (blocks, block * bits // 8)), bits)
    sizes = fitted("scales", scales, (blocks,)).astype(np.float32)
    if zeros is None:
        points = np.full((rows, blocks), 1 << (bits - 1), np.float32)
    elif zeros.dtype == np.uint8:
        packed = fitted("zero points", zeros, (-(-blocks * bits // 8),))
        points = unpacked(packed, bits)[:, :blocks].astype(np.float32)
    else:
        points = fitted("zero points", zeros, (blocks,)).astype(np.float32)
    return BlockWeights(items.reshape(rows, blocks * block), sizes, points, bits)


def known_items(make: OpBuilder, x: Operand, name: str) -> Array:
    """The items of a constant input; raises OperatorError."""
    if isinstance(x, KnownTensor):
        return x.array
    if x.op is not None and x.op.name == "variable":
        label: str = x.op.attributes["label"]
        data = make.evaluator.root.variables[label.lower()].data
        if data is not None:
            return data
    raise OperatorError("onnx/value", f"{name} must be a constant")


def unpacked(array: Array, bits: int) -> Array:
    """Codes of `bits` bits, low ones first, along the last dimension of an array of bytes."""
    array = array.view(np.uint8)
    if bits == 8:
        return array
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = (array[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return codes.reshape(*array.shape[:-1], -1)


def derived_variable(
    make: OpBuilder, kind: str, sources: tuple[Array, ...], compute: Any, *, reason: str = ""
) -> Value:
    """A variable with an array computed from constants, once for all graphs of a model.

    `reason`: why codes in blocks became these reals.
    """
    derived: dict[Any, Any] = make.evaluator.model.derived
    key = kind, tuple(map(id, sources))
    if key not in derived:
        label = f"derived.{len(derived)}.{kind}"
        derived[key] = label, compute(), sources  # sources stay alive: their identities are keys
    label, array, _ = derived[key]
    evaluator = make.evaluator
    dtype = DType(array.dtype.name)
    value = variable_value(make, evaluator.root, evaluator.names, label, array, dtype)
    if reason and value.op is not None:
        name: str = value.op.attributes["label"]
        make.graph.variables[name.lower()].reals_of_blocks = reason
    return value
