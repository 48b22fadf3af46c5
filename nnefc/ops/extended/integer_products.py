"""Sums of products of codes less their zero points: convolutions and matrix products.

Sums are int32 and wrap around, or int64 if `wide`.  Where no kernel sums integers, they are
computed in the narrowest float type in which all of them are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nnefc.ir import Attribute, DType, Op, Shape, TensorType, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import attempt
from nnefc.ops.core.broadcast import align, broadcast_shapes
from nnefc.ops.core.cost import Cost
from nnefc.ops.core.spec import Call, Emit, InferRule, OpSpec, Sample
from nnefc.ops.core.traits import COMPOUND
from nnefc.ops.core.value_text import listing
from nnefc.ops.core.window_reference import conv, deconv
from nnefc.ops.extended.quantized import check_codes, code_limits, is_zero
from nnefc.ops.extended.sum_bounds import bound_of_convolution, bound_of_product
from nnefc.ops.standard.convolution import BORDERS
from nnefc.ops.standard.matmul import matmul, product_shape
from nnefc.ops.standard.window_samples import pad
from nnefc.ops.standard.window_shape_rules import check_convolution, check_steps

OPERANDS: Final = 4
"""Operands of a sum of products: two tensors of codes, and their zero points."""
EXACT: Final = 1 << 24
"""Whole numbers up to this one are exact in float32."""
LARGEST_SUM: Final = (1 << 31) - 1
"""The largest int32."""


# -- rules


def _check_items(call: Call, codes: str, zero: str) -> None:
    """Require codes of 8 or 16 bits with a zero point of their type."""
    check_codes(call, codes, zero)
    dtype = attempt(lambda: call.dtype(codes))
    if dtype is not None and dtype.is_integer:
        call.require(
            dtype.itemsize <= 2, f"codes have 8 or 16 bits: {codes} is a tensor of {dtype}"
        )


def _check_zero(call: Call, zero: str, tensor: str, shape: Shape, axis: int | None) -> None:
    """Require a zero point that is one number, or varies along `axis` of `tensor` alone."""
    dims = call.shape(zero)
    want = [1 if i != axis else extent for i, extent in enumerate(shape)]
    along = "" if axis is None else f", or vary along dimension {axis} of {tensor}"
    fits = len(dims) <= len(shape) and all(n in (1, w) for n, w in zip(dims, want))
    call.require(
        fits,
        f"{zero} must be one number{along}: {zero}.shape = {listing(dims)}, "
        f"{tensor}.shape = {listing(shape)}",
    )


def _convolution(*, reverse: bool) -> InferRule:
    """The shape rule of integer_conv or (`reverse`) integer_deconv."""
    names = ("padding", "stride", "dilation", "groups", *(["output_shape"] if reverse else []))

    def rule(call: Call) -> TensorType:
        check_steps(call, BORDERS, reverse=reverse)
        _check_items(call, "input", "input_zero")
        _check_items(call, "filter", "filter_zero")
        input, filter = call.shape("input"), call.shape("filter")
        attributes = {name: call[name] for name in names}
        shape = check_convolution(call, input, filter, attributes, reverse=reverse)
        _check_zero(call, "input_zero", "input", input, None)
        _check_zero(call, "filter_zero", "filter", filter, int(reverse))
        return TensorType(_sums_type(call), shape)

    return rule


def _sums_type(call: Call) -> DType:
    return DType.INT64 if attempt(lambda: call[WIDE]) else DType.INT32


def _matmul(call: Call) -> TensorType:
    transposed = call["transposeA"], call["transposeB"]
    _check_items(call, "A", "A_zero")
    _check_items(call, "B", "B_zero")
    shape = product_shape(call, ("A", "B"), *transposed)
    for name, depth in (("A", -2 if transposed[0] else -1), ("B", -1 if transposed[1] else -2)):
        dims, zero = call.shape(name), call.shape(f"{name}_zero")
        joined = broadcast_shapes(call, {name: dims, f"{name}_zero": zero})
        at = len(dims) + depth
        call.require(
            joined == dims and (len(zero) <= at or zero[at] == 1),
            f"{name}_zero must broadcast to {name} and be constant along dimension {at}, which is "
            f"summed: {name}_zero.shape = {listing(zero)}, {name}.shape = {listing(dims)}",
        )
    return TensorType(_sums_type(call), shape)


# -- references


def _differences(codes: Array, zero: Array) -> Array:
    codes, zero = align(codes, zero)
    return codes - zero


def _convolved(function: Callable[..., Array]) -> Callable[..., Array]:
    """The reference of a convolution: outside of its border, input is input_zero."""

    def reference(
        input: Array,
        filter: Array,
        input_zero: Array,
        filter_zero: Array,
        *,
        wide: bool,
        **attributes: Any,
    ) -> Array:
        del wide
        x, w = _differences(input, input_zero), _differences(filter, filter_zero)
        sums = function(x, w, np.zeros(()), **attributes)  # float64, exact up to 2^53
        return sums.astype(np.int64)

    return reference


integer_conv = _convolved(conv)
integer_deconv = _convolved(deconv)


def integer_matmul(
    A: Array,
    B: Array,
    A_zero: Array,
    B_zero: Array,
    *,
    transposeA: bool,
    transposeB: bool,
    wide: bool,
) -> Array:
    """(A - A_zero) (B - B_zero)"""
    del wide
    x, y = _differences(A, A_zero), _differences(B, B_zero)
    return matmul(x, y, transposeA=transposeA, transposeB=transposeB)


WIDE: Final = "wide"
"""The attribute of sums in int64."""


def is_wide(op: Op) -> bool:
    """Whether sums are int64."""
    return bool(op.attributes[WIDE])


def without_width(op: Op) -> dict[str, Attribute]:
    """The attributes of an operation on codes whose sums are int32."""
    return {key: value for key, value in op.attributes.items() if key != WIDE}


# -- float formulas


def _real(emit: Emit, codes: Value, zero: Value, dtype: DType) -> Value:
    """Codes less zero points in a float type."""
    real = emit("cast", codes, dtype=dtype)
    return real if is_zero(zero) else emit("sub", real, emit("cast", zero, dtype=dtype))


def _sums(emit: Emit, op: Op, name: str, bound: Any) -> Value:
    """The sums by the float operation `name`, in the type of the result."""
    a, b, a_zero, b_zero = op.inputs
    dtype = DType.FLOAT32 if bound <= EXACT else DType.FLOAT64
    factors = _real(emit, a, a_zero, dtype), _real(emit, b, b_zero, dtype)
    sums = emit(name, *factors, **without_width(op))
    if bound > LARGEST_SUM or is_wide(op):
        sums = emit("cast", sums, dtype=DType.INT64)
    return sums if is_wide(op) else emit("cast", sums, dtype=DType.INT32)


def _expand_conv(emit: Emit, op: Op) -> Value:
    return _sums(emit, op, "conv", bound_of_convolution(op))


def _expand_deconv(emit: Emit, op: Op) -> Value:
    return _sums(emit, op, "deconv", bound_of_convolution(op))


def _expand_matmul(emit: Emit, op: Op) -> Value:
    return _sums(emit, op, "matmul", bound_of_product(op))


# -- costs


def _conv_products(op: Op) -> int:
    return op.output.type.volume * math.prod(op.inputs[1].type.dims[1:])


def _deconv_products(op: Op) -> int:
    return op.inputs[0].type.volume * math.prod(op.inputs[1].type.dims[1:])


def _matmul_products(op: Op) -> int:
    return op.output.type.volume * op.inputs[0].type.dims[-2 if op.attributes["transposeA"] else -1]


# -- samples


def _items(shape: Shape, dtype: DType, seed: int) -> Any:
    """Codes over the range of their type, extremes among them."""
    low, high = code_limits(dtype)
    numbers = np.arange(math.prod(shape), dtype=np.int64) + seed
    return (numbers * 2654435761 // 64 % (high - low + 1) + low).reshape(shape).tolist()


def _sample(
    a: Shape,
    b: Shape,
    zeros: tuple[Shape, Shape] = ((), ()),
    types: tuple[DType, DType] = (DType.UINT8, DType.INT8),
    **attributes: Any,
) -> Sample:
    shapes = a, b, *zeros
    dtypes = dict(enumerate((*types, *types)))
    return Sample(
        inputs=shapes,
        attributes=attributes,
        values={i: _items(shape, dtypes[i], i) for i, shape in enumerate(shapes)},
        dtypes=dtypes,
    )


_INT8: Final = (DType.INT8, DType.INT8)
_UINT8: Final = (DType.UINT8, DType.UINT8)
_WIDE: Final = (DType.INT16, DType.INT8)
_PLANE: Final = (1, 2, 5, 6)
_UP: Final = (1, 3, 3, 4)

_CONVOLUTION: Final = """(
            input: tensor<integer>,
            filter: tensor<integer>,
            input_zero: tensor<integer>,
            filter_zero: tensor<integer>,
            border: string = 'constant',
            padding: (integer,integer)[] = [],
            stride: integer[] = [],
            dilation: integer[] = [],"""

SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="integer_conv",
        signature=f"""
        fragment integer_conv{_CONVOLUTION}
            groups: integer = 1,
            wide: logical = false )
        -> ( output: tensor<integer> )""",
        section="tract",
        summary="Convolution of codes less zero points, in int32 or, if wide, int64. filter_zero "
        "may vary along dimension 0. Outside of its border, input is input_zero.",
        infer=_convolution(reverse=False),
        reference=integer_conv,
        traits=COMPOUND._replace(cost=Cost(_conv_products, None)),
        expand=_expand_conv,
        samples=(
            _sample(_PLANE, (3, 2, 3, 3)),
            _sample(_PLANE, (3, 2, 3, 3), ((), (3, 1, 1, 1)), _UINT8, padding=pad(1, 1, 1, 1)),
            _sample(_PLANE, (3, 2, 3, 3), ((1,), (3,)), _INT8, stride=(2, 1), dilation=(1, 2)),
            _sample((2, 3, 5), (6, 1, 3), ((), (6, 1, 1)), groups=0),
            _sample((1, 4, 5, 5), (6, 2, 3, 3), groups=2, padding=pad(2, 0, 1, 1)),
            _sample((1, 2, 6), (2, 2, 3), types=_WIDE, padding=pad(1, 1)),
            _sample((1, 2, 6), (2, 2, 3), types=_WIDE, padding=pad(1, 1), wide=True),
            _sample((2, 3), (4, 3)),
            _sample((1, 2, 4), (2, 2, 3), padding=pad(1, 1), border="replicate"),
        ),
    ),
    OpSpec(
        name="integer_deconv",
        signature=f"""
        fragment integer_deconv{_CONVOLUTION}
            output_shape: integer[] = [],
            groups: integer = 1,
            wide: logical = false )
        -> ( output: tensor<integer> )""",
        section="tract",
        summary="The reverse of integer_conv; filter_zero may vary along dimension 1.",
        infer=_convolution(reverse=True),
        reference=integer_deconv,
        traits=COMPOUND._replace(cost=Cost(_deconv_products, None)),
        expand=_expand_deconv,
        samples=(
            _sample(_UP, (3, 2, 3, 3), stride=(2, 2)),
            _sample(_UP, (3, 2, 3, 3), ((), (1, 2, 1, 1)), _UINT8, padding=pad(0, 1, 1, 1)),
            _sample((1, 4, 5), (4, 3, 2), types=_INT8, groups=2, dilation=(2,)),
            _sample((1, 2, 4), (2, 2, 3), types=_WIDE, wide=True),
            _sample((1, 2, 4), (2, 2, 3), border="replicate", output_shape=(1, 2, 4)),
        ),
    ),
    OpSpec(
        name="integer_matmul",
        signature="fragment integer_matmul( A: tensor<integer>, B: tensor<integer>, "
        "A_zero: tensor<integer>, B_zero: tensor<integer>, transposeA: logical = false, "
        "transposeB: logical = false, wide: logical = false ) -> ( C: tensor<integer> )",
        section="tract",
        summary="Matrix product of codes less zero points, in int32 or, if wide, int64. A_zero may "
        "vary along the rows of A, B_zero along the columns of B, and both along the batch.",
        infer=_matmul,
        reference=integer_matmul,
        traits=COMPOUND._replace(cost=Cost(_matmul_products, None)),
        expand=_expand_matmul,
        samples=(
            _sample((3, 4), (4, 2)),
            _sample((3, 4), (4, 2), ((3, 1), (1, 2)), _UINT8),
            _sample((4, 3), (2, 4), ((1, 3), (2, 1)), transposeA=True, transposeB=True),
            _sample((2, 3, 5), (1, 5, 4), ((2, 3, 1), (1, 1, 4)), _INT8),
            _sample((3, 300), (300, 2), types=_UINT8),
            _sample((1, 7), (7, 1), types=(DType.INT16, DType.UINT16)),
            _sample((3, 7), (7, 2), types=(DType.INT16, DType.INT16), wide=True),
        ),
    ),
)
