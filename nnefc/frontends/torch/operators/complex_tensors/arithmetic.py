"""Conversions and arithmetic of complex tensors, and Fourier transforms."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.torch.complex_pair import COMPONENTS, ComplexPair, from_inner
from nnefc.frontends.torch.item_types import in_reals, result_type, tensor
from nnefc.frontends.torch.operators.movement import broadcast, constant_pad, filled
from nnefc.frontends.torch.operators.special_functions import atan2, choose, hypot
from nnefc.frontends.torch.registry import (
    Integers,
    Number,
    complex_operator,
    find,
    operator,
)
from nnefc.ir import DType


def real_operator(make: OpBuilder, name: str, *arguments: Any) -> Any:
    """The result of an operator of real tensors."""
    found = find(f"aten.{name}")
    assert found is not None
    return found.function(make, *arguments)


def pair_of(x: Any) -> ComplexPair | None:
    """A complex tensor or number; None for a real one."""
    if isinstance(x, complex):
        parts = (np.array(part, np.float32) for part in (x.real, x.imag))
        return ComplexPair(*(KnownTensor(part, DType.FLOAT32) for part in parts))
    return x if isinstance(x, ComplexPair) else None


def with_imaginary(make: OpBuilder, x: Any, dtype: DType | None = None) -> ComplexPair:
    """A tensor as a complex one."""
    if (pair := pair_of(x)) is not None:
        return pair
    real = tensor(make, x, dtype or result_type(x, 0.0))
    return ComplexPair(real, filled(make, real.type.dims, 0, real.type.dtype))


def _to_inner(make: OpBuilder, x: ComplexPair) -> Operand:
    """Real and imaginary parts as a new last dimension."""
    rows = [make.reshape(part, (*part.type.dims, 1)) for part in (x.real, x.imag)]
    return make("concat", rows, axis=x.type.rank)


# -- conversions


@operator("aten.view_as_complex.default", "aten.view_as_complex_copy.default")
def view_as_complex(make: OpBuilder, self: Operand) -> Any:
    if not self.type.rank or self.type.dims[-1] != 2:
        message = f"a tensor of shape {list(self.type.dims)}; a last extent of 2 is expected"
        raise OperatorError("torch/arguments", message)
    return from_inner(make, self)


@operator("aten.complex.default")
def complex_(make: OpBuilder, real: Operand, imag: Operand) -> Any:
    dims = real_operator(make, "add.Tensor", real, imag).type.dims
    return ComplexPair(broadcast(make, real, dims), broadcast(make, imag, dims))


@operator("aten.polar.default")
def polar(make: OpBuilder, abs: Operand, angle: Operand) -> Any:
    parts = (make(name, angle) for name in ("cos", "sin"))
    return ComplexPair(*(real_operator(make, "mul.Tensor", abs, part) for part in parts))


def _of_reals(*names: str) -> None:
    """Register operators that return real tensors as they are."""

    def compute(make: OpBuilder, self: Operand) -> Any:
        return self

    operator(*(f"aten.{name}.default" for name in names))(compute)


_CONJUGATES = ("_conj", "_conj_physical", "conj", "conj_physical")
_of_reals(*_CONJUGATES, "real", "resolve_conj", "resolve_neg")


@operator("aten.angle.default")
def angle_of_real(make: OpBuilder, self: Operand) -> Any:
    """0, or pi for negative numbers."""
    x = in_reals(make, self)
    return atan2(make, filled(make, x.type.dims, 0, x.type.dtype), x)


@operator("aten.view_as_real.default", "aten.view_as_real_copy.default", "aten.imag.default")
def parts_of_real(make: OpBuilder, self: Operand) -> Any:
    raise OperatorError("torch/type", "a complex tensor is expected")


@complex_operator("aten.view_as_real.default", "aten.view_as_real_copy.default")
def view_as_real(make: OpBuilder, self: Number) -> Any:
    return _to_inner(make, self)


@complex_operator("aten.real.default")
def real(make: OpBuilder, self: Number) -> Any:
    return self.real


@complex_operator("aten.imag.default")
def imag(make: OpBuilder, self: Number) -> Any:
    return self.imag


@complex_operator("aten._to_copy.default", "aten.to.dtype", "aten.to.dtype_layout")
def to_copy(make: OpBuilder, self: Number, dtype: Number = None) -> Any:
    """In another type; real types drop imaginary parts."""
    if isinstance(dtype, DType):
        return make.cast(self.real, dtype)
    return with_imaginary(make, self, COMPONENTS[dtype] if dtype else None)


@complex_operator("aten.full.default")
def full(make: OpBuilder, size: Integers, fill_value: Number, dtype: Number = None) -> Any:
    number = complex(fill_value)
    kind = COMPONENTS.get(dtype, DType.FLOAT32)
    return ComplexPair(*(filled(make, size, x, kind) for x in (number.real, number.imag)))


@complex_operator("aten.constant_pad_nd.default")
def pad(make: OpBuilder, self: Number, pad: Integers, value: Number = 0) -> Any:
    number = complex(value)
    pairs = ((self.real, number.real), (self.imag, number.imag))
    return ComplexPair(*(constant_pad(make, part, pad, x) for part, x in pairs))


@complex_operator("aten.reciprocal.default")
def reciprocal(make: OpBuilder, self: Number) -> Any:
    return div(make, 1.0, self)


# -- arithmetic


@complex_operator(*(f"aten.{name}.default" for name in _CONJUGATES))
def conj(make: OpBuilder, self: Number) -> Any:
    return ComplexPair(self.real, make("neg", self.imag))


@complex_operator("aten.resolve_conj.default", "aten.resolve_neg.default")
def resolve_conj(make: OpBuilder, self: Number) -> Any:
    return self


@complex_operator("aten.abs.default")
def absolute(make: OpBuilder, self: Number) -> Any:
    return hypot(make, self.real, self.imag)


def _size(make: OpBuilder, x: ComplexPair) -> Operand:
    """The larger of the absolute values of both parts, and 1 for zeros."""
    most = make("max", make("abs", x.real), make("abs", x.imag))
    return choose(make, make("eq", most, 0.0), 1.0, most)


@complex_operator("aten.angle.default")
def angle(make: OpBuilder, self: Number) -> Any:
    return atan2(make, self.imag, self.real)


@complex_operator("aten.exp.default")
def exp(make: OpBuilder, self: Number) -> Any:
    return polar(make, make("exp", self.real), self.imag)


def _bilinear(name: str) -> None:
    """Register a product, which real operators compute of the parts."""

    def compute(make: OpBuilder, self: Number, other: Number) -> Any:
        return product(make, name, self, other)

    complex_operator(f"aten.{name}")(compute)


def product(make: OpBuilder, name: str, x: Any, y: Any) -> ComplexPair:
    a, b = pair_of(x), pair_of(y)
    if a is None or b is None:
        whole = a or b
        assert whole is not None
        factors = [(part, y) if a else (x, part) for part in (whole.real, whole.imag)]
        return ComplexPair(*(real_operator(make, name, *pair) for pair in factors))
    products = [real_operator(make, name, p, q) for p in (a.real, a.imag) for q in (b.real, b.imag)]
    real = make("sub", products[0], products[3])
    return ComplexPair(real, make("add", products[1], products[2]))


for _name in ("mul.Tensor", "mul.Scalar", "matmul.default"):
    _bilinear(_name)


@complex_operator("aten.mm.default", "aten.bmm.default")
def product_of_matrices(make: OpBuilder, self: Number, mat2: Number) -> Any:
    return product(make, "matmul.default", self, mat2)


@complex_operator("aten.div.Tensor", "aten.div.Scalar")
def div(make: OpBuilder, self: Number, other: Number) -> Any:
    """A quotient; the divisor is scaled first, so that its square neither over- nor underflows."""
    divisor = pair_of(other)
    if divisor is None:
        return ComplexPair(
            *(real_operator(make, "div.Tensor", x, other) for x in (self.real, self.imag))
        )
    size = _size(make, divisor)
    short = ComplexPair(*(make("div", x, size) for x in (divisor.real, divisor.imag)))
    square = make("add", *(make("mul", x, x) for x in (short.real, short.imag)))
    inverse = ComplexPair(*(make("div", x, square) for x in (short.real, make("neg", short.imag))))
    dividend = with_imaginary(make, self)
    scaled = ComplexPair(
        *(real_operator(make, "div.Tensor", x, size) for x in (dividend.real, dividend.imag))
    )
    return product(make, "mul.Tensor", scaled, inverse)


def _sum(name: str) -> None:
    """Register sums or differences."""

    def compute(make: OpBuilder, self: Number, other: Number, alpha: Number = 1) -> Any:
        a, b = (with_imaginary(make, x) for x in (self, other))
        pairs = ((a.real, b.real), (a.imag, b.imag))
        return ComplexPair(*(real_operator(make, f"{name}.Tensor", *pair, alpha) for pair in pairs))

    complex_operator(f"aten.{name}.Tensor", f"aten.{name}.Scalar")(compute)


_sum("add")
_sum("sub")


def _of_lists(name: str) -> None:
    """Register joins of several tensors."""

    def compute(make: OpBuilder, tensors: Number, dim: int = 0) -> Any:
        every = [with_imaginary(make, x) for x in tensors]
        columns: list[tuple[Any, ...]] = [
            tuple(x.real for x in every),
            tuple(x.imag for x in every),
        ]
        return ComplexPair(*(real_operator(make, f"{name}.default", each, dim) for each in columns))

    complex_operator(f"aten.{name}.default")(compute)


_of_lists("cat")
_of_lists("stack")


@complex_operator("aten.einsum.default")
def einsum(make: OpBuilder, equation: str, tensors: Number, path: Number = None) -> Any:
    """The sum over all choices of a part of each tensor, which is linear in every one of them."""
    terms: tuple[list[Any], ...] = ([], [], [], [])
    parts = [(x.real, x.imag) if isinstance(x, ComplexPair) else (x,) for x in tensors]
    for chosen in itertools.product(*map(enumerate, parts)):
        power = sum(i for i, _ in chosen) % 4  # of the imaginary unit
        operands = tuple(x for _, x in chosen)
        terms[power].append(real_operator(make, "einsum.default", equation, operands, path))
    sums: list[Any] = [reduce(partial(make, "add"), each) if each else None for each in terms]
    pairs = ((sums[0], sums[2]), (sums[1], sums[3]))
    return ComplexPair(*(x if y is None else make("sub", x, y) for x, y in pairs))


@complex_operator("aten.where.self")
def where(make: OpBuilder, condition: Operand, self: Number, other: Number) -> Any:
    a, b = (with_imaginary(make, x) for x in (self, other))
    pairs = ((a.real, b.real), (a.imag, b.imag))
    return ComplexPair(*(real_operator(make, "where.self", condition, *pair) for pair in pairs))


# -- Fourier transforms


def _transformed(
    make: OpBuilder, x: Operand, axes: Sequence[int], *, inverse: bool, bins: int = 0
) -> Operand:
    """Transforms of parts [.., 2] or reals [.., 1] along axes; `bins`: of the last axis."""
    rank = x.type.rank - 1
    last, *others = [axis % rank for axis in reversed(axes)]
    x = make("fft", x, axis=last, inverse=inverse, bins=bins)
    for axis in others:
        x = make("fft", x, axis=axis, inverse=inverse)
    return x


def _normalized(make: OpBuilder, x: Operand, extents: Sequence[int], kind: int) -> Operand:
    """Divided by the number of items (kind 2), or by its root (1)."""
    for n in extents if kind else ():
        divisor = tensor(make, n, x.type.dtype)
        x = make("div", x, make("sqrt", divisor) if kind == 1 else divisor)
    return x


@operator("aten._fft_r2c.default")
def fft_of_reals(
    make: OpBuilder, self: Operand, dim: Integers, normalization: int, onesided: bool
) -> Any:
    x = in_reals(make, self)
    extents = [x.type.dims[axis] for axis in dim]
    bins = extents[-1] // 2 + 1 if onesided else 0
    inner = make.reshape(x, (*x.type.dims, 1))
    y = _transformed(make, inner, dim, inverse=False, bins=bins)
    return from_inner(make, _normalized(make, y, extents, normalization))


def _fft(make: OpBuilder, self: Number, dim: Integers, normalization: int, forward: bool) -> Any:
    if not dim:
        return self
    extents = [self.type.dims[axis] for axis in dim]
    y = _transformed(make, _to_inner(make, self), dim, inverse=not forward)
    return from_inner(make, _normalized(make, y, extents, normalization))


@operator("aten._fft_c2c.default", "aten._fft_c2r.default")
def fft_of_pairs(make: OpBuilder, self: Operand, dim: Integers, normalization: int) -> Any:
    raise OperatorError("torch/type", "a complex tensor is expected")


complex_operator("aten._fft_c2c.default")(_fft)


@complex_operator("aten._fft_c2r.default")
def fft_to_reals(
    make: OpBuilder, self: Number, dim: Integers, normalization: int, last_dim_size: int
) -> Any:
    """The inverse of a transform of reals, of which the first bins are given."""
    *others, last = [axis % self.type.rank for axis in dim]
    extents = [*(self.type.dims[axis] for axis in others), last_dim_size]
    x = _fft(make, self, tuple(others), 0, forward=False)
    n = last_dim_size
    pieces = [ComplexPair(*(slice_in_dim(make, x, last, 0, n // 2 + 1) for x in (x.real, x.imag)))]
    if n > 2:
        middle = (slice_in_dim(make, x, last, (n + 1) // 2 - 1, 0, -1) for x in (x.real, x.imag))
        pieces.append(conj(make, ComplexPair(*middle)))
    inner = [_to_inner(make, piece) for piece in pieces]
    whole = inner[0] if len(inner) == 1 else make("concat", inner, axis=last)
    y = _transformed(make, whole, (last,), inverse=True)
    return _normalized(make, from_inner(make, y).real, extents, normalization)
