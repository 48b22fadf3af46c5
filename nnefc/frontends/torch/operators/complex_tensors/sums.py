"""Comparisons, sums, norms and fills of complex tensors."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand
from nnefc.frontends.torch.complex_pair import COMPONENTS, ComplexPair
from nnefc.frontends.torch.operators.complex_tensors.arithmetic import (
    absolute,
    div,
    product,
    real_operator,
    with_imaginary,
)
from nnefc.frontends.torch.operators.movement import filled
from nnefc.frontends.torch.operators.reductions import moments
from nnefc.frontends.torch.registry import Integers, Number, complex_operator
from nnefc.ir import DType, Value

# -- truth


def _compared(name: str, joined: str) -> None:
    """Register a comparison of both parts."""

    def compute(make: OpBuilder, self: Number, other: Number) -> Any:
        a, b = (with_imaginary(make, x) for x in (self, other))
        pairs = ((a.real, b.real), (a.imag, b.imag))
        return make(joined, *(real_operator(make, f"{name}.Tensor", *pair) for pair in pairs))

    complex_operator(f"aten.{name}.Tensor", f"aten.{name}.Scalar")(compute)


_compared("eq", "and")
_compared("ne", "or")


def _truth(make: OpBuilder, x: Any) -> Operand:
    """Whether items differ from 0."""
    if isinstance(x, ComplexPair):
        return make("or", *(make("ne", part, 0.0) for part in (x.real, x.imag)))
    return real_operator(make, "ne.Scalar", x, 0)


def _logical(name: str) -> None:
    def compute(make: OpBuilder, self: Number, other: Number) -> Any:
        both = (_truth(make, x) for x in (self, other))
        return real_operator(make, f"logical_{name}.default", *both)

    complex_operator(f"aten.logical_{name}.default")(compute)


for _name in ("and", "or", "xor"):
    _logical(_name)


@complex_operator("aten.logical_not.default")
def logical_not(make: OpBuilder, self: Number) -> Any:
    return make("not", _truth(make, self))


def _of_either(name: str) -> None:
    def compute(make: OpBuilder, self: Number) -> Any:
        return make("or", *(make(name, part) for part in (self.real, self.imag)))

    complex_operator(f"aten.{name.replace('_', '')}.default")(compute)


def _of_truth(name: str) -> None:
    def compute(
        make: OpBuilder, self: Number, dim: Integers | None = None, keepdim: bool = False
    ) -> Any:
        return real_operator(make, f"{name}.dims", _truth(make, self), dim, keepdim)

    complex_operator(*(f"aten.{name}.{each}" for each in ("default", "dim", "dims")))(compute)


_of_truth("any")
_of_truth("all")


@complex_operator("aten.nonzero.default")
def nonzero(make: OpBuilder, self: Number) -> Any:
    return real_operator(make, "nonzero.default", _truth(make, self))


_of_either("is_nan")
_of_either("is_inf")


# -- sums, products, norms


def _with_type(make: OpBuilder, x: Any, dtype: Any) -> ComplexPair:
    """A tensor in a complex item type."""
    pair = with_imaginary(make, x)
    if dtype is None:
        return pair
    return ComplexPair(*(make.cast(part, COMPONENTS[dtype]) for part in (pair.real, pair.imag)))


def _sums(name: str) -> None:
    def compute(
        make: OpBuilder,
        self: Number,
        dim: Integers | None = None,
        keepdim: bool = False,
        dtype: Number = None,
    ) -> Any:
        pair = _with_type(make, self, dtype)
        parts = (pair.real, pair.imag)
        return ComplexPair(*(real_operator(make, name, part, dim, keepdim) for part in parts))

    complex_operator(f"aten.{name}")(compute)


for _name in ("sum.dim_IntList", "sum.default", "mean.dim", "mean.default"):
    _sums(_name)


@complex_operator("aten.cumsum.default")
def cumsum(make: OpBuilder, self: Number, dim: int, dtype: Number = None) -> Any:
    pair = _with_type(make, self, dtype)
    parts = (pair.real, pair.imag)
    return ComplexPair(*(real_operator(make, "cumsum.default", part, dim) for part in parts))


@complex_operator("aten.linalg_vector_norm.default")
def vector_norm(
    make: OpBuilder,
    self: Number,
    ord: float = 2.0,
    dim: Integers | None = None,
    keepdim: bool = False,
    dtype: Number = None,
) -> Any:
    """The norm of absolute values, whose type is real."""
    size = absolute(make, _with_type(make, self, dtype if dtype in COMPONENTS else None))
    return real_operator(make, "linalg_vector_norm.default", size, ord, dim, keepdim)


def _statistics(name: str, root: bool) -> None:
    """Register variances or deviations: real numbers, the sums of those of both parts."""

    def both(
        make: OpBuilder,
        self: Number,
        dim: Integers | None = None,
        correction: Number = None,
        keepdim: bool = False,
    ) -> Any:
        given = dim, 1 if correction is None else correction, keepdim
        real, imag = (moments(make, part, *given) for part in (self.real, self.imag))
        variance = make("add", real[0], imag[0])
        return (make("sqrt", variance) if root else variance), ComplexPair(real[1], imag[1])

    def one(
        make: OpBuilder,
        self: Number,
        dim: Integers | None = None,
        correction: Number = None,
        keepdim: bool = False,
    ) -> Any:
        return both(make, self, dim, correction, keepdim)[0]

    complex_operator(f"aten.{name}.correction")(one)
    complex_operator(f"aten.{name}_mean.correction")(both)


_statistics("var", root=False)
_statistics("std", root=True)


def _added(make: OpBuilder, x: Any, y: Any) -> ComplexPair:
    a, b = (with_imaginary(make, each) for each in (x, y))
    pairs = ((a.real, b.real), (a.imag, b.imag))
    return ComplexPair(*(real_operator(make, "add.Tensor", *pair) for pair in pairs))


def _times(make: OpBuilder, x: Any, factor: Any) -> Any:
    return x if factor == 1 else product(make, "mul.Tensor", x, factor)


@complex_operator("aten.addmm.default", "aten.baddbmm.default")
def addmm(
    make: OpBuilder,
    self: Number,
    mat1: Number = None,
    mat2: Number = None,
    beta: Number = 1,
    alpha: Number = 1,
    batch1: Number = None,
    batch2: Number = None,
) -> Any:
    """beta self + alpha (mat1 mat2)."""
    left, right = (mat1, mat2) if batch1 is None else (batch1, batch2)
    result = _times(make, product(make, "matmul.default", left, right), alpha)
    return result if beta == 0 else _added(make, _times(make, self, beta), result)


@complex_operator("aten.linear.default")
def linear(make: OpBuilder, input: Number, weight: Number, bias: Number = None) -> Any:
    """input [.., depth], weight [units, depth] or [depth], bias [units]."""
    rank = weight.type.rank
    w = with_imaginary(make, weight)
    turned = [part if rank == 1 else make.transpose(part, (1, 0)) for part in (w.real, w.imag)]
    result = product(make, "matmul.default", input, ComplexPair(*turned))
    return result if bias is None else _added(make, result, bias)


@complex_operator("aten.addcmul.default")
def addcmul(
    make: OpBuilder, self: Number, tensor1: Number, tensor2: Number, value: Number = 1
) -> Any:
    return _added(make, self, _times(make, product(make, "mul.Tensor", tensor1, tensor2), value))


@complex_operator("aten.addcdiv.default")
def addcdiv(
    make: OpBuilder, self: Number, tensor1: Number, tensor2: Number, value: Number = 1
) -> Any:
    return _added(make, self, _times(make, div(make, tensor1, tensor2), value))


@complex_operator("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(make: OpBuilder, self: Number, end: Number, weight: Number) -> Any:
    """self + weight (end - self)."""
    difference = _added(make, end, _times(make, self, -1))
    return _added(make, self, _times(make, difference, weight))


# -- fills


def _number(make: OpBuilder, dims: Integers, value: Any, dtype: DType) -> ComplexPair:
    parts = (complex(value).real, complex(value).imag)
    return ComplexPair(*(filled(make, dims, part, dtype) for part in parts))


@complex_operator("aten.full_like.default")
def full_like(make: OpBuilder, self: Number, fill_value: Number, dtype: Number = None) -> Any:
    if isinstance(dtype, DType):
        return filled(make, self.type.dims, complex(fill_value).real, dtype)
    kind = COMPONENTS[dtype] if dtype else self.type.dtype
    return _number(make, self.type.dims, fill_value, kind)


@complex_operator("aten.scalar_tensor.default")
def scalar_tensor(make: OpBuilder, s: Number, dtype: Number = None) -> Any:
    if isinstance(s, Value | KnownTensor):
        return with_imaginary(make, s)
    if isinstance(dtype, DType):
        return filled(make, (), complex(s).real, dtype)
    return _number(make, (), s, COMPONENTS.get(dtype, DType.FLOAT32))


@complex_operator("aten.empty.memory_format")
def empty(make: OpBuilder, size: Integers, dtype: Number = None) -> Any:
    return _number(make, size, 0, COMPONENTS[dtype])
