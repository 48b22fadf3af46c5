"""Multiply codes instead of the reals that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from nnefc.ir import DType, Graph, Op, Shape, TensorType, Value
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

    where %3 is the product of the scales, computed in float64 and rounded once if they are known.
    The scale and the zero point of %a may be computed, as in dynamic quantization, and vary along
    rows.  The operations behind the product, such as the rounding to codes, stay; they are fused
    into an epilogue later.
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
    sums, scales = found
    type_ = TensorType(DType.FLOAT32, op.output.type.dims)
    y = graph.insert(Op("cast", [sums.output], {}, [type_], location=op.location), op)
    for factor in scales.factors(graph, op):
        y = build(graph, "mul", [y.output, factor], before=op, location=op.location)
    y.output.name = op.output.name
    replace(graph, op, [y.output])
    return True


def _product_of_codes(graph: Graph, op: Op, known: KnownValues) -> tuple[Op, _Scales] | str:
    """The product of the codes, inserted before `op`, and its scales; or why there is none."""
    a, b = map(_factor, op.inputs)
    if a is None or b is None:
        return "an operand has no codes"
    names = ("transposeA", "transposeB")
    flags = {n: op.attributes[n] != f.transposed for n, f in zip(names, (a, b), strict=True)}
    per_row = not flags["transposeA"]
    scales = _scales(graph, op, a, b, -2 if flags["transposeB"] else -1, per_row=per_row)
    if scales is None:
        return "a scale varies along the sum, or that of the second matrix is computed"
    if scales.exceed_float32():
        return "the product of the scales exceeds float32"
    zeros = [_one_zero(graph, op, f) for f in (a, b)]
    if zeros[0] is None and per_row:
        zeros[0] = _of_rows(graph, op, a, a.dequantize.inputs[2])
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
            new = build(graph, new.name, operands, flags, before=op, location=op.location)
            return new, scales
        reason = "sums may exceed int32"
    if reason is None:
        return new, scales
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


@dataclass(frozen=True, slots=True)
class _Scales:
    """The scales of a product of codes."""

    rows: Value | float
    """That of A: one, or one per row if it is a tensor [.., rows, 1]."""
    columns: Array
    """That of B: one, or one per column."""

    def exceed_float32(self) -> bool:
        """Whether float32 cannot hold the product of known scales."""
        known = not isinstance(self.rows, Value)
        return known and quantized.exceeds_float32(self.columns * self.rows)

    def factors(self, graph: Graph, before: Op) -> list[Value]:
        """The scales as tensors that the sums are multiplied by."""
        location = before.location

        def constant(items: Array) -> Value:
            type_ = TensorType(DType.FLOAT32, items.shape)
            return graph.insert(constant_op(items, type_, location), before).output

        if not isinstance(self.rows, Value):
            return [constant(self.columns * self.rows)]
        columns = constant(self.columns)
        if self.rows.type.volume != 1:
            return [self.rows, columns]
        both = build(graph, "mul", [columns, self.rows], before=before, location=location)
        return [both.output]


def _scales(
    graph: Graph, op: Op, a: _Factor, b: _Factor, along: int, *, per_row: bool
) -> _Scales | None:
    """The scales of the product `op`; None if there is no product of codes with such scales.

    `along`: the dimension of the columns in the codes of b behind the views.  `per_row`: whether
    the rows of the codes of a are those of the result.
    """
    left, right = (known_items(f.dequantize.inputs[1]) for f in (a, b))
    columns = None if right is None else _of_columns(b, np.asarray(right, np.float64), along, op)
    if columns is None:
        return None
    if left is not None and left.size == 1:
        return _Scales(float(left.reshape(())), columns)
    scale = a.dequantize.inputs[1]
    rows = _one(graph, op, scale) or (_of_rows(graph, op, a, scale) if per_row else None)
    return None if rows is None else _Scales(rows, columns)


def _of_columns(b: _Factor, scale: Array, along: int, op: Op) -> Array | None:
    """A known scale of b, one or one per column of the result of `op`; None for others."""
    if scale.size == 1:
        return scale.reshape(())
    if b.views and not _adds_leading(b):
        return None
    dims = b.dequantize.output.type.dims
    padded = scale.reshape(scale.shape + (1,) * (len(dims) - scale.ndim))
    columns = padded.shape[along]
    if columns != padded.size:
        return None
    return scale.reshape((1,) * (op.output.type.rank - 1) + (columns,))


def _one(graph: Graph, op: Op, parameter: Value) -> Value | None:
    """A parameter with one item, in rank 0; None for others."""
    if parameter.type.volume != 1:
        return None
    return _reshaped(graph, op, parameter, ())


def _of_rows(graph: Graph, op: Op, a: _Factor, parameter: Value) -> Value | None:
    """A parameter of each row of the codes behind the views; None if it varies along the sum."""
    dims, shape = a.dequantize.output.type.dims, a.shape
    padded = (*parameter.type.dims, *(1,) * (len(dims) - parameter.type.rank))
    if not dims or padded[-1] != 1:
        return None
    if not a.views:
        return _reshaped(graph, op, parameter, padded)
    if padded[:-1] != dims[:-1] or shape[-1] != dims[-1]:
        return None
    return _reshaped(graph, op, parameter, (*shape[:-1], 1))


def _reshaped(graph: Graph, op: Op, value: Value, shape: Shape) -> Value:
    if value.type.dims == shape:
        return value
    attributes = {"shape": shape}
    return build(graph, "reshape", [value], attributes, before=op, location=op.location).output


def _adds_leading(factor: _Factor) -> bool:
    """Whether the views only add or remove dimensions of extent 1 in front of the matrix."""
    before, after = factor.dequantize.output.type.dims, factor.shape
    return before[-2:] == after[-2:] and all(n == 1 for n in (*before[:-2], *after[:-2]))


def _one_zero(graph: Graph, op: Op, factor: _Factor) -> Value | None:
    """The zero point as one number; None if there are several."""
    zero = factor.dequantize.inputs[2]
    items = known_items(zero)
    if items is None:
        return _one(graph, op, zero)
    if not zero.type.rank:
        return zero
    if items.size == 0 or (items != items.flat[0]).any():
        return None
    type_ = TensorType(zero.type.dtype, ())
    return graph.insert(constant_op(items.flat[0], type_, op.location), op).output


def _viewed(graph: Graph, op: Op, factor: _Factor) -> Value:
    """The codes behind the views."""
    codes = factor.dequantize.inputs[0]
    return _reshaped(graph, op, codes, factor.shape) if factor.views else codes
