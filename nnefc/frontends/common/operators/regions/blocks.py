"""Images of blocks: blocks of an image as columns, and the sum of blocks at their places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.ir import DType

Pairs = Sequence[tuple[int, int]]


def block_counts(
    image: Sequence[int],
    block: Sequence[int],
    stride: Sequence[int],
    padding: Pairs,
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """The number of blocks along each axis of an image."""
    rows = zip(image, block, stride, padding, dilation, strict=True)
    return tuple((n + sum(pair) - d * (k - 1) - 1) // s + 1 for n, k, s, pair, d in rows)


def blocks_of_images(
    make: OpBuilder,
    x: Operand,
    block: Sequence[int],
    stride: Sequence[int],
    padding: Pairs,
    dilation: Sequence[int],
) -> Operand:
    """The blocks [batch, channels * items of a block, blocks] of images [batch, channels, ..]."""
    batch, channels, *image = x.type.dims
    counts = block_counts(image, block, stride, padding, dilation)
    if any(map(any, padding)):
        x = make("pad", x, padding=((0, 0), (0, 0), *padding), border="constant", value=0)
    taps: list[Operand] = []
    for tap in product(*map(range, block)):
        items = x
        for axis, (i, n, s, d) in enumerate(zip(tap, counts, stride, dilation, strict=True), 2):
            items = slice_in_dim(make, items, axis, i * d, i * d + (n - 1) * s + 1, s)
        taps.append(make.reshape(items, (batch, channels, 1, math.prod(counts))))
    columns = taps[0] if len(taps) == 1 else make("concat", taps, axis=2)
    return make.reshape(columns, (batch, channels * len(taps), math.prod(counts)))


def sum_of_blocks(
    make: OpBuilder,
    columns: Operand,
    image: Sequence[int],
    block: Sequence[int],
    stride: Sequence[int],
    padding: Pairs,
    dilation: Sequence[int],
) -> Operand:
    """The sum of the blocks [batch, channels * items of a block, blocks] at their places in images.

    It is the transposed convolution whose filter moves each item of a block to its place.
    """
    batch, items, blocks = of_rank("col2im", "input", columns, 3)
    rank, size = len(image), math.prod(block)
    lengths = {len(each) for each in (block, dilation, stride, padding)}
    if lengths != {rank} or size < 1 or items % size:
        message = f"blocks {list(block)} of an image {list(image)} for {items} rows"
        raise OperatorError("argument/col2im", message)
    counts = block_counts(image, block, stride, padding, dilation)
    if math.prod(counts) != blocks:
        message = f"{blocks} blocks for {list(counts)} positions in an image {list(image)}"
        raise OperatorError("argument/col2im", message)
    channels = items // size
    places = np.eye(size).reshape(size, 1, *block)
    moves = KnownTensor(np.tile(places, (channels,) + (1,) * (rank + 1)), DType.FLOAT64)
    return make(
        "deconv",
        make.reshape(columns, (batch, items, *counts)),
        make.cast(moves, columns.type.dtype),
        padding=tuple(padding),
        stride=tuple(stride),
        dilation=tuple(dilation),
        output_shape=(batch, channels, *image),
        groups=channels,
    )
