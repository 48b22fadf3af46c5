"""Codes in the files of variables, whose quantization is only in the quantization file.

Codes of 8 and 16 bits stay codes: the variable has their type, and `dequantize` follows it.  Other
codes are decoded while they are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nnefc.ir import DType, Graph, Location, Op, TensorType, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.extended.quantized import code_limits
from nnefc.ops.standard.quantization import are_whole, limits_of_codes, steps_of_range

RANGES: Final = ("linear_quantize", "min_max_linear_quantize")
CODES: Final = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)
"""Types of codes that stay."""


@dataclass(frozen=True, slots=True)
class Codes:
    """How codes stand for reals: (code - zero) scale, for codes from `first` to `last`.

    Scales and zero points are one number each, or one for each index of the first dimension.
    """

    scale: Array
    zero: Array
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class StoredCodes:
    """The codes of a variable by an algorithm and its arguments, numbers or tuples per channel."""

    algorithm: str
    arguments: Mapping[str, Any]
    may_stay: bool = False
    """Whether the variable may be one of codes."""

    def _numbers(self, name: str) -> Array:
        return np.asarray(flat(self.arguments[name]), np.float64)

    def kept(self, codes: Array, dtype: DType) -> Codes | None:
        """How codes stand for reals of type `dtype` without being decoded; None if they cannot."""
        kind = np.dtype(codes.dtype).name
        if not self.may_stay or dtype is not DType.FLOAT32 or kind not in [t.value for t in CODES]:
            return None
        found = self._codes(DType(kind))
        if found is None:
            return None
        sizes = {x.size for x in (found.scale, found.zero)} - {1}
        low, high = code_limits(DType(kind))
        is_inside = (found.first, found.last) == (low, high) or not codes.size
        is_inside |= found.first <= codes.min(initial=high) <= codes.max(initial=low) <= found.last
        fits = not sizes or (codes.ndim > 0 and sizes == {codes.shape[0]})
        return found if fits and is_inside else None

    def _codes(self, dtype: DType) -> Codes | None:
        """The parameters of codes of type `dtype`; None if 0 is none of them."""
        if self.algorithm not in (*RANGES, "zero_point_linear_quantize"):
            return None
        bits: int = self.arguments["bits"]
        signs = {name: bool(self.arguments.get(name, False)) for name in ("signed", "symmetric")}
        if not 1 < bits <= 16 or (bits > 8) != (dtype.itemsize > 1):
            return None
        if self.algorithm in RANGES:
            low, high = self._numbers("min"), self._numbers("max")
            steps = steps_of_range(bits, **signs)
            first = -(2 ** (bits - 1) - all(signs.values())) if dtype.is_signed else 0
            scale, last = (high - low) / steps, first + int(steps)
            with np.errstate(all="ignore"):
                zero = first - low / scale
        else:
            scale, zero = self._numbers("scale"), self._numbers("zero_point")
            first, last = map(int, limits_of_codes(bits, **signs))
        least, most = code_limits(dtype)
        is_positive = bool((scale > 0).all() and np.isfinite(scale).all())
        if not is_positive or not are_whole(zero, bits):
            return None
        zero = np.rint(zero)
        return Codes(scale, zero, first, last) if _within(zero, least, most) else None

    def decoded(self, codes: Array) -> Array:
        """The reals in float32."""

        def per_channel(name: str) -> Any:
            items = self._numbers(name)
            if items.size == 1 or codes.ndim == 0:
                return items[0]
            return items.reshape(-1, *[1] * (codes.ndim - 1))

        q, arguments = codes.astype(np.float64), self.arguments
        if self.algorithm == "zero_point_linear_quantize":
            x = (q - per_channel("zero_point")) * per_channel("scale")
        elif self.algorithm == "logarithmic_quantize":
            top = np.ceil(np.log2(per_channel("max")))
            x = 2.0 ** (q + top - (2.0 ** arguments["bits"] - 1))
        else:
            bits, low, high = arguments["bits"], per_channel("min"), per_channel("max")
            narrow = arguments.get("signed", False) and arguments.get("symmetric", False)
            levels = 2.0**bits - (2 if narrow else 1)
            if codes.dtype.kind == "i":
                q = q + (2.0 ** (bits - 1) - (1 if narrow else 0))
            x = q / levels * (high - low) + low
        return x.astype(np.float32)


def _within(numbers: Array, least: int, most: int) -> bool:
    return bool(((numbers >= least) & (numbers <= most)).all())


def flat(argument: Any) -> tuple[Any, ...]:
    """The items of (nested) tuples; a number is one item."""
    if not isinstance(argument, tuple):
        return (argument,)
    items: list[Any] = []
    for item in argument:  # pyright: ignore[reportUnknownVariableType]
        items += flat(item)
    return tuple(items)


def single_variables(graph: Graph) -> set[Op]:
    """The variables that no other operation has the label of, and that are not updated."""
    variables = [op for op in graph.ops if op.name == "variable"]
    labels = Counter(op.attributes["label"].lower() for op in variables)
    updated = {op.inputs[0].op for op in graph.ops if op.name == "update"}
    return {
        op for op in variables if labels[op.attributes["label"].lower()] == 1 and op not in updated
    }


def dequantized(
    graph: Graph, value: Value, codes: StoredCodes, before: Op | None, location: Location | None
) -> Value | None:
    """The reals of codes that are the data of a variable, of which `value` is the result.

    None if its data are reals or missing.  Inserted before an operation, or at the end.
    """
    op = value.op
    assert op is not None
    variable = graph.variables[op.attributes["label"].lower()]
    if variable.data is None or variable.type.dtype is value.type.dtype:
        return None
    found = codes.kept(variable.data, value.type.dtype)
    assert found is not None, "codes stay that may"
    stored = graph.insert(
        Op("variable", (), op.attributes, [variable.type], (), op.location), before
    )
    operands = [stored.output]
    for numbers, dtype in ((found.scale, value.type.dtype), (found.zero, variable.type.dtype)):
        shape = numbers.shape if numbers.size > 1 else ()
        attributes = {"shape": shape, "value": tuple(numbers.tolist())}
        made = Op("constant", (), attributes, [TensorType(dtype, shape)], (), location)
        operands.append(graph.insert(made, before).output)
    return graph.insert(Op("dequantize", operands, {}, [value.type], (), location), before).output
