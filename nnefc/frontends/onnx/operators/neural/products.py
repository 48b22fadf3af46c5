"""Matrix products and Einstein sums."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import not_empty, of_rank, of_rank_at_least
from nnefc.frontends.common.operators.einsum import einsum
from nnefc.frontends.common.operators.recurrent.activations import (
    activation as activation_function,
)
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.registry import MICROSOFT, operator
from nnefc.ir import DType


@operator("MatMul")
def matmul(make: OpBuilder, A: Operand, B: Operand) -> Any:
    """The product as in `numpy.matmul`: vectors have no row or no column in the result."""
    return product(make, A, B)


def product(
    make: OpBuilder,
    a: Operand,
    b: Operand,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    zeros: tuple[Operand, ...] = (),
) -> Operand:
    """The product of matrices or vectors, whose batch dimensions broadcast.

    Vectors are not transposed.  `zeros`: zero points of a and b, if these are codes; each is a
    number or broadcasts as in NumPy.  Raises OperatorError.
    """
    rows = of_rank_at_least("matmul", "A", a, 1)
    columns = of_rank_at_least("matmul", "B", b, 1)
    x = make.reshape(a, (1, *rows)) if len(rows) == 1 else a
    y = make.reshape(b, (*columns, 1)) if len(columns) == 1 else b
    rank = max(x.type.rank, y.type.rank)
    x, y = make.aligned_right(x, rank), make.aligned_right(y, rank)
    z = make(
        "integer_matmul" if zeros else "matmul",
        x,
        y,
        *(make.aligned_right(each, rank) if each.type.rank else each for each in zeros),
        transposeA=transpose_a and len(rows) > 1,
        transposeB=transpose_b and len(columns) > 1,
    )
    *batch, m, n = z.type.dims
    left = (*batch, *((m,) if len(rows) > 1 else ()), *((n,) if len(columns) > 1 else ()))
    return make.reshape(z, left)


@operator("TransposeMatMul", "FusedMatMul", domain=MICROSOFT)
def fused_matmul(
    make: OpBuilder,
    A: Operand,
    B: Operand,
    *,
    alpha: float = 1.0,
    transA: bool = False,
    transB: bool = False,
    transBatchA: bool = False,
    transBatchB: bool = False,
) -> Any:
    """alpha A B; `transBatchA` moves the first dimension of A behind its batch."""
    a = _batch_first(make, A) if transBatchA else A
    b = _batch_first(make, B) if transBatchB else B
    return _scaled(make, product(make, a, b, transpose_a=transA, transpose_b=transB), alpha)


@operator("FusedMatMulActivation", domain=MICROSOFT)
def fused_matmul_activation(
    make: OpBuilder,
    A: Operand,
    B: Operand,
    *,
    activation: str,
    activation_alpha: float | None = None,
    activation_axis: int | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    transA: bool = False,
    transB: bool = False,
    transBatchA: bool = False,
    transBatchB: bool = False,
) -> Any:
    """An activation of `FusedMatMul`."""
    del activation_axis, activation_gamma
    y = fused_matmul(make, A, B, alpha=alpha, transA=transA, transB=transB,
                     transBatchA=transBatchA, transBatchB=transBatchB)  # fmt: skip
    given = (activation_alpha, activation_beta)
    parameters = [value for value in given if value is not None]
    return activation_function(make, activation, parameters)(make, y)


def _batch_first(make: OpBuilder, x: Operand) -> Operand:
    """A tensor [m, batch.., k] as [batch.., m, k]."""
    rank = x.type.rank
    if rank < 3:
        return x
    return make.transpose(x, (*range(1, rank - 1), 0, rank - 1))


def _scaled(make: OpBuilder, x: Operand, factor: float) -> Operand:
    """factor x; integers are multiplied as real numbers."""
    dtype = x.type.dtype
    if factor == 1:
        return x
    if dtype.is_float:
        return make("mul", x, factor)
    return make.cast(make("mul", make.cast(x, DType.FLOAT64), factor), dtype)


@operator("Gemm", until=6)
def gemm_1(
    make: OpBuilder,
    A: Operand,
    B: Operand,
    C: Operand,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: bool = False,
    transA: bool = False,
    transB: bool = False,
) -> Any:
    del broadcast  # other shapes of C are errors without it, and nothing else depends on it
    return gemm(make, A, B, C, alpha=alpha, beta=beta, transA=transA, transB=transB)


@operator("Gemm", since=7)
def gemm(
    make: OpBuilder,
    A: Operand,
    B: Operand,
    C: Operand | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: bool = False,
    transB: bool = False,
) -> Any:
    """alpha A B + beta C; C broadcasts to the product."""
    of_rank("gemm", "A", A, 2)
    of_rank("gemm", "B", B, 2)
    y = make("matmul", A, B, transposeA=transA, transposeB=transB)
    y = _scaled(make, y, alpha)
    if C is None or beta == 0:
        return y
    if C.type.rank > 2:
        raise OperatorError("argument/gemm", f"C has shape {list(C.type.dims)}, of rank above 2")
    term = make.aligned_right(_scaled(make, C, beta), 2)
    if any(n not in (1, m) for n, m in zip(term.type.dims, y.type.dims)):
        message = f"C has shape {list(C.type.dims)} for a product of shape {list(y.type.dims)}"
        raise OperatorError("argument/gemm", message)
    return make("add", y, term)


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(
    make: OpBuilder,
    A: Operand,
    B: Operand,
    C: Operand | None = None,
    *,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: bool = False,
    transB: bool = False,
) -> Any:
    """An activation of a product."""
    del activation_gamma
    y = gemm(make, A, B, C, alpha=alpha, beta=beta, transA=transA, transB=transB)
    if not activation:
        return y
    given = (activation_alpha, activation_beta)
    parameters = [value for value in given if value is not None]
    return activation_function(make, activation, parameters)(make, y)


@operator("Einsum", since=12)
def einsum_(make: OpBuilder, *Inputs: Operand, equation: str) -> Any:
    not_empty("einsum", "the list of inputs", Inputs)
    return einsum(make, equation, Inputs)


@operator("CDist", domain=MICROSOFT)
def cdist(make: OpBuilder, A: Operand, B: Operand, *, metric: str = "sqeuclidean") -> Any:
    """The distances [m, k] of the rows of A [m, n] and B [k, n], or their squares."""
    for name, x in (("A", A), ("B", B)):
        of_rank("cdist", name, x, 2)
    if metric not in ("euclidean", "sqeuclidean"):
        message = f"metric = '{metric}'; use euclidean or sqeuclidean"
        raise OperatorError("argument/cdist", message)
    squares = [make("sum_reduce", make("sqr", x), axes=(1,)) for x in (A, B)]
    rows, columns = squares[0], make.reshape(squares[1], (1, B.type.dims[0]))
    both = make("mul", make("matmul", A, B, transposeB=True), 2.0)
    squared = make("max", make("sub", make("add", rows, columns), both), 0.0)
    return squared if metric == "sqeuclidean" else make("sqrt", squared)
