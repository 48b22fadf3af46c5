"""Operators on complex tensors, which are real tensors [.., 2] of real and imaginary parts.

Operators that move items are applied to the parts; arithmetic is written out.  All operators
without a variant here (`@on_complex`) reject complex tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axes, normalize_axis, slice_in_dim
from nnefc.frontends.common.values import (
    ComplexTensor,
    KnownTensor,
    Operand,
    OperatorError,
    extents,
    operand,
)
from nnefc.frontends.tract.operators import fourier, movement
from nnefc.frontends.tract.operators.gathering import tract_core_gather
from nnefc.frontends.tract.registry import on_complex, operator
from nnefc.ir import DType
from nnefc.ops.core.interface import sequence

_WHOLE: Final = (DType.INT16, DType.INT32, DType.INT64)
"""Integers that complex numbers may consist of, besides all reals."""


@operator("tract_core")
def tract_core_inner_dim_to_complex(make: OpBuilder, input: Operand) -> Any:
    """The complex tensor [..] of real and imaginary parts [.., 2]."""
    del make
    if input.type.rank == 0 or input.type.dims[-1] != 2:
        message = f"input has shape {list(input.type.dims)}; a last extent of 2 is expected"
        raise OperatorError("argument/inner_dim_to_complex", message)
    dtype = input.type.dtype
    if not dtype.is_float and dtype not in _WHOLE:
        message = f"complex numbers of {dtype} are not supported"
        raise OperatorError("argument/inner_dim_to_complex", message)
    return ComplexTensor(input)


@operator("tract_core")
def tract_core_complex_to_inner_dim(make: OpBuilder, input: Operand) -> Any:
    """The real and imaginary parts [.., 2] of a complex tensor [..]."""
    del make
    message = f"input of shape {list(input.type.dims)} is not complex"
    raise OperatorError("argument/complex_to_inner_dim", message)


@on_complex("tract_core_complex_to_inner_dim")
def _parts(make: OpBuilder, input: ComplexTensor) -> Any:
    del make
    return input.parts


# -- movement


@on_complex()
def copy(make: OpBuilder, x: ComplexTensor) -> Any:
    del make
    return x


@on_complex()
def tract_core_shape_of(make: OpBuilder, input: ComplexTensor) -> Any:
    del make
    return extents(input.dims)


@on_complex()
def reshape(
    make: OpBuilder,
    input: ComplexTensor,
    shape: tuple[int, ...],
    axis_start: int = 0,
    axis_count: int = -1,
) -> Any:
    start = normalize_axis(axis_start, input.rank, extra=1) if axis_start < 0 else axis_start
    count = max(input.rank - start, 0) if axis_count < 0 else axis_count
    if start + count > input.rank:
        message = f"axis_start = {axis_start}, axis_count = {axis_count} for rank {input.rank}"
        raise OperatorError("argument/reshape", message)
    return ComplexTensor(movement.reshape(make, input.parts, shape, start, count))


@on_complex()
def squeeze(make: OpBuilder, input: ComplexTensor, axes: tuple[int, ...]) -> Any:
    return ComplexTensor(movement.squeeze(make, input.parts, normalize_axes(axes, input.rank)))


@on_complex()
def unsqueeze(make: OpBuilder, input: ComplexTensor, axes: tuple[int, ...]) -> Any:
    parts: Operand = input.parts
    for added, axis in enumerate(sorted(axes)):
        at = normalize_axis(axis, input.rank + added, extra=1)
        parts = movement.unsqueeze(make, parts, (at,))
    return ComplexTensor(parts)


@on_complex()
def transpose(make: OpBuilder, input: ComplexTensor, axes: tuple[int, ...]) -> Any:
    return ComplexTensor(movement.transpose(make, input.parts, normalize_axes(axes, input.rank)))


@on_complex()
def slice_(
    make: OpBuilder,
    input: ComplexTensor,
    axes: tuple[int, ...],
    begin: tuple[int, ...],
    end: Any,
    stride: tuple[int, ...] = (),
) -> Any:
    where = normalize_axes(axes, input.rank)
    return ComplexTensor(movement.slice_(make, input.parts, where, begin, end, stride))


@on_complex()
def concat(make: OpBuilder, values: Any, axis: int) -> Any:
    items = sequence(values)
    return _concat(make, [values] if items is None else items, axis)


def _concat(make: OpBuilder, items: Sequence[Any], axis: int) -> ComplexTensor:
    """The concatenation of tensors, some of them complex; scalars have one item."""
    values = [_complex(make, x) for x in items]
    parts = [x.parts if x.rank else make.reshape(x.parts, (1, 2)) for x in values]
    at = normalize_axis(axis, parts[0].type.rank - 1)
    return ComplexTensor(movement.concat(make, tuple(parts), at))


@on_complex()
def stack(make: OpBuilder, values: Any, axis: int) -> Any:
    items = [_complex(make, x) for x in sequence(values) or [values]]
    at = normalize_axis(axis, items[0].rank, extra=1)
    return _concat(make, [unsqueeze(make, x, (at,)) for x in items], at)


@on_complex()
def unstack(make: OpBuilder, value: ComplexTensor, axis: int) -> Any:
    parts = movement.unstack(make, value.parts, normalize_axis(axis, value.rank))
    return tuple(map(ComplexTensor, parts))


@on_complex()
def split(make: OpBuilder, value: ComplexTensor, axis: int, ratios: tuple[int, ...]) -> Any:
    parts = movement.split(make, value.parts, normalize_axis(axis, value.rank), ratios)
    return tuple(map(ComplexTensor, parts))


@on_complex()
def tile(make: OpBuilder, input: ComplexTensor, repeats: tuple[int, ...]) -> Any:
    if len(repeats) != input.rank:
        message = f"repeats = {list(repeats)} for a tensor of rank {input.rank}"
        raise OperatorError("argument/tile", message)
    return ComplexTensor(movement.tile(make, input.parts, (*repeats, 1)))


@on_complex()
def tract_core_broadcast(make: OpBuilder, input: ComplexTensor, shape: tuple[int, ...]) -> Any:
    return ComplexTensor(movement.tract_core_broadcast(make, input.parts, (*shape, 2)))


@on_complex("tract_core_gather")
def _gather(make: OpBuilder, input: ComplexTensor, indices: Operand, axis: int = 0) -> Any:
    return ComplexTensor(
        tract_core_gather(make, input.parts, indices, normalize_axis(axis, input.rank))
    )


# -- arithmetic


def _complex(make: OpBuilder, x: Any) -> ComplexTensor:
    """Any tensor as a complex one; the imaginary parts of a real one are 0."""
    if isinstance(x, ComplexTensor):
        return x
    real = operand(x)
    pairs = make.reshape(real, (*real.type.dims, 1))
    nothing = make.cast(
        KnownTensor(np.zeros((1,) * pairs.type.rank), DType.FLOAT64), real.type.dtype
    )
    imaginary = make.repeated(nothing, pairs.type.dims)
    return ComplexTensor(make("concat", [pairs, imaginary], axis=pairs.type.rank - 1))


def _aligned(make: OpBuilder, x: Operand, rank: int) -> Operand:
    """The parts of a complex tensor with dimensions of 1 appended up to `rank`."""
    *dims, parts = x.type.dims
    return make.reshape(x, (*dims, *(1,) * (rank + 1 - x.type.rank), parts))


def _of_one_rank(make: OpBuilder, x: Any, y: Any) -> tuple[Operand, Operand]:
    """The parts [.., 2] of two tensors in a common item type and rank; [.., 1] for a real one."""
    pairs = [
        z.parts if isinstance(z, ComplexTensor) else _real_part(make, operand(z)) for z in (x, y)
    ]
    first, second = make.unified(*pairs)
    rank = max(first.type.rank, second.type.rank) - 1
    return _aligned(make, first, rank), _aligned(make, second, rank)


def _real_part(make: OpBuilder, x: Operand) -> Operand:
    """A real tensor [..] as parts [.., 1]."""
    return make.reshape(x, (*x.type.dims, 1))


@on_complex()
def neg(make: OpBuilder, x: ComplexTensor) -> Any:
    return ComplexTensor(make("neg", x.parts))


@on_complex()
def add(make: OpBuilder, x: Any, y: Any) -> Any:
    return ComplexTensor(make("add", *_of_one_rank(make, _complex(make, x), _complex(make, y))))


@on_complex()
def sub(make: OpBuilder, x: Any, y: Any) -> Any:
    return ComplexTensor(make("sub", *_of_one_rank(make, _complex(make, x), _complex(make, y))))


@on_complex()
def mul(make: OpBuilder, x: Any, y: Any) -> Any:
    first, second = _of_one_rank(make, x, y)
    last = first.type.rank - 1
    if not (isinstance(x, ComplexTensor) and isinstance(y, ComplexTensor)):
        return ComplexTensor(make("mul", first, second))
    a, b = (slice_in_dim(make, first, last, i, i + 1) for i in range(2))
    c, d = (slice_in_dim(make, second, last, i, i + 1) for i in range(2))
    real = make("sub", make("mul", a, c), make("mul", b, d))
    imaginary = make("add", make("mul", a, d), make("mul", b, c))
    return ComplexTensor(make("concat", [real, imaginary], axis=last))


@on_complex()
def div(make: OpBuilder, x: Any, y: Any) -> Any:
    if isinstance(y, ComplexTensor):
        raise OperatorError("operator/unsupported", "division by a complex tensor is not supported")
    first, second = _of_one_rank(make, x, y)
    if isinstance(second, KnownTensor) and second.dtype.is_integer and not second.array.all():
        raise OperatorError("operator/division", "integers are divided by zero")
    return ComplexTensor(make("div", first, second))


# -- transforms


@on_complex()
def tract_core_fft(make: OpBuilder, input: ComplexTensor, axis: int, inverse: bool = False) -> Any:
    at = normalize_axis(axis, input.rank)
    return ComplexTensor(fourier.tract_core_fft(make, input.parts, at, inverse))


@on_complex()
def tract_core_stft(
    make: OpBuilder,
    input: ComplexTensor,
    axis: int,
    frame: int,
    stride: int,
    window: Operand | None = None,
) -> Any:
    at = normalize_axis(axis, input.rank)
    return ComplexTensor(fourier.tract_core_stft(make, input.parts, at, frame, stride, window))
