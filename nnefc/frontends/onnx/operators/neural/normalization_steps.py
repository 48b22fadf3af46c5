"""Normalisation in the form that `fuse_normalization` fuses into one operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.tensors import dtype_of
from nnefc.ir import DType


class Normalized(NamedTuple):
    """A normalised tensor, its mean (None if it is not subtracted) and its deviation."""

    items: Operand
    mean: Operand | None
    deviation: Operand


def normalized(
    make: OpBuilder, x: Operand, axes: Sequence[int], epsilon: float, *, centred: bool = True
) -> Normalized:
    """(x - mean) / sqrt(variance + epsilon) along axes; without the mean unless `centred`.

    Computed, and returned, in float32 or float64.
    """
    wide = make.cast(x, accumulation_type(x.type.dtype))
    mean = make("sum_reduce", wide, axes=tuple(axes), normalize=True) if centred else None
    difference = wide if mean is None else make("sub", wide, mean)
    squares = make("sqr", difference)
    variance = make("sum_reduce", squares, axes=tuple(axes), normalize=True)
    deviation = make("sqrt", make("add", variance, epsilon))
    return Normalized(make("div", difference, deviation), mean, deviation)


def scaled(
    make: OpBuilder, x: Operand, scale: Operand | None, offset: Operand | None, dtype: DType
) -> Operand:
    """scale x + offset as `dtype`; both are aligned at the last dimension."""
    for name, term in (("mul", scale), ("add", offset)):
        if term is not None:
            check_broadcasts(x, term)
            wide = make.cast(term, x.type.dtype)
            x = make(name, x, make.aligned_right(wide, x.type.rank))
    return make.cast(x, dtype)


def check_broadcasts(x: Operand, term: Operand) -> None:
    """Raise OperatorError unless `term` broadcasts to the shape of `x`."""
    dims, own = x.type.dims, term.type.dims
    behind = dims[len(dims) - len(own) :]
    if len(own) > len(dims) or any(n not in (1, m) for n, m in zip(own, behind, strict=True)):
        message = f"a scale or bias of shape {list(own)} for a tensor of shape {list(dims)}"
        raise OperatorError("argument/normalization", message)


def stash_type(number: int) -> DType:
    """The item type of statistics that an attribute gives; raises OperatorError."""
    dtype = dtype_of(number)
    if dtype is None or not dtype.is_float:
        raise OperatorError("onnx/type", f"stash_type = {number}; it must be a real type")
    return dtype
