"""Multiply codes instead of the reals that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.known_items import known_items
from nnefc.ops.extended import integer_products, quantized, sum_bounds
from nnefc.ops.tools.build import build
from nnefc.passes.analysis.integer_support import CODES_16, convolution_reason, float_reason
from nnefc.passes.analysis.known_data import KnownValues, constant_op
from nnefc.passes.op_queries import exchanges_rows, is_view, replace
from nnefc.passes.quantize.fuse_code_convolutions import reason_of_reals

DEQUANTIZE: Final = "dequantize"
CONVERSIONS: Final = frozenset(spec.name for spec in quantized.SPECS)
ON_CODES: Final = CONVERSIONS | {spec.name for spec in integer_products.SPECS}


def is_no_operation_on_codes(op: Op) -> bool:
    """Whether `op` may be expanded before products of codes are chosen."""
    return op.name not in ON_CODES


@dataclass(frozen=True)
class FuseIntegers:
    """Replace products of dequantized matrices by products of codes.

        %a: float32[5,8] = dequantize(%x, %s, %z)
        %b: float32[8,4] = dequantize(%w, %t, %0)
        %y: float32[5,4] = matmul(%a, %b) {...}

    becomes

        %1: int32[5,4] = integer_matmul(%x, %w, %z, %0) {...}
        %2: float32[5,4] = cast(%1)
        %y: float32[5,4] = mul(%2, %3)

    where %3 is the product of the scales, computed in float64 and rounded once.  The operations
    behind the product, such as the rounding to codes, stay; they are fused into an epilogue later.
    Sums of codes of 16 bits that may exceed int32 are int64.  Other products whose sums may exceed
    it, and those without an integer kernel (`passes.analysis.integer_support`), stay, too.
    """

    name: ClassVar[str] = "fuse_integers"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        changed, known = False, KnownValues(graph)
        for op in list(graph.ops):
            if op.name == "matmul" and op.output.type.dtype is DType.FLOAT32:
                changed |= _multiply_codes(graph, op, known)
        return changed


@dataclass(frozen=True, slots=True)
class _Factor:
    """A matrix of codes: the operations behind `dequantize` are views and one transposition."""

    dequantize: Op
    views: Sequence[Op]
    """Those between the codes and the product, in order."""
    transposed: bool
    """Whether rows and columns are exchanged behind the views."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the codes behind the views."""
        return (self.views[-1] if self.views else self.dequantize).output.type.dims


def _factor(value: Value) -> _Factor | None:
    """The codes of an operand; None if it has none."""
    views: list[Op] = []
    transposed = False
    while (op := value.op) is not None:
        if op.name == DEQUANTIZE:
            return _Factor(op, views[::-1], transposed)
        if exchanges_rows(op) and not views:
            transposed = not transposed
        elif is_view(op):
            views.append(op)
        else:
            return None
        value = op.inputs[0]
    return None


def _multiply_codes(graph: Graph, op: Op, known: KnownValues) -> bool:
    """Replace one product; returns whether there is an integer kernel for it."""
    found = _product_of_codes(graph, op, known)
    if isinstance(found, str):
        return False
    sums, scale = found
    type_ = TensorType(DType.FLOAT32, op.output.type.dims)
    real = graph.insert(Op("cast", [sums.output], {}, [type_], location=op.location), op)
    factor = constant_op(scale, TensorType(DType.FLOAT32, scale.shape), op.location)
    graph.insert(factor, op)
    y = build(graph, "mul", [real.output, factor.output], before=op, location=op.location)
    y.output.name = op.output.name
    replace(graph, op, [y.output])
    return True


def _product_of_codes(graph: Graph, op: Op, known: KnownValues) -> tuple[Op, Array] | str:
    """The product of the codes, inserted before `op`, and its scale; or why there is none."""
    a, b = map(_factor, op.inputs)
    if a is None or b is None:
        return "an operand has no codes"
    names = ("transposeA", "transposeB")
    flags = {n: op.attributes[n] != f.transposed for n, f in zip(names, (a, b), strict=True)}
    scale = _scale(a, b, along=-2 if flags["transposeB"] else -1, rank=op.output.type.rank)
    if scale is None:
        return "a scale is computed, or varies along rows or along the sum"
    if quantized.exceeds_float32(scale):
        return "the product of the scales exceeds float32"
    zeros = [_one_zero(graph, op, f) for f in (a, b)]
    numbers = [zero for zero in zeros if zero is not None]
    if len(numbers) < len(zeros):
        return "zero points differ"
    operands = [*(_viewed(graph, op, f) for f in (a, b)), *numbers]
    new = build(graph, "integer_matmul", operands, flags, before=op, location=op.location)
    reason = float_reason(new, known)
    if reason is None and sum_bounds.bound_of_product(new) > integer_products.LARGEST_SUM:
        if new.inputs[0].type.dtype in CODES_16:  # parts of the depth are summed
            graph.erase(new)
            flags[integer_products.WIDE] = True
            return build(graph, new.name, operands, flags, before=op, location=op.location), scale
        reason = "sums may exceed int32"
    if reason is None:
        return new, scale
    graph.erase(new)
    return reason


# -- reasons


def float_products(graph: Graph) -> list[tuple[Op, str]]:
    """The products with operands in codes that are computed in floats, and reasons.

    `graph`: after `ChooseCodeProducts`, before what is left is expanded.
    """
    graph = graph.clone()
    known, reasons = KnownValues(graph), list[tuple[Op, str]]()
    for op in list(graph.ops):
        reason = None
        if op.name in ON_CODES - CONVERSIONS:
            reason = _reason_of_integers(op, known)
        elif op.name in ("matmul", "conv", "deconv") and any(map(_factor, op.inputs[:2])):
            reason = _reason_of_reals(graph, op, known)
        if reason is not None:
            reasons.append((op, reason))
    return reasons


def _reason_of_integers(op: Op, known: KnownValues) -> str | None:
    match op.name:
        case "integer_matmul":
            return float_reason(op, known)
        case _:
            return convolution_reason(op, known)


def _reason_of_reals(graph: Graph, op: Op, known: KnownValues) -> str | None:
    match op.name:
        case "matmul":
            found = _product_of_codes(graph, op, known)
            return found if isinstance(found, str) else None
        case _:
            return reason_of_reals(graph, op, known)


# -- scales and zero points


def _scale(a: _Factor, b: _Factor, along: int, rank: int) -> Array | None:
    """The product of the scales, one or one per column of b; None if it is no such product.

    `along`: the dimension of the columns in the codes of b behind the views.
    """
    left, right = (known_items(f.dequantize.inputs[1]) for f in (a, b))
    if left is None or right is None or left.size != 1:
        return None
    right = np.asarray(right, np.float64)
    if right.size > 1:
        if b.views and not _adds_leading(b):
            return None
        dims = b.dequantize.output.type.dims
        padded = right.reshape(right.shape + (1,) * (len(dims) - right.ndim))
        columns = padded.shape[along]
        if columns != padded.size:
            return None
        right = right.reshape((1,) * (rank - 1) + (columns,))
    else:
        right = right.reshape(())
    return right * float(left.reshape(()))


def _adds_leading(factor: _Factor) -> bool:
    """Whether the views only add or remove dimensions of extent 1 in front of the matrix."""
    before, after = factor.dequantize.output.type.dims, factor.shape
    return before[-2:] == after[-2:] and all(n == 1 for n in (*before[:-2], *after[:-2]))


def _one_zero(graph: Graph, op: Op, factor: _Factor) -> Value | None:
    """The zero point as one number; None if there are several."""
    zero = factor.dequantize.inputs[2]
    if not zero.type.rank:
        return zero
    items = known_items(zero)
    if items is None or items.size == 0 or (items != items.flat[0]).any():
        return None
    type_ = TensorType(zero.type.dtype, ())
    return graph.insert(constant_op(items.flat[0], type_, op.location), op).output


def _viewed(graph: Graph, op: Op, factor: _Factor) -> Value:
    """The codes behind the views."""
    codes = factor.dequantize.inputs[0]
    if not factor.views:
        return codes
    attributes = {"shape": factor.shape}
    return build(graph, "reshape", [codes], attributes, before=op, location=op.location).output
