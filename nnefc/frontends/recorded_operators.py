"""Evaluate the operators of TensorFlow Lite that converted models record in standard operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnefc.frontends.common.values import Array, KnownTensor, Operand, operand
from nnefc.ir import DType
from nnefc.ops.core.interface import sequence

if TYPE_CHECKING:
    from nnefc.frontends.common.op_builder import OpBuilder


def evaluate_record(make: OpBuilder, record: Any, inputs: Sequence[Operand]) -> Operand:
    """The codes of a recorded operator, an `EvaluateRecord`."""
    from nnefc.formats.tflite.model import Operator
    from nnefc.frontends.tflite import registry

    records: list[Any] = record["inputs"]
    values = iter(inputs)
    given = [None if each is None else _input(make, each, values) for each in records]
    indices = tuple(-1 if each is None else i for i, each in enumerate(records))
    name, table, options = record["operator"], record["table"], record["options"]
    version = record["version"]
    operator = Operator(0, name, "", version, indices, (len(records),), table, options)
    tensors = tuple(None if each is None else _tensor(each) for each in records)
    node = registry.Node(operator, tensors, (_tensor(record["output"]),))
    function = registry.find(node)
    if function is None:
        raise ValueError(f"there is no operator {operator.name} for these item types")
    positional, named = registry.bind(function, given, node)
    with np.errstate(all="ignore"):  # scales that no converter writes
        found = function.function(make, *positional, **named)
    (result,) = sequence(found) or [found]
    codes = operand(result)
    if codes.type.dtype is not _dtype(record["output"]):
        raise ValueError(f"it computes {codes.type}")
    return codes


def _dtype(record: Any) -> DType:
    return DType.INT8 if record["type"] == "INT4" else DType[record["type"]]


def _tensor(record: Any) -> Any:
    """A tensor of the file, as the record has it."""
    from nnefc.formats.tflite.model import Quantization, Tensor

    scales = tuple(float(np.float32(each)) for each in record.get("scale", ()))
    zeros = tuple(record.get("zero_point", ()))
    zeros = zeros * len(scales) if len(zeros) == 1 else zeros
    quantization = Quantization(scales, zeros, int(record.get("axis", 0))) if scales else None
    shape = tuple(map(int, record["shape"]))
    name = str(record.get("name", ""))
    return Tensor(0, name, str(record["type"]), shape, (), None, quantization)


def _input(make: OpBuilder, record: Any, values: Iterator[Operand]) -> Operand:
    """An input of the operator: items of the record, or the next of `values`, turned back."""
    dtype, shape = _dtype(record), tuple(record["shape"])
    if "items" in record:
        return KnownTensor(np.array(record["items"], dtype.numpy).reshape(shape), dtype)
    x = next(values)
    if "rounded" in record:
        if not isinstance(x, KnownTensor):
            raise ValueError(f"'{record['name']}' is computed")
        return KnownTensor(rounded(x.array, record), dtype)
    if "turned" in record:
        x = make.transpose(x, tuple(record["turned"]))
    is_other = "turned" in record and x.type.dims != shape
    if x.type.dtype is not dtype or x.type.rank != len(shape) or is_other:
        raise ValueError(f"'{record['name']}' is {x.type}")
    return x


def rounded(reals: Array, record: Mapping[str, Any]) -> Array:
    """The codes of a constant that a model has as reals: of a bias, for example.

    Raises ValueError for reals without codes.
    """
    shape, limits = tuple(record["shape"]), np.iinfo(_dtype(record).numpy)

    def per_channel(numbers: Any) -> Array:
        items = np.array(numbers).astype(np.float64)
        if items.size == 1:
            return items.reshape(())
        axis = int(record["axis"])
        return items.reshape([-1 if i == axis else 1 for i in range(len(shape))])

    zero = per_channel(record["zero_point"])
    with np.errstate(all="ignore"):
        items = reals.astype(np.float64).reshape(shape) / per_channel(
            np.array(record["scale"], np.float32)
        )
        codes = np.rint(items) + zero
    if not ((limits.min <= codes) & (codes <= limits.max)).all():
        raise ValueError(f"'{record['name']}' has no codes of this scale")
    return codes.astype(limits.dtype)
