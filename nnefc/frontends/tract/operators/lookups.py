"""Lookup tables: values by index, and indices by key.

Strings are looked up while the model is read only; graphs have no strings.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder, converted
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.operators.binary_search import count_before
from nnefc.frontends.common.values import (
    Array,
    KnownTensor,
    Operand,
    OperatorError,
    StringTensor,
    operand,
    strings,
    widest,
)
from nnefc.frontends.tract.registry import operator
from nnefc.ir import DType

_DIRECT: Final = "argument/ml_direct_lookup"
_REVERSE: Final = "argument/ml_reverse_lookup"


@operator("tract_onnx")
def tract_onnx_ml_direct_lookup(make: OpBuilder, input: Operand, values: Any, fallback: Any) -> Any:
    """The items of `values` at the indices in `input`; `fallback` where an index is out of range.

    Values are numbers, or strings if the input is known before the model runs.
    """
    if not input.type.dtype.is_integer:
        raise OperatorError(
            _DIRECT, f"input has items of type {input.type.dtype}; integers are expected"
        )
    texts, other = strings(values), strings(fallback)
    if texts is not None or other is not None:
        return _strings_at(make, input, texts, other)
    table = operand(values)
    table = make.reshape(table, (table.type.volume,))
    instead = _fallback_item(make, operand(fallback), table.type.dtype)
    count = table.type.volume
    if count == 0:
        return _filled(make, instead, input.type.dims)
    index = make.cast(input, DType.INT64)
    is_there = make("and", make("ge", index, 0), make("lt", index, count))
    item = make("gather", table, make("select", is_there, index, 0), axis=0)
    return make("select", is_there, item, instead)


@operator("tract_onnx")
def tract_onnx_ml_reverse_lookup(make: OpBuilder, input: Any, keys: Any, fallback: int) -> Any:
    """For each item of the input the index of the first equal key; `fallback` if none is equal.

    Strings must be known before the model runs.
    """
    if not -(1 << 31) <= fallback < 1 << 31:
        raise OperatorError(_REVERSE, f"fallback = {fallback} does not fit in 32 bits")
    texts, needles = strings(keys), strings(input)
    if texts is not None or needles is not None:
        return _string_indices(make, needles, texts, fallback)
    instead = KnownTensor(np.array(fallback, np.int32), DType.INT32)
    x, table = operand(input), operand(keys)
    count = table.type.volume
    if count == 0:
        return _filled(make, instead, x.type.dims)
    x, table = _comparable(make, x, table)
    ordered, positions = make("topk", make.reshape(table, (count,)), k=count, axis=0, largest=False)

    def is_before(index: Operand) -> Operand:
        return make("lt", make("gather", ordered, index, axis=0), x)

    none = _filled(make, KnownTensor(np.array(0, np.int64), DType.INT64), x.type.dims)
    at = count_before(make, none, count, is_before)
    is_there = make("eq", make("gather", ordered, at, axis=0), x)
    number = make.cast(make("gather", positions, at, axis=0), DType.INT32)
    return make("select", is_there, number, instead)


def _fallback_item(make: OpBuilder, fallback: Operand, dtype: DType) -> Operand:
    """The fallback as a scalar of type `dtype`; raises OperatorError if it does not fit."""
    if fallback.type.volume != 1:
        message = f"fallback has shape {list(fallback.type.dims)}; one item is expected"
        raise OperatorError(_DIRECT, message)
    one = make.reshape(fallback, ())
    is_literal = isinstance(one, KnownTensor) and one.is_extent
    if not is_literal and one.type.dtype.is_float is not dtype.is_float:
        message = f"values have items of type {dtype}, and fallback is of type {one.type.dtype}"
        raise OperatorError(_DIRECT, message)
    if isinstance(one, KnownTensor) and dtype.is_integer:
        number = one.array.item()
        if converted(one.array, dtype).item() != number:
            raise OperatorError(_DIRECT, f"fallback = {number} does not fit in {dtype}")
    return make.cast(one, dtype)


def _filled(make: OpBuilder, one: Operand, shape: tuple[int, ...]) -> Operand:
    """A tensor whose items are all the item `one`."""
    return make.repeated(make.reshape(one, (1,) * len(shape)), shape)


def _comparable(make: OpBuilder, x: Operand, keys: Operand) -> tuple[Operand, Operand]:
    """Both cast to a common ordered type without loss; raises OperatorError."""
    of_rank("ml_reverse_lookup", "keys", keys, 0, 1)
    dtypes = {x.type.dtype, keys.type.dtype}
    if len(dtypes) > 1:
        are_real = {dtype.is_float for dtype in dtypes}
        if len(are_real) > 1 or DType.UINT64 in dtypes:
            message = f"input has items of type {x.type.dtype}, and keys of type {keys.type.dtype}"
            raise OperatorError(_REVERSE, message, "tract_core_cast makes them the same")
        dtypes = {widest([*dtypes]) if True in are_real else DType.INT64}
    (dtype,) = dtypes
    dtype = DType.UINT8 if dtype is DType.BOOL else dtype
    return make.cast(x, dtype), make.cast(keys, dtype)


# -- strings


def _strings_at(
    make: OpBuilder, input: Operand, values: StringTensor | None, fallback: StringTensor | None
) -> StringTensor:
    """`tract_onnx_ml_direct_lookup` of strings; raises OperatorError."""
    if values is None or fallback is None or fallback.array.size != 1:
        message = "values and fallback must both be strings, and fallback a single one"
        raise OperatorError(_DIRECT, message)
    if not isinstance(input, KnownTensor) or input.is_symbolic:
        message = "its results are strings, which must be known before the model runs"
        raise OperatorError("operator/unsupported", message)
    make.budget.take_items(input.array.size)
    table, instead = values.array.reshape(-1).tolist(), fallback.array.reshape(-1)[0]
    texts: Array = np.empty(input.array.size, object)
    for i, index in enumerate(input.array.reshape(-1).tolist()):
        texts[i] = table[index] if 0 <= index < len(table) else instead
    return StringTensor(texts.reshape(input.array.shape))


def _string_indices(
    make: OpBuilder, input: StringTensor | None, keys: StringTensor | None, fallback: int
) -> KnownTensor:
    """`tract_onnx_ml_reverse_lookup` of strings; raises OperatorError."""
    if input is None or keys is None:
        what = "keys" if input is None else "input"
        raise OperatorError(_REVERSE, f"{what}: strings cannot be compared with numbers")
    make.budget.take_items(input.array.size + keys.array.size)
    numbers: dict[str, int] = {}
    for number, key in enumerate(keys.array.reshape(-1).tolist()):
        numbers.setdefault(key, number)
    indices = [numbers.get(text, fallback) for text in input.array.reshape(-1).tolist()]
    return KnownTensor(np.array(indices, np.int32).reshape(input.array.shape), DType.INT32)
