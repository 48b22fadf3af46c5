"""Epilogues of convolutions, applied in registers or to result tiles in the cache."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType, Expression, Op, Value
from nnefc.kernels.executor import chain
from nnefc.kernels.executor.chain import chain_words
from nnefc.kernels.family import Kernel
from nnefc.kernels.parameters import Words
from nnefc.kernels.tile import pixel_runs
from nnefc.kernels.tile.blocked_tile import BOUNDED, RESIDUAL
from nnefc.kernels.tile.real_form import RealForm
from nnefc.kernels.vector import expression_argument
from nnefc.lower.blocked.elementwise import channel_items
from nnefc.lower.blocked.tensors import Tensor, read_blocked
from nnefc.lower.channel_padding import (
    channel_mask,
    has_independent_lanes,
    maps_zeros_to_zeros,
    masked,
    writes_zero_padding,
)
from nnefc.lower.context import Lowering
from nnefc.lower.elementwise.canonical_operands import canonical_operands
from nnefc.lower.elementwise.expression import fold_literals
from nnefc.lower.elementwise.kernel_expression import kernel_expression
from nnefc.lower.product.pack import Array
from nnefc.ops.internal.simple_epilogue import SimpleEpilogue, simple_epilogue
from nnefc.program.program import Ref

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RegisterEpilogue:
    """An epilogue that tiles apply in registers: add a residual, clamp the result."""

    residual: Tensor | None
    low: float
    high: float
    """Bounds, exact in the type of the accumulator."""
    accumulator: DType

    @property
    def clamp(self) -> int:
        """Both bounds in the type of the accumulator, packed into one word."""
        bounds = np.array([self.low, self.high], self.accumulator.numpy)
        return int.from_bytes(bounds.tobytes(), "little", signed=True)

    @property
    def mode(self) -> int:
        """The mode of the tile, see `nnefc.kernels.tile.blocked_tile`."""
        return RESIDUAL * (self.residual is not None) + BOUNDED * (self.high < math.inf)


def simple_epilogue_of(op: Op) -> SimpleEpilogue | None:
    """The epilogue of a fused convolution if tiles can apply it in registers, else None."""
    epilogue = simple_epilogue(op.attributes["expression"])
    if epilogue is None or epilogue.residual is None:
        return epilogue
    return epilogue if op.inputs[2 + epilogue.residual].type.dims == op.output.type.dims else None


def read_register_epilogue(lower: Lowering, op: Op) -> RegisterEpilogue:
    """The register epilogue of a fused convolution; the identity if tiles cannot apply it."""
    expression, simple = op.attributes["expression"], simple_epilogue_of(op)
    epilogue = simple or SimpleEpilogue()
    operand = epilogue.residual
    if simple is None and op.output.type.dtype.is_half and len(expression.inputs) > 1:
        operand = 1  # of a function, see `read_form`
    residual = None if operand is None else read_blocked(lower, op.inputs[2 + operand])
    accumulator = expression.inputs[0]
    with np.errstate(over="ignore"):  # a bound beyond the type is infinite
        low, high = np.array([epilogue.low, epilogue.high], accumulator.numpy).tolist()
    return RegisterEpilogue(residual, low, high, accumulator)


def read_form(op: Op, epilogue: RegisterEpilogue) -> RealForm:
    """What kernels add to the sums of a fused convolution and store, without tile epilogue."""
    result, residual = op.output.type.dtype, epilogue.residual
    expression = None
    if result.is_half and simple_epilogue_of(op) is None:
        expression = kernel_expression(op.attributes["expression"])
    return RealForm(
        "" if result is epilogue.accumulator else str(result),
        "" if residual is None else str(residual.dtype),
        expression,
    )


@dataclass(frozen=True, slots=True)
class OutputUnit:
    """Outputs of a unit of a kernel: pixels, by number, of some channel blocks."""

    batch: int
    blocks: range
    pixels: range


@dataclass(frozen=True, slots=True)
class _Operand:
    """An input of the expression: an item per pixel and channel, or one per channel."""

    at: Ref
    batch_bytes: int
    block_bytes: int
    tensor: Tensor | None
    """None if all pixels share the items."""


@dataclass(frozen=True, slots=True)
class TileEpilogue:
    """An expression that is applied to the results of a kernel after each tile."""

    expression: expression_argument.Expression
    operands: tuple[_Operand, ...]
    """The first is the result itself."""
    blocks: range
    """Channel blocks of the result to apply the expression to."""

    def launch(
        self,
        lower: Lowering,
        kernel: Kernel,
        words: Words,
        tiles: Sequence[Sequence[OutputUnit]],
        outputs: Sequence[Sequence[int]],
        order: Offsets | None = None,
    ) -> None:
        """Launch a kernel whose tiles compute these units, and the expression after each tile.

        `outputs`: positions along each spatial dimension.  Units number the pixels of their grid
        row by row, or in another order: [pixels], their numbers row by row.
        """
        taken = slice(None) if order is None else order
        tables = [
            None
            if (x := operand.tensor) is None
            else x.plane.offsets(*outputs)[taken].astype(np.int64)
            for operand in self.operands
        ]
        breaks = _breaks([table for table in tables if table is not None], self._pixel_bytes)
        starts = [0]
        records: list[Offsets] = []
        for units in tiles:
            tile = [r for unit in units for r in self._runs(unit, tables, breaks)]
            records += tile
            starts.append(starts[-1] + sum(map(len, tile)))
        if not records:
            lower.launch(kernel, words, len(tiles))
            return
        names = {f"x{i}": operand.at for i, operand in enumerate(self.operands)}
        following = pixel_runs.layout(len(self.operands)).pack(
            **names,
            starts=lower.table(np.array(starts, np.int64)),
            runs=lower.table(np.concatenate(records).astype(np.int64)),
        )
        per_pixel = tuple(operand.tensor is not None for operand in self.operands)
        after = pixel_runs.expression(self.expression, per_pixel)
        links = [(kernel, words), (after, following)]
        lower.launch(chain.tiles(), chain_words(links), len(tiles))

    @property
    def _pixel_bytes(self) -> int:
        tensor = self.operands[0].tensor
        assert tensor is not None
        return tensor.pixel_bytes

    def _runs(
        self, unit: OutputUnit, tables: Sequence[Offsets | None], breaks: Offsets
    ) -> Iterator[Offsets]:
        """[runs, 1 + operands]: pixels and offsets, for each channel block to be processed."""
        first, end = unit.pixels.start, unit.pixels.stop
        low, high = np.searchsorted(breaks, first, "right"), np.searchsorted(breaks, end, "left")
        inside = breaks[low:high]
        starts = np.concatenate(([first], inside))
        lengths = np.diff(np.concatenate((starts, [end])))
        for block in filter(self.blocks.__contains__, unit.blocks):
            columns = [lengths]
            for operand, table in zip(self.operands, tables, strict=True):
                base = unit.batch * operand.batch_bytes + block * operand.block_bytes
                columns.append(
                    np.full_like(starts, base) if table is None else base + table[starts]
                )
            yield np.stack(columns, 1)


def read_tile_epilogue(lower: Lowering, op: Op, y: Tensor) -> TileEpilogue | None:
    """The tile epilogue of a fused convolution with result y; None if registers suffice."""
    if y.dtype.is_half:  # `lower_precision` excludes others
        return None
    expression, values = fold_literals(
        lower, op.attributes["expression"], (op.output, *op.inputs[3:])
    )
    assert values[0] is op.output
    simple = simple_epilogue_of(op) is not None
    # Tiles write zeros after the register epilogue, so its residual needs no zero padding.
    alone = simple or all(value.type.layout is None for value in values[1:])
    from_zeros = has_independent_lanes(op) or (writes_zero_padding(op) and alone)
    fill = lower.needs_zero_padding(op.output)
    fill = fill and not (from_zeros and maps_zeros_to_zeros(expression))
    operands = [_Operand(y.at, y.batch_bytes, y.plane_bytes, y)]
    blocks = range(y.blocks)
    if simple:
        if not fill:
            return None
        expression, blocks = Expression((y.dtype,), (), (0,)), blocks[-1:]
    else:
        operands += [_operand(lower, value, y) for value in values[1:]]
    if fill:
        expression = masked(expression)
        operands.append(_per_channel(channel_mask(lower, op.output.type), y))

    def number(x: Array) -> _Operand:
        return _Operand(lower.table(np.full(y.layout.block, x, x.dtype)), 0, 0, None)

    expression, others = canonical_operands(
        expression, operands[1:], number, fixed=1, kind=lambda x: x.tensor is None
    )
    operands[1:] = others
    return TileEpilogue(kernel_expression(expression), tuple(operands), blocks)


def _operand(lower: Lowering, value: Value, y: Tensor) -> _Operand:
    if value.type.layout is None:
        return _per_channel(channel_items(lower, value, y.layout.block), y)
    tensor = read_blocked(lower, value)
    if tensor.spatial != y.spatial and math.prod(tensor.spatial) == 1:
        at = Ref(tensor.at.buffer, tensor.at.offset + tensor.origin)
        return _Operand(at, tensor.batch_bytes, tensor.plane_bytes, None)
    return _Operand(tensor.at, tensor.batch_bytes, tensor.plane_bytes, tensor)


def _per_channel(at: Ref, y: Tensor) -> _Operand:
    return _Operand(at, 0, y.pixel_bytes, None)


def _breaks(tables: Sequence[Offsets], pixel_bytes: int) -> Offsets:
    """Numbers of pixels that are not adjacent to the previous one in memory, in some tensor."""
    gaps = np.any([np.diff(table) != pixel_bytes for table in tables], axis=0)
    return np.flatnonzero(gaps).astype(np.int64) + 1
