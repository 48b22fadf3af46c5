"""Blocks of items that move between space, depth and batch."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.operators.movement import padded, padding_pairs
from nnefc.frontends.tflite.registry import ANY, Integers, Node, operator


def _check(fits: bool, shape: tuple[int, ...], block: object) -> None:
    """Raise OperatorError for a shape that is not divided by blocks."""
    if not fits:
        message = f"a tensor of shape {list(shape)} has no blocks of {block}"
        raise OperatorError("tflite/shape", message)


@operator("SPACE_TO_DEPTH", options="SpaceToDepthOptions", types=ANY)
def space_to_depth(make: OpBuilder, input: Operand, *, block_size: int) -> Any:
    n, h, w, c = shape = of_rank("space_to_depth", "input", input, 4)
    b = block_size
    _check(b > 0 and not h % b and not w % b, shape, b)
    x = make.reshape(input, (n, h // b, b, w // b, b, c))
    return make.reshape(make.transpose(x, (0, 1, 3, 2, 4, 5)), (n, h // b, w // b, b * b * c))


@operator("DEPTH_TO_SPACE", options="DepthToSpaceOptions", types=ANY)
def depth_to_space(make: OpBuilder, input: Operand, *, block_size: int) -> Any:
    n, h, w, c = shape = of_rank("depth_to_space", "input", input, 4)
    b = block_size
    _check(b > 0 and not c % (b * b), shape, b)
    x = make.reshape(input, (n, h, w, b, b, c // (b * b)))
    return make.reshape(make.transpose(x, (0, 1, 3, 2, 4, 5)), (n, h * b, w * b, c // (b * b)))


@operator("SPACE_TO_BATCH_ND", types=ANY)
def space_to_batch(
    make: OpBuilder, input: Operand, block_shape: Integers, paddings: Operand, node: Node
) -> Any:
    """Blocks of the padded dimensions behind the first become samples; borders of codes are 0."""
    count, rank = len(block_shape), input.type.rank
    _check(0 < count < rank and min(block_shape) > 0, input.type.dims, list(block_shape))
    rest = rank - 1 - count
    pairs = ((0, 0), *padding_pairs(paddings, count), *((0, 0),) * rest)
    x = input
    if any(map(any, pairs)):
        codes = node.output.quantization
        zero = float(codes.zero_point[0]) if codes is not None and codes.zero_point else 0.0
        x = padded(make, input, padding=pairs, border="constant", value=zero)
    dims = x.type.dims
    pieces = [(n // b, b) for n, b in zip(dims[1:], block_shape, strict=False)]
    _check(all(n * b == d for (n, b), d in zip(pieces, dims[1:])), dims, list(block_shape))
    x = make.reshape(x, (dims[0], *(n for pair in pieces for n in pair), *dims[1 + count :]))
    inner, outer = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    order = (*inner, 0, *outer, *range(2 * count + 1, x.type.rank))
    samples = dims[0]
    for block in block_shape:
        samples *= block
    shape = (samples, *(n for n, _ in pieces), *dims[1 + count :])
    return make.reshape(make.transpose(x, order), shape)


@operator("BATCH_TO_SPACE_ND", types=ANY)
def batch_to_space(make: OpBuilder, input: Operand, block_shape: Integers, crops: Operand) -> Any:
    """Samples become blocks of the dimensions behind the first, which are then cropped."""
    count, dims = len(block_shape), input.type.dims
    _check(0 < count < len(dims) and min(block_shape) > 0, dims, list(block_shape))
    samples = dims[0]
    for block in block_shape:
        _check(not samples % block, dims, list(block_shape))
        samples //= block
    x = make.reshape(input, (*block_shape, samples, *dims[1:]))
    order = [count]
    for i in range(count):
        order += [count + 1 + i, i]
    x = make.transpose(x, (*order, *range(2 * count + 1, x.type.rank)))
    spatial = tuple(n * b for n, b in zip(dims[1:], block_shape, strict=False))
    y = make.reshape(x, (samples, *spatial, *dims[1 + count :]))
    for axis, (before, after) in enumerate(padding_pairs(crops, count), 1):
        extent = y.type.dims[axis]
        _check(before + after <= extent, y.type.dims, list(block_shape))
        y = slice_in_dim(make, y, axis, before, extent - after)
    return y
