"""Inputs, weights, constants, ranges, submodels; casts between item types."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import MAX_FOLDED_ITEMS, OpBuilder, converted
from nnefc.frontends.common.operand_checks import check_shape
from nnefc.frontends.common.operators.ranges import arithmetic_sequence
from nnefc.frontends.common.values import (
    ComplexTensor,
    DatumType,
    KnownTensor,
    Operand,
    OperatorError,
    QuantizedTensor,
    StringTensor,
    datum_type,
    extents,
    integers,
    named_type,
    operand,
)
from nnefc.frontends.tract.quantization import as_real, from_codes, quantize
from nnefc.frontends.tract.registry import operator
from nnefc.frontends.tract.submodels import submodel
from nnefc.ir import DType, Value
from nnefc.ops.core.interface import sequence


@operator("tract_nnef")
def external(make: OpBuilder, shape: Any) -> Any:
    context = make.evaluator.context
    return context.model.external(context.target, datum_type(make.dtype or "scalar"), shape)


@operator("tract_core")
def tract_core_external(make: OpBuilder, shape: Any, datum_type: Any = "f32") -> Any:
    context = make.evaluator.context
    return context.model.external(context.target, named_type(datum_type), shape)


@operator("tract_nnef", quantized=True)
def variable(make: OpBuilder, label: Any, shape: tuple[int, ...]) -> Any:
    if not isinstance(label, str):
        raise OperatorError("operator/attribute", f"label: a string is expected, not {label!r}")
    check_shape(make, "shape", shape, DType.UINT8)
    context = make.evaluator.context
    items = context.model.weights.variable(make, label, shape)
    datum: DatumType | None = context.quantized_types.get(context.target)
    if (
        datum is None
        or isinstance(items, ComplexTensor | StringTensor)
        or not items.type.dtype.is_integer
    ):
        return items
    return from_codes(make, items, datum)


@operator("tract_nnef")
def constant(make: OpBuilder, shape: tuple[int, ...], value: Any) -> Any:
    items = operand(value)
    if not isinstance(items, KnownTensor):
        raise OperatorError("operator/attribute", "the items of a constant are literals")
    array = items.array.reshape(-1)
    dtype = datum_type(make.dtype).dtype if make.dtype else items.dtype
    check_shape(make, "shape", shape, dtype)
    if array.size == 1 and math.prod(shape) > MAX_FOLDED_ITEMS:
        number = (converted(array, dtype)[0].item(),)
        return make("constant", shape=shape, value=number, dtype=dtype)
    try:
        full = np.broadcast_to(array, shape) if array.size == 1 else array.reshape(shape)
    except ValueError:
        message = f"{array.size} values do not fill a tensor of shape {list(shape)}"
        raise OperatorError("argument/constant", message) from None
    return make.cast(KnownTensor(full, items.dtype), dtype)


@operator("tract_core", quantized=True)
def tract_core_cast(make: OpBuilder, input: Any, to: Any = "") -> Any:
    """Conversion to an item type; without `to` that of the result in graph.quant."""
    if to == "":
        return input
    datum = named_type(to)
    if datum.scale is not None:
        return quantize(make, as_real(make, input), datum)
    x = make.cast(as_real(make, input), datum.dtype)
    if isinstance(x, KnownTensor):
        return KnownTensor(x.array, x.dtype, datum.is_extent)
    if make.known.get(x, datum.is_extent) is not datum.is_extent:
        x = make("cast", x, dtype=datum.dtype)  # a new tensor, marked as (no) extent
        make.known[x] = datum.is_extent
    return x


@operator("tract_core", quantized=True)
def tract_core_shape_of(make: OpBuilder, input: Any) -> Any:
    """The extents of a tensor, as a known tensor of rank 1."""
    tensor = input.codes if isinstance(input, QuantizedTensor) else operand(input)
    return extents(tensor.type.dims)


@operator("tract_core")
def tract_core_range(make: OpBuilder, start: Any, end: Any, step: Any = 1) -> Any:
    """start, start + step, ... before `end`.

    If `start` is computed at run time, `end` is known and `step` is 1, the result has extent `end`,
    and the graph counts the valid items; `start` must then not be negative.
    """
    bounds = operand(start), operand(end), operand(step)
    if (
        isinstance(bounds[0], Value)
        and isinstance(bounds[1], KnownTensor)
        and integers(step) == (1,)
    ):
        return _counted_range(make, bounds[0], integers(end)[0])
    dtype = make.unified(*bounds)[0].type.dtype
    return arithmetic_sequence(make, *bounds, dtype)


def _counted_range(make: OpBuilder, start: Operand, end: int) -> Operand:
    """start, start + 1, ... before `end`, with room for `end` items and their counted number."""
    first = make.cast(make.reshape(start, (1,)), DType.INT64)
    if end <= 0:
        return KnownTensor(np.zeros(0, np.int64), DType.INT64)
    result = make("add", make.iota(end), first)
    count = make("clamp", make("sub", end, first), 0, end)
    make.counted[result] = 0, make.value(make.reshape(count, ()))
    return make.cast(result, start.type.dtype)


@operator("tract_core", quantized=True)
def tract_core_submodel(make: OpBuilder, input: Any, label: str) -> Any:
    """The results of a model in a folder or an archive beside the document."""
    model = make.evaluator.context.model
    return submodel(model, make, label, sequence(input) or [input])
