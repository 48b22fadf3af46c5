"""Products of reals with weights of 8 or 4 bits, with the rounding of LiteRT's reference kernels.

Each row of the reals is rounded to codes of int8 with a scale of its own, codes are multiplied as
integers, and the sums are scaled back.  Rows are symmetric about zero; asymmetric ones have a zero
point, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.tflite.fixed_point import nearest, scales_of, zero_of
from nnefc.frontends.tflite.operands import known_array
from nnefc.ir import DType

LARGEST: Final = 127
"""The largest code of a symmetric row."""


@dataclass(frozen=True, slots=True)
class Codes:
    """Weights of int8: codes times a scale, that of all or that of a channel."""

    items: Operand
    scales: tuple[float, ...]
    asymmetric: bool
    """Whether rows that are multiplied with them get a zero point."""
    what: str
    """The tensor, for messages."""

    def scale(self, channels: int) -> KnownTensor:
        """The scales as [1, channels], or [1, 1]; raises OperatorError."""
        if len(self.scales) not in (1, channels):
            message = f"{self.what} has {len(self.scales)} scales for {channels} channels"
            raise OperatorError("tflite/quantization", message)
        return known_array(np.array([self.scales], np.float32), DType.FLOAT32)


Matrix = Operand | Codes
"""Weights: reals, or codes."""


def weights_of(
    make: OpBuilder, x: Operand, tensor: Tensor | None, *, asymmetric: bool = False
) -> Matrix:
    """The weights of a layer of reals; raises OperatorError for items it cannot have.

    Old files store int8 as uint8.
    """
    if x.type.dtype.is_float:
        return x
    assert tensor is not None
    if x.type.dtype is DType.UINT8:
        wide = make.cast(x, DType.INT32)
        signed = make("select", make("lt", wide, 128), wide, make("sub", wide, 256))
        x = make.cast(signed, DType.INT8)
    elif x.type.dtype is not DType.INT8:
        message = f"{tensor} has items of {tensor.type} for reals"
        raise OperatorError("tflite/unsupported", message)
    if tensor.type != "UINT8" and zero_of(tensor):
        message = f"{tensor} has the zero point {zero_of(tensor)}, and reals need 0"
        raise OperatorError("tflite/quantization", message)
    return Codes(x, scales_of(tensor), asymmetric, str(tensor))


def reals_of(make: OpBuilder, x: Operand, tensor: Tensor | None) -> Operand:
    """Weights that are not multiplied as integers, as reals."""
    weights = weights_of(make, x, tensor)
    if not isinstance(weights, Codes):
        return weights
    count = weights.items.type.dims[0] if weights.items.type.rank else 1
    scale = weights.scale(count)
    shape = (scale.array.size, *(1,) * (weights.items.type.rank - 1))
    reals = make.cast(weights.items, DType.FLOAT32)
    return make("mul", reals, make.reshape(scale, shape))


def items_of(weights: Matrix) -> Operand:
    """The tensor of weights, without scales."""
    return weights.items if isinstance(weights, Codes) else weights


def with_items(weights: Matrix, items: Operand) -> Matrix:
    """The same weights with another tensor, such as one that a body captures."""
    return replace(weights, items=items) if isinstance(weights, Codes) else items


# -- rounding of rows


@dataclass(frozen=True, slots=True)
class Rounded:
    """Codes of int8 of reals, with a scale and a zero point, or None, for each row."""

    codes: Operand
    scale: Operand
    zero: Operand | None


def rounded_rows(make: OpBuilder, x: Operand, axes: Sequence[int], *, asymmetric: bool) -> Rounded:
    """Codes of reals; a row are the items along `axes`."""
    rounding = _asymmetric if asymmetric else _symmetric
    return rounding(make, x, tuple(axes))


def _symmetric(make: OpBuilder, x: Operand, axes: tuple[int, ...]) -> Rounded:
    reach = make("max_reduce", make("abs", x), axes=axes)
    one = known_array(1, DType.FLOAT32)
    reach = make("select", make("eq", reach, 0.0), one, reach)
    largest = known_array(LARGEST, DType.FLOAT32)
    scaled = make("mul", x, make("div", largest, reach))
    codes = make("max", make("min", nearest(make, scaled), largest), -LARGEST)
    return Rounded(make.cast(codes, DType.INT8), make("div", reach, largest), None)


def _asymmetric(make: OpBuilder, x: Operand, axes: tuple[int, ...]) -> Rounded:
    """Zero points are computed in float64."""
    low, high = (
        make(limit, make.cast(make(reduction, x, axes=axes), DType.FLOAT64), 0.0)
        for limit, reduction in (("min", "min_reduce"), ("max", "max_reduce"))
    )
    step = make("div", make("sub", high, low), 255.0)
    step = make("select", make("eq", low, high), known_array(1, DType.FLOAT64), step)
    below, above = make("div", low, step), make("div", high, step)
    from_low, from_high = make("sub", -128.0, below), make("sub", 127.0, above)
    is_better = make(
        "lt", make("add", make("abs", below), 128.0), make("add", make("abs", above), 127.0)
    )
    exact = make("select", is_better, from_low, from_high)
    zero = nearest(make, make("max", make("min", exact, 127.0), -128.0))
    scale = make.cast(step, DType.FLOAT32)
    scaled = make("mul", x, make("div", known_array(1, DType.FLOAT32), scale))
    moved = make("add", scaled, make.cast(zero, DType.FLOAT32))
    codes = make("max", make("min", nearest(make, moved), 127.0), -128.0)
    return Rounded(make.cast(codes, DType.INT8), scale, make.cast(zero, DType.INT8))


# -- products


def products(make: OpBuilder, x: Operand, weights: Codes) -> Operand:
    """x W^T for x [rows, depth] and codes W [units, depth]."""
    units, _ = of_rank("linear", "weights", weights.items, 2)
    rows = rounded_rows(make, x, (1,), asymmetric=weights.asymmetric)
    zero = known_array(0, DType.INT8)
    row_zero = zero if rows.zero is None else rows.zero
    sums = make("integer_matmul", rows.codes, weights.items, row_zero, zero, transposeB=True)
    scale = make("mul", rows.scale, weights.scale(units))
    return make("mul", make.cast(sums, DType.FLOAT32), scale)


def matrix_products(make: OpBuilder, x: Operand, weights: Codes, *, is_turned: bool) -> Operand:
    """Matrix products of x [.., rows, depth] and codes [.., depth, units], or turned ones."""
    rows = rounded_rows(make, x, (x.type.rank - 1,), asymmetric=weights.asymmetric)
    zero = known_array(0, DType.INT8)
    row_zero = zero if rows.zero is None else rows.zero
    sums = make("integer_matmul", rows.codes, weights.items, row_zero, zero, transposeB=is_turned)
    scale = make("mul", rows.scale, make.reshape(weights.scale(1), (1,) * x.type.rank))
    return make("mul", make.cast(sums, DType.FLOAT32), scale)


def convolved(make: OpBuilder, x: Operand, weights: Codes, **attributes: Any) -> Operand:
    """The convolution of x [n, c, h, w] and codes [outputs, c / groups, h, w].

    An image is rounded as one row.  The zero point is no part of the sums of codes: it times the
    sums of the weights inside the image is subtracted.
    """
    outputs = weights.items.type.dims[0]
    image = rounded_rows(make, x, (1, 2, 3), asymmetric=weights.asymmetric)
    zero = known_array(0, DType.INT8)
    sums = make("integer_conv", image.codes, weights.items, zero, zero, **attributes)
    if image.zero is not None:
        extents = x.type.dims[2:] if any(map(any, attributes["padding"])) else ()
        inside = _sums_inside(make, weights.items, extents, attributes, x.type.dims[1])
        sums = make("sub", sums, make("mul", make.cast(image.zero, DType.INT32), inside))
    own = weights.scale(outputs)
    scale = make("mul", image.scale, make.reshape(own, (1, own.array.size, 1, 1)))
    return make("mul", make.cast(sums, DType.FLOAT32), scale)


def _sums_inside(
    make: OpBuilder,
    filter: Operand,
    extents: Sequence[int],
    attributes: dict[str, Any],
    channels: int,
) -> Operand:
    """Sums of the weights that meet an item inside the image: [1, outputs, h, w].

    `extents`: of an image with a border; without one, all weights meet items.
    """
    if not extents:
        sums = make("sum_reduce", make.cast(filter, DType.INT32), axes=(1, 2, 3))
        return make.reshape(sums, (1, filter.type.dims[0], 1, 1))
    ones = known_array(np.ones((1, channels, *extents)), DType.INT8)
    zero = known_array(0, DType.INT8)
    return make("integer_conv", ones, filter, zero, zero, **attributes)
