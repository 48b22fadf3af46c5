"""Matrix products, Einstein sums, and products of quantized tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import not_empty
from nnefc.frontends.common.operators.einsum import Multiply, einsum, is_product
from nnefc.frontends.common.values import (
    KnownTensor,
    Operand,
    OperatorError,
    QuantizedTensor,
    datum_type,
    operand,
    widest,
)
from nnefc.frontends.tract.products_of_codes import (
    ProductOfCodes,
    bias_codes,
    factor,
    requantize,
    sums_of,
    with_bias,
)
from nnefc.frontends.tract.quantization import as_real, with_product_scale
from nnefc.frontends.tract.registry import NO_TYPE, Operands, TypeName, operator
from nnefc.ir import Value


@operator("tract_nnef")
def matmul(
    make: OpBuilder, A: Operand, B: Operand, transposeA: bool = False, transposeB: bool = False
) -> Any:
    a, b = make.unified(A, B)
    if a.type.rank != b.type.rank:
        message = f"the ranks differ: {list(a.type.dims)} and {list(b.type.dims)}"
        raise OperatorError("argument/matmul", message)
    y = make("matmul", a, b, transposeA=transposeA, transposeB=transposeB)
    return in_unblocked_type(make, y, A, B)


def in_unblocked_type(make: OpBuilder, y: Operand, *operands: Operand) -> Operand:
    """A product cast to the type of its only operand that is not block-quantized, as in tract.

    Without exactly one such operand, the product is returned unchanged.
    """
    others = [x for x in operands if not _in_blocks(x)]
    if len(others) != 1 or len(operands) == 1 or not others[0].type.dtype.is_float:
        return y
    return make.cast(y, others[0].type.dtype)


def _in_blocks(x: Operand) -> bool:
    """Whether a tensor is block-quantized (Q4_0, Q8_1), possibly reshaped or transposed."""
    while isinstance(x, Value) and x.op is not None and x.op.name in _VIEWS:
        x = x.op.inputs[0]
    return isinstance(x, Value) and x.op is not None and x.op.name == "dequantize_blocks"


_VIEWS: Final = ("reshape", "squeeze", "transpose", "unsqueeze")


@operator("tract_nnef", quantized=True)
def linear(make: OpBuilder, input: Any, filter: Any, bias: Any = 0.0) -> Any:
    """The bias of quantized tensors is added to the sums of products of their codes."""
    if not isinstance(input, QuantizedTensor) or not isinstance(filter, QuantizedTensor):
        return _linear(make, as_real(make, input), as_real(make, filter), as_real(make, bias))
    a, b = factor(make, input, 0), factor(make, filter, 0)

    def of_codes(*codes: Operand) -> Operand:
        return make("integer_matmul", *codes, transposeB=True)

    sums = sums_of(make, a, b, of_codes, lambda x, w: matmul(make, x, w, False, True))
    sums = with_bias(make, sums, _per_column(make, bias_codes(bias), sums))
    return with_product_scale(make, sums, input, filter, sums.type.rank - 1)


def _linear(make: OpBuilder, input: Operand, filter: Operand, bias: Any) -> Operand:
    """input filter^T + bias; a bias that is 0 is omitted."""
    y = matmul(make, input, filter, False, True)
    term = operand(bias)
    if isinstance(term, KnownTensor) and term.array.size == 1 and not term.array.any():
        return y
    return make("add", y, make.cast(_per_column(make, term, y), y.type.dtype))


def _per_column(make: OpBuilder, bias: Operand, y: Operand) -> Operand:
    """A bias that broadcasts with a product; one per column in any shape."""
    columns, is_lower = y.type.dims[-1], bias.type.rank <= y.type.rank
    if 1 < bias.type.volume == columns and is_lower:
        return make.reshape(bias, (1,) * (y.type.rank - 1) + (columns,))
    return bias


@operator("tract_core")
def tract_core_matmul(make: OpBuilder, A: Operand, B: Operand, axes: tuple[int, ...] = ()) -> Any:
    """Matrix product with `axes` (m, k, n), or (m, k) of A, (k, n) of B, (m, n) of the result."""
    a, b = make.unified(A, B)
    return in_unblocked_type(make, _product(make, a, b, axes), A, B)


def _product(
    make: OpBuilder,
    a: Operand,
    b: Operand,
    axes: tuple[int, ...],
    multiply: Multiply | None = None,
) -> Operand:
    """`tract_core_matmul` of operands of a common type, or by `multiply`; raises OperatorError."""
    rank = max(a.type.rank, b.type.rank)
    a, b = make.aligned_right(a, rank), make.aligned_right(b, rank)
    if not axes:
        return multiply(a, b) if multiply else make("matmul", a, b)
    if len(axes) not in (6, 3):
        raise OperatorError("argument/matmul", f"axes = {list(axes)}; 3 or 6 axes are expected")
    a_m, a_k, b_k, b_n, c_m, c_n = axes if len(axes) == 6 else (
        axes[0], axes[1], axes[1], axes[2], axes[0], axes[2]
    )  # fmt: skip
    if not all(0 <= axis < rank for axis in axes) or a_m == a_k or b_k == b_n or c_m == c_n:
        message = f"axes = {list(axes)} are no axes of matrices in tensors of rank {rank}"
        raise OperatorError("argument/matmul", message)
    first, second, third = ([""] * rank for _ in range(3))
    first[a_m], first[a_k] = "M", "K"
    second[b_k], second[b_n] = "K", "N"
    third[c_m], third[c_n] = "M", "N"
    batch = "abcdefgh"[: rank - 2]
    for term, taken in ((first, (a_m, a_k)), (second, (b_k, b_n)), (third, (c_m, c_n))):
        left = iter(batch)
        for i in range(rank):
            if i not in taken:
                term[i] = next(left)
    expression = f"{''.join(first)},{''.join(second)}->{''.join(third)}"
    return einsum(make, expression, [a, b], multiply)


@operator("tract_core")
def tract_core_einsum(
    make: OpBuilder,
    inputs: Operands,
    expr: str,
    acc: TypeName = NO_TYPE,
    output: TypeName = NO_TYPE,
) -> Any:
    """Einstein sum as in `numpy.einsum`, `mk,kn->mn`, accumulated in type `acc`; the result has
    type `output`, or `acc`.
    """
    not_empty("einsum", "inputs", inputs)
    tensors = make.unified(*inputs)
    if not acc:
        y = in_unblocked_type(make, einsum(make, expr, tensors), *inputs)
        return make.cast(y, datum_type(output).dtype) if output else y
    sums = datum_type(acc).dtype
    wide = widest([sums, tensors[0].type.dtype])
    y = einsum(make, expr, [make.cast(x, wide) for x in tensors])
    return make.cast(make.cast(y, sums), datum_type(output).dtype if output else sums)


# -- products of quantized tensors


def _of_codes(
    make: OpBuilder, product: Callable[[Operand, Operand, Multiply | None], Operand]
) -> ProductOfCodes:
    """`product` of codes with zero points, which are multiplied as codes."""

    def of_codes(a: Operand, b: Operand, a_zero: Operand, b_zero: Operand) -> Operand:
        return product(a, b, lambda x, y: make("integer_matmul", x, y, a_zero, b_zero))

    return of_codes


@operator("tract_core", quantized=True)
def tract_core_qmatmul(
    make: OpBuilder,
    A: Any,
    B: Any,
    bias: Any = 0,
    axes: tuple[int, ...] = (),
    a0: Any = 0,
    a_scale: Any = 1.0,
    b0: Any = 0,
    b_scale: Any = 1.0,
    c0: Any = 0,
    c_scale: Any = 1.0,
    output_type: TypeName = NO_TYPE,
) -> Any:
    """`tract_core_matmul` of codes: a0, a_scale for A, b0, b_scale for B, c0, c_scale for the
    result.
    """

    def product(a: Operand, b: Operand, multiply: Multiply | None = None) -> Operand:
        return _product(make, a, b, axes, multiply)

    sums = sums_of(
        make, factor(make, A, a0), factor(make, B, b0), _of_codes(make, product), product
    )
    sums = with_bias(make, sums, bias_codes(bias))
    return requantize(make, sums, a_scale, b_scale, c_scale, c0, output_type)


@operator("tract_core", quantized=True)
def tract_core_einsum_q(
    make: OpBuilder,
    inputs: Any,
    expr: str,
    acc: TypeName = NO_TYPE,
    output: TypeName = NO_TYPE,
    bias: Any = 0,
    a0: Any = 0,
    a_scale: Any = 1.0,
    b0: Any = 0,
    b_scale: Any = 1.0,
    c0: Any = 0,
    c_scale: Any = 1.0,
) -> Any:
    """`tract_core_einsum` of the codes of two tensors, with parameters as `tract_core_qmatmul`."""
    del acc
    if not isinstance(inputs, tuple) or len(inputs) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise OperatorError("argument/einsum", "two operands are expected")
    a, b = inputs  # pyright: ignore[reportUnknownVariableType]
    left, right = factor(make, a, a0), factor(make, b, b0)

    def product(x: Operand, y: Operand, multiply: Multiply | None = None) -> Operand:
        return einsum(make, expr, [x, y], multiply)

    if is_product(expr, [left.items.type.rank, right.items.type.rank]):
        sums = sums_of(make, left, right, _of_codes(make, product), product)
    else:
        sums = product(left.real(make), right.real(make))
    sums = with_bias(make, sums, bias_codes(bias))
    return requantize(make, sums, a_scale, b_scale, c_scale, c0, output)
