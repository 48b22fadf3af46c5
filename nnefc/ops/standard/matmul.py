"""Matrix multiplication (4.7) and the linear layer (4.9.2)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nnefc.ir import Op, Shape, TensorType, Value
from nnefc.ops.core import batch_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.batch_rules import Rows
from nnefc.ops.core.broadcast import align, broadcast_shapes
from nnefc.ops.core.cost import Cost
from nnefc.ops.core.spec import Call, Emit, OpSpec, Sample
from nnefc.ops.core.traits import ACCUMULATION, COMPOUND
from nnefc.ops.core.value_text import listing

PANELS: Final = 2
"""Times that kernels read the rows of a product, about: once for every panel of columns."""


def product_shape(
    call: Call, names: tuple[str, str], transpose_a: bool, transpose_b: bool
) -> Shape:
    """The shape of the matrix product of two operands, which must have matching shapes."""
    a, b = call.shape(names[0]), call.shape(names[1])
    shapes = f"{names[0]}.shape = {listing(a)}, {names[1]}.shape = {listing(b)}"
    call.require(
        len(a) == len(b), f"the ranks of {names[0]} and {names[1]} must be equal: {shapes}"
    )
    call.require(
        min(len(a), len(b)) >= 2,
        f"the ranks of {names[0]} and {names[1]} must be at least 2: {shapes}",
    )
    call.stop_if_wrong()
    rows, inner_a = (a[-1], a[-2]) if transpose_a else (a[-2], a[-1])
    inner_b, columns = (b[-1], b[-2]) if transpose_b else (b[-2], b[-1])
    if inner_a != inner_b:
        inner = [
            f"columns of {names[0]}" if not transpose_a else f"rows of {names[0]}",
            f"rows of {names[1]}" if not transpose_b else f"columns of {names[1]}",
        ]
        call.require(
            False, f"the {inner[0]} must equal the {inner[1]}: {inner_a} and {inner_b}, {shapes}"
        )
    batch = broadcast_shapes(
        call, {f"the batch of {names[0]}": a[:-2], f"the batch of {names[1]}": b[:-2]}
    )
    return (*batch, rows, columns)


def _matmul(call: Call) -> TensorType:
    shape = product_shape(call, ("A", "B"), call["transposeA"], call["transposeB"])
    return TensorType(call.dtype("A"), shape)


def matmul(A: Array, B: Array, *, transposeA: bool = False, transposeB: bool = False) -> Array:
    """The matrix product over the last two dimensions (4.7); the others are a batch."""
    a = A.swapaxes(-1, -2) if transposeA else A
    b = B.swapaxes(-1, -2) if transposeB else B
    return np.matmul(a, b)


def _linear(call: Call) -> TensorType:
    product = product_shape(call, ("input", "filter"), False, True)
    call.stop_if_wrong()
    shape = broadcast_shapes(
        call, {"the product of input and filter": product, "bias": call.shape("bias")}
    )
    return TensorType(call.dtype("input"), shape)


def linear(input: Array, filter: Array, bias: Array) -> Array:
    """input * transpose(filter) + bias (4.9.2)."""
    product, addend = align(matmul(input, filter, transposeB=True), bias)
    return product + addend


def _expand_linear(emit: Emit, op: Op) -> Value:
    input, filter, bias = op.inputs
    return emit("add", emit("matmul", input, filter, transposeB=True), bias)


def _sample(a: Shape, b: Shape, **attributes: Any) -> Sample:
    return Sample(inputs=(a, b), attributes=attributes)


def _products(op: Op) -> int:
    """Multiply-adds of matmul or linear."""
    transposed = bool(op.attributes.get("transposeA", False))
    inner = op.inputs[0].type.dims[-2 if transposed else -1]
    return op.output.type.volume * inner


def _batch(op: Op, rows: Rows, size: int) -> int:
    """Separable over a batch of matrices, or over the rows of A."""
    del size
    most = max(rows)
    if op.output.type.rank > 2:
        return most if batch_rules.aligned(op.inputs[:2], rows, most) else 0
    return rows[0] if not rows[1] and not op.attributes["transposeA"] else 0


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="matmul",
        signature="fragment matmul( A: tensor<scalar>, B: tensor<scalar>, "
        "transposeA: logical = false, transposeB: logical = false ) -> ( C: tensor<scalar> )",
        section="4.7",
        summary="Matrix product over the last two dimensions; the others are a batch, which "
        "broadcasts.",
        infer=_matmul,
        reference=matmul,
        traits=ACCUMULATION._replace(
            cost=Cost(_products, None),
            batch=_batch,
            with_expression="fused_matmul",
            reads=PANELS,
        ),
        integers=True,
        samples=(
            _sample((3, 4), (4, 2)),
            _sample((3, 4), (2, 4), transposeB=True),
            _sample((4, 3), (4, 2), transposeA=True),
            _sample((4, 3), (2, 4), transposeA=True, transposeB=True),
            _sample((2, 3, 4), (2, 4, 5)),
            _sample((1, 3, 4), (2, 5, 4), transposeB=True),
            _sample((2, 3, 4), (1, 4, 5)),
            _sample((2, 1, 3, 4), (1, 3, 4, 2)),
            _sample((1, 1), (1, 1)),
            _sample((1, 7), (7, 1)),
            _sample((7, 1), (1, 5)),
            _sample((1, 17), (33, 17), transposeB=True),
            _sample((1, 2, 1, 1, 2, 1, 2, 3), (2, 2, 1, 1, 1, 1, 3, 2)),
        ),
    ),
    OpSpec(
        name="linear",
        signature="fragment linear( input: tensor<scalar>, filter: tensor<scalar>, "
        "bias: tensor<scalar> = 0.0 ) -> ( output: tensor<scalar> )",
        section="4.9.2",
        summary="Fully connected layer, matmul(input, filter, transposeB = true) + bias.",
        infer=_linear,
        reference=linear,
        traits=COMPOUND._replace(cost=Cost(_products, None)),
        integers=True,
        expand=_expand_linear,
        samples=(
            Sample(inputs=((3, 4), (5, 4), (1, 5))),
            Sample(inputs=((1, 4), (5, 4), ())),
            Sample(inputs=((2, 3), (2, 3))),
            Sample(inputs=((3, 4), (5, 4), (3, 1))),
            Sample(inputs=((2, 3, 4), (1, 5, 4), (1, 1, 5))),
        ),
    ),
)
