"""Reshape, squeeze, transpose, broadcast and repeat; blocks of depth and space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nnefc.frontends.common.counted_tensors import with_counts
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import check_shape, of_rank
from nnefc.frontends.common.operators.axes import distinct_axes, normalize_axis
from nnefc.frontends.common.operators.computed_extents import with_bounds
from nnefc.frontends.common.operators.counted_numbers import rooms
from nnefc.frontends.common.values import Operand, OperatorError, integers
from nnefc.frontends.onnx.registry import MICROSOFT, Integers, operator
from nnefc.symbolic.integers import statically_equal


@operator("Reshape", until=4)
def reshape_1(
    make: OpBuilder, data: Operand, *, shape: Integers = (), consumed_inputs: Any = None
) -> Any:
    return make.reshape(data, _target_shape(data.type.dims, shape))


@operator("Reshape", since=5, until=13)
def reshape_5(make: OpBuilder, data: Operand, shape: Operand) -> Any:
    return reshape(make, data, shape)


@operator("Reshape", since=14)
def reshape(make: OpBuilder, data: Operand, shape: Operand, *, allowzero: bool = False) -> Any:
    extents = integers(rooms(shape))
    return make.reshape(data, _target_shape(data.type.dims, extents, keeps_zeros=allowzero))


def _target_shape(
    dims: Sequence[int], shape: Sequence[int], *, keeps_zeros: bool = False
) -> tuple[int, ...]:
    """The shape of a reshaped tensor; raises OperatorError.

    An extent of -1 is the remaining one.  0 is the extent of the input, unless `keeps_zeros`.
    """
    full = list(shape)
    for i, extent in enumerate(full):
        if not keeps_zeros and i < len(dims) and extent == 0:
            full[i] = dims[i]
    unknown = [i for i, extent in enumerate(full) if extent < 0]
    if len(unknown) == 1 and full[unknown[0]] == -1:
        known = [extent for i, extent in enumerate(full) if i != unknown[0]]
        full[unknown[0]] = _remaining(dims, known)
    if any(extent < 0 for extent in full) or math.prod(full) != math.prod(dims):
        message = f"{list(dims)} cannot be reshaped to {list(shape)}"
        raise OperatorError("argument/reshape", message, "the number of items stays the same")
    return tuple(full)


def _remaining(dims: Sequence[int], extents: Sequence[int]) -> int:
    """The product of `dims` divided by that of `extents`; -1 if it is no whole number."""
    numerator = list(dims)
    denominator: list[int] = []
    for extent in extents:
        same = (i for i, each in enumerate(numerator) if statically_equal(each, extent))
        i = next(same, None)
        if i is None:
            denominator.append(extent)
        else:
            del numerator[i]
    whole, divisor = math.prod(numerator), math.prod(denominator)
    return whole // divisor if divisor and whole % divisor == 0 else -1


@operator("Flatten")
def flatten(make: OpBuilder, input: Operand, *, axis: int = 1) -> Any:
    dims = input.type.dims
    at = normalize_axis(axis, len(dims), extra=1) if axis >= 0 else axis + len(dims)
    if not 0 <= at <= len(dims):
        raise OperatorError("argument/flatten", f"axis = {axis} for a tensor of rank {len(dims)}")
    return make.reshape(input, (math.prod(dims[:at]), math.prod(dims[at:])))


@operator("Squeeze", until=12)
def squeeze_1(make: OpBuilder, data: Operand, *, axes: Integers | None = None) -> Any:
    return _squeezed(make, data, axes)


@operator("Squeeze", since=13)
def squeeze(make: OpBuilder, data: Operand, axes: Integers | None = None) -> Any:
    return _squeezed(make, data, axes)


def _squeezed(make: OpBuilder, x: Operand, axes: Integers | None) -> Operand:
    """Without the dimensions `axes`, by default all whose extent is 1."""
    dims = x.type.dims
    if axes is None:
        return make.reshape(x, [extent for extent in dims if extent != 1])
    where = distinct_axes("squeeze", axes, len(dims))
    for axis in where:
        if dims[axis] != 1:
            raise OperatorError("argument/squeeze", f"axis {axis} has extent {dims[axis]}, not 1")
    return make.reshape(x, [extent for i, extent in enumerate(dims) if i not in where])


@operator("Unsqueeze", until=12)
def unsqueeze_1(make: OpBuilder, data: Operand, *, axes: Integers) -> Any:
    return unsqueeze(make, data, axes)


@operator("Unsqueeze", since=13)
def unsqueeze(make: OpBuilder, data: Operand, axes: Integers) -> Any:
    dims = list(data.type.dims)
    for axis in sorted(distinct_axes("unsqueeze", axes, len(dims), extra=len(axes))):
        dims.insert(axis, 1)
    return make.reshape(data, dims)


@operator("ExpandDims", domain=MICROSOFT)
def expand_dims(make: OpBuilder, X: Operand, axis: int) -> Any:
    return unsqueeze(make, X, (axis,))


@operator("Transpose")
def transpose(make: OpBuilder, data: Operand, *, perm: Integers | None = None) -> Any:
    rank = data.type.rank
    if perm is None:
        perm = tuple(reversed(range(rank)))
    order = tuple(axis + rank if axis < 0 else axis for axis in perm)
    if sorted(order) != list(range(rank)):
        message = f"perm = {list(perm)} is not a permutation of {rank} axes"
        raise OperatorError("argument/transpose", message)
    return make.transpose(data, order)


@operator("Expand", since=8)
def expand(make: OpBuilder, input: Operand, shape: Operand) -> Any:
    """Both the input and the shape may have extents of 1 that the other one repeats."""
    shape = with_bounds(make, shape)
    extents = integers(rooms(shape))
    check_shape(make, "shape", extents, input.type.dtype)
    rank = max(input.type.rank, len(extents))
    x = make.aligned_right(input, rank)
    wanted = (1,) * (rank - len(extents)) + extents
    full: list[int] = []
    for have, want in zip(x.type.dims, wanted, strict=True):
        if not statically_equal(have, want) and have != want and have != 1 and want != 1:
            message = f"{list(input.type.dims)} cannot be broadcast to {list(extents)}"
            raise OperatorError("argument/expand", message)
        full.append(have if statically_equal(have, want) or want == 1 else want)
    return with_counts(make, make.repeated(x, full), shape)


@operator("Tile", until=5)
def tile_1(make: OpBuilder, input: Operand, tiles: int, axis: int) -> Any:
    """`tiles` copies along one axis."""
    repeats = [1] * input.type.rank
    repeats[normalize_axis(axis, input.type.rank)] = tiles
    return tile(make, input, tuple(repeats))


@operator("Tile", since=6)
def tile(make: OpBuilder, input: Operand, repeats: Integers) -> Any:
    rank = input.type.rank
    if len(repeats) != rank or any(n < 0 for n in repeats):
        message = f"repeats = {list(repeats)} for a tensor of rank {rank}"
        raise OperatorError("argument/tile", message)
    return input if all(n == 1 for n in repeats) else make.tiled(input, repeats)


# -- blocks of depth and space


@operator("DepthToSpace", until=10)
def depth_to_space_1(make: OpBuilder, input: Operand, *, blocksize: int) -> Any:
    return depth_to_space(make, input, blocksize=blocksize)


@operator("DepthToSpace", since=11)
def depth_to_space(make: OpBuilder, input: Operand, *, blocksize: int, mode: str = "DCR") -> Any:
    batch, channels, height, width = of_rank("depth_to_space", "input", input, 4)
    blocks_first = _blocks_first("depth_to_space", mode, blocksize)
    area = blocksize * blocksize
    if channels % area:
        message = f"blocksize = {blocksize} for {channels} channels"
        raise OperatorError("argument/depth_to_space", message)
    block, depth = (blocksize, blocksize), channels // area
    split = (*block, depth) if blocks_first else (depth, *block)
    x = make.reshape(input, (batch, *split, height, width))
    x = make.transpose(x, (0, 3, 4, 1, 5, 2) if blocks_first else (0, 1, 4, 2, 5, 3))
    return make.reshape(x, (batch, depth, height * blocksize, width * blocksize))


@operator("SpaceToDepth", until=27)
def space_to_depth_1(make: OpBuilder, input: Operand, *, blocksize: int) -> Any:
    return space_to_depth(make, input, blocksize=blocksize)


@operator("SpaceToDepth", since=28)
def space_to_depth(make: OpBuilder, input: Operand, *, blocksize: int, mode: str = "DCR") -> Any:
    batch, depth, height, width = of_rank("space_to_depth", "input", input, 4)
    blocks_first = _blocks_first("space_to_depth", mode, blocksize)
    if height % blocksize or width % blocksize:
        message = f"blocksize = {blocksize} for an image of {height} by {width}"
        raise OperatorError("argument/space_to_depth", message)
    rows, columns = height // blocksize, width // blocksize
    x = make.reshape(input, (batch, depth, rows, blocksize, columns, blocksize))
    x = make.transpose(x, (0, 3, 5, 1, 2, 4) if blocks_first else (0, 1, 3, 5, 2, 4))
    return make.reshape(x, (batch, depth * blocksize * blocksize, rows, columns))


def _blocks_first(what: str, mode: str, blocksize: int) -> bool:
    """Whether positions in a block vary slower than the depth; raises OperatorError."""
    if mode not in ("DCR", "CRD"):
        raise OperatorError(f"argument/{what}", f"mode = '{mode}'; it must be DCR or CRD")
    if blocksize < 1:
        raise OperatorError(f"argument/{what}", f"blocksize = {blocksize}; it must be at least 1")
    return mode == "DCR"
