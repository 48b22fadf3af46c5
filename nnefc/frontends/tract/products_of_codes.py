"""Products of quantized tensors: sums of products of codes, and their conversion to other codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.quantization import known_zero_point, to_codes
from nnefc.frontends.common.values import (
    KnownTensor,
    Operand,
    OperatorError,
    QuantizedTensor,
    datum_type,
    integers,
    operand,
    scalar,
)
from nnefc.ir import DType
from nnefc.ops.extended.quantized import exceeds_float32, is_scale

CODES: Final = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)
"""Types of codes whose products are summed as integers."""
ProductOfCodes = Callable[[Operand, Operand, Operand, Operand], Operand]
"""The product of two tensors of codes with their zero points."""


@dataclass(frozen=True, slots=True)
class Factor:
    """An operand of a product: items and their zero point, a number of the same type."""

    items: Operand
    zero: Operand

    def real(self, make: OpBuilder) -> Operand:
        """The differences as float32."""
        real = make.cast(self.items, DType.FLOAT32)
        return make("sub", real, make.cast(self.zero, DType.FLOAT32))


def factor(make: OpBuilder, x: Any, zero_point: Any) -> Factor:
    """The codes of a tensor, with its own zero point if `zero_point` is 0; raises OperatorError."""
    items = x.codes if isinstance(x, QuantizedTensor) else operand(x)
    zero = x.zero_point if isinstance(x, QuantizedTensor) and _is_zero(zero_point) else zero_point
    dtype = items.type.dtype
    term = operand(zero)
    if term.type.volume != 1:
        message = f"a zero point has shape {list(term.type.dims)}; one number is expected"
        raise OperatorError("quantization/zero-point", message)
    if isinstance(term, KnownTensor) and dtype.is_integer:
        return Factor(items, known_zero_point(integers(term)[0], dtype))
    return Factor(items, make.cast(make.reshape(term, ()), dtype))


def _is_zero(value: Any) -> bool:
    """Whether an argument is the known number 0."""
    if isinstance(value, KnownTensor) and value.array.size == 1:
        value = value.array.reshape(()).item()
    return isinstance(value, bool | int | float) and value == 0


def sums_of(
    make: OpBuilder,
    a: Factor,
    b: Factor,
    of_codes: ProductOfCodes,
    of_reals: Callable[[Operand, Operand], Operand],
) -> Operand:
    """Sums of products of differences: in int32 of codes, in float32 of other items."""
    if all(each.items.type.dtype in CODES for each in (a, b)):
        return of_codes(a.items, b.items, a.zero, b.zero)
    return of_reals(a.real(make), b.real(make))


def bias_codes(bias: Any) -> Operand:
    """A bias in units of the sums; raises OperatorError for what is no tensor."""
    return bias.codes if isinstance(bias, QuantizedTensor) else operand(bias)


def with_bias(make: OpBuilder, sums: Operand, bias: Operand) -> Operand:
    """Sums plus a bias that broadcasts with them and is cast to their type, as in tract."""
    if isinstance(bias, KnownTensor) and bias.array.size == 1 and not bias.array.any():
        return sums
    return make("add", sums, make.cast(bias, sums.type.dtype))


def requantize(
    make: OpBuilder,
    sums: Operand,
    a_scale: Any,
    b_scale: Any,
    c_scale: Any,
    c0: Any,
    output: str,
) -> Any:
    """Sums of products of codes as codes of the type `output`, rounded to nearest, ties to even.

    Without `output` the sums as int32; for a real `output` the sums times both scales.
    """
    if not output:
        return make.cast(sums, DType.INT32)
    datum = datum_type(output)
    if datum.dtype is DType.INT32 and datum.scale is None:
        return make.cast(sums, DType.INT32)
    scales = {"a_scale": a_scale, "b_scale": b_scale, "c_scale": c_scale}
    a, b, c = (_scale(name, value) for name, value in scales.items())
    real = make.cast(sums, DType.FLOAT32)
    if datum.dtype.is_float:
        return make("mul", real, _factor("a_scale b_scale", a * b))
    zero = known_zero_point(integers(c0)[0], datum.dtype)
    codes = to_codes(make, make("mul", real, _factor("a_scale b_scale / c_scale", a * b / c)), zero)
    return (
        QuantizedTensor(codes, datum.scale, datum.zero_point) if datum.scale is not None else codes
    )


def _factor(name: str, factor: float) -> float:
    """A product of scales; raises OperatorError if float32 cannot hold it."""
    if exceeds_float32(np.array(factor)):
        message = f"{name} exceeds float32: it is {factor:.6g}"
        raise OperatorError("quantization/scale", message)
    return factor


def _scale(name: str, value: Any) -> float:
    """The scale `name`, which is known; raises OperatorError."""
    scale = scalar(value)
    if not is_scale(scale):
        message = f"{name} must be positive and finite in float32: it is {scale}"
        raise OperatorError("quantization/scale", message)
    return scale
