"""The values of expressions while a graph is built, and the item types of tract.

An expression is a tensor, either a `Value` of the graph or a `KnownTensor`; a Python number (a
literal, or computed from literals); a string; or a tuple of these, for arrays and tuples alike.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from nnefc.ir import DType, TensorType, Value
from nnefc.symbolic.integers import SymInt, hint

Array = np.ndarray[Any, Any]


class OperatorError(Exception):
    """What an operator cannot do with its arguments."""

    def __init__(self, rule: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True, eq=False)
class KnownTensor:
    """A tensor whose items are known now.

    `is_extent`: its items are of tract's type `tdim`, for extents; their arithmetic is that of
    integers, and they become of whatever type they are combined with.

    Items that depend on symbols (`nnefc.symbolic.integers`) are in an array of objects, of the type
    int64.
    """

    array: Array
    dtype: DType
    is_extent: bool = False

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, self.array.shape)

    @property
    def is_symbolic(self) -> bool:
        """Whether items depend on symbols."""
        return self.array.dtype == object and self.dtype is DType.INT64


class EmptyTensor(KnownTensor):
    """A tensor without items; its extents are plain numbers only if its array is asked for."""

    __slots__ = ("_dims",)

    def __init__(self, type_: TensorType) -> None:
        object.__setattr__(self, "_dims", type_.dims)
        object.__setattr__(self, "dtype", type_.dtype)
        object.__setattr__(self, "is_extent", False)

    @property
    def array(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.zeros(self._dims, self.dtype.numpy)

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, self._dims)

    @property
    def is_symbolic(self) -> bool:
        return False


MOST_RANK: Final = 64
"""Of NumPy's arrays."""


def check_rank(rank: int) -> None:
    """Raise OperatorError for a rank that no array has."""
    if rank > MOST_RANK:
        message = f"a tensor of rank {rank}; those that are known have at most {MOST_RANK}"
        raise OperatorError("limit/rank", message)


Scale = float | tuple[float, ...]
"""Of all items of a tensor, or of each index of the first dimension, as weights have them."""


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedTensor:
    """A tensor of codes that stand for (code - zero_point) * scale."""

    codes: Value | KnownTensor
    scale: Scale
    zero_point: int

    @property
    def type(self) -> TensorType:
        return self.codes.type


@dataclass(frozen=True, slots=True, eq=False)
class ComplexTensor:
    """A complex tensor: one whose last dimension holds real and imaginary parts."""

    parts: Value | KnownTensor

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape, without the dimension of the parts."""
        return self.parts.type.dims[:-1]

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def wrong(self) -> OperatorError:
        hint = "tract_core_complex_to_inner_dim makes its parts a last dimension"
        return OperatorError("tract/unsupported", "complex tensors are not possible here", hint)


@dataclass(frozen=True, slots=True, eq=False)
class StringTensor:
    """Strings of a tensor file, or of literals; operators that look something up take them."""

    array: Array
    name: str = ""

    def __repr__(self) -> str:
        return f"'{self.name}'" if self.name else repr(self.array.tolist())

    @property
    def wrong(self) -> OperatorError:
        return OperatorError(
            "data/type", f"{self!r} holds strings, which are no tensor to compute with"
        )


def strings(value: Any) -> StringTensor | None:
    """What is strings, or arrays of them alone."""
    if isinstance(value, StringTensor):
        return value
    if isinstance(value, str):
        return StringTensor(np.array(value, object))
    if not isinstance(value, tuple) or not value:
        return None
    items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
    parts = [strings(item) for item in items]
    found = [part.array for part in parts if part is not None]
    if len(found) < len(parts) or len({part.shape for part in found}) > 1:
        return None
    return StringTensor(np.stack(found))


@dataclass(frozen=True, slots=True)
class UnboundSymbol:
    """An extent that no input tells, as symbols of the past are; operators may only ignore it."""

    symbol: str

    def __repr__(self) -> str:
        return self.symbol

    @property
    def wrong(self) -> OperatorError:
        return OperatorError(
            "tract/symbol", f"symbol '{self.symbol}' has no value: no input tells it"
        )


Operand = Value | KnownTensor
"""A tensor, as operators take it."""
Number = bool | int | float
Result = Operand | tuple[Operand, ...]

_NAMES: Final = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "scalar": "float32",
    "integer": "int64",
    "logical": "bool",
    "bool": "bool",
    "string": "str",
    "tdim": "int64",
    **{f"{kind}{bits}": f"{word}int{bits}" for kind, word in (("i", ""), ("u", "u"))
       for bits in (8, 16, 32, 64)},
}  # fmt: skip
_QUANTIZED = re.compile(r"q([iu])(8|32)\(z:(-?\d+)s:([-+.e\d]+)\)")

_WIDEST_FIRST: Final = (
    "float64 float32 float16 bfloat16 int64 uint64 int32 uint32 int16 uint16 int8 uint8 bool"
)
WIDTHS: Final = tuple(DType(n) for n in _WIDEST_FIRST.split() if n in DType._value2member_map_)
"""Item types; two operands of different types take the one that comes first."""


@dataclass(frozen=True, slots=True)
class DatumType:
    """An item type as tract names it: `f32`, `tdim`, `qu8(Z:0 S:0.1)`; case does not matter."""

    dtype: DType
    is_extent: bool = False
    scale: Scale | None = None
    zero_point: int = 0


def datum_type(name: str) -> DatumType:
    """The item type of a name; raises OperatorError."""
    plain = name.lower()
    found = _NAMES.get(plain)
    if found is not None:
        return DatumType(DType(found), plain == "tdim")
    codes = _QUANTIZED.fullmatch(plain.replace(" ", ""))
    if codes is not None:
        kind, bits, zero_point, scale = codes.groups()
        if not 0 < _real(scale) < math.inf:
            raise OperatorError("tract/type", f"{name!r}: the scale is a number greater than 0")
        dtype = DType(_NAMES[kind + bits])
        return DatumType(dtype, False, _real(scale), int(zero_point))
    hint = f"types are {', '.join(_NAMES)}"
    if plain.startswith("complex"):
        hint = "tract_core_inner_dim_to_complex takes real and imaginary parts in a last dimension"
    raise OperatorError("tract/type", f"there is no item type {name!r}", hint)


def _real(text: str) -> float:
    """The number that is written; NaN if none is."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def named_type(name: Any) -> DatumType:
    """The item type that an argument names; raises OperatorError."""
    if not isinstance(name, str):
        raise OperatorError("tract/type", f"the name of an item type is expected, not {name!r}")
    return datum_type(name)


def number(value: Number | SymInt) -> KnownTensor:
    """A literal as a tensor of rank 0."""
    if isinstance(value, bool):
        return KnownTensor(np.array(value), DType.BOOL)
    if isinstance(value, int | SymInt):
        if not -(1 << 63) <= hint(value) < 1 << 63:
            raise OperatorError("tract/number", f"{value} does not fit in 64 bits")
        return KnownTensor(integer_array(value), DType.INT64, is_extent=True)
    with np.errstate(over="ignore"):
        return KnownTensor(np.array(value, np.float32), DType.FLOAT32)


def extents(shape: Sequence[int]) -> KnownTensor:
    """A shape as a tensor of rank 1."""
    return KnownTensor(integer_array(shape), DType.INT64, is_extent=True)


def integer_array(items: Any) -> Array:
    """Integers as int64, or, if some depend on symbols, as they are."""
    array = np.array(items, object)
    symbolic = any(isinstance(item, SymInt) for item in array.flat)
    return array if symbolic else array.astype(np.int64)


def operand(value: Any) -> Operand:
    """Any value as a tensor: numbers have rank 0, arrays of numbers one more than their items."""
    if isinstance(value, Value | KnownTensor):
        return value
    if isinstance(value, bool | int | float | SymInt):
        return number(value)
    if isinstance(value, QuantizedTensor):
        raise OperatorError("tract/quantized", "this operator does not take quantized tensors")
    if isinstance(value, tuple):
        return _stacked(value)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, UnboundSymbol | StringTensor | ComplexTensor):
        raise value.wrong
    if value is None:
        raise OperatorError("tract/argument", "there is no tensor")
    raise OperatorError("tract/argument", f"{_shown(value)} is no tensor")


def _stacked(items: tuple[Any, ...]) -> KnownTensor:
    parts = [operand(item) for item in items]
    known = [part for part in parts if isinstance(part, KnownTensor)]
    if len(known) < len(parts):
        raise OperatorError(
            "tract/array", "an array of tensors is no tensor", "stack or concat makes one"
        )
    if len({part.array.shape for part in known}) > 1:
        raise OperatorError("tract/array", "the items of the array have different shapes")
    if not known:
        return KnownTensor(np.zeros(0, np.float32), DType.FLOAT32)
    check_rank(1 + known[0].array.ndim)
    dtype = widest([part.dtype for part in known])
    if any(part.is_symbolic for part in known) and dtype is DType.INT64:
        array = np.stack([part.array.astype(object) for part in known])
    else:
        array = np.stack([part.array.astype(dtype.numpy) for part in known])
    return KnownTensor(array, dtype, all(part.is_extent for part in known))


def _shown(value: Any) -> str:
    return f"the string {value!r}" if isinstance(value, str) else f"{value!r}"


def integers(value: Any) -> tuple[int, ...]:
    """Known integers: of an array, of a tensor, or a single one."""
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return tuple(i for item in items for i in integers(item))
    if isinstance(value, SymInt):
        return (cast(int, value),)
    if isinstance(value, bool | int):
        return (int(value),)
    if isinstance(value, float) and value.is_integer():
        return (int(value),)
    if isinstance(value, KnownTensor) and value.dtype is not DType.STRING:
        items = tuple(value.array.reshape(-1).tolist())
        return tuple(i for item in items for i in integers(item))
    raise _not_known(value, "integers")


def _not_known(value: Any, what: str) -> OperatorError:
    if isinstance(value, UnboundSymbol | StringTensor | ComplexTensor):
        return value.wrong
    if isinstance(value, Value):
        which = f"'{value.name}'" if value.name else "this tensor"
        return OperatorError(
            "tract/attribute",
            f"{what} are expected that are known before the model runs, but {which} is "
            "computed from its inputs",
        )
    shown = value.array.tolist() if isinstance(value, KnownTensor) else _shown(value)
    return OperatorError("tract/attribute", f"{shown} is no array of {what}")


def scalar(value: Any) -> float:
    """A known number."""
    if isinstance(value, bool | int | float | SymInt):
        return float(value)
    if isinstance(value, KnownTensor) and value.array.size == 1 and value.dtype is not DType.STRING:
        return float(value.array.reshape(()))
    if isinstance(value, tuple) and len(value) == 1:  # pyright: ignore[reportUnknownArgumentType]
        return scalar(value[0])
    raise _not_known(value, "numbers")


# -- item types of two operands


def widest(dtypes: Sequence[DType]) -> DType:
    """The type that all of these become where they meet."""
    first = next(dtype for dtype in WIDTHS if dtype in dtypes)
    narrower = {n for n in DType if n.value in ("float16", "bfloat16")}
    if narrower <= set(dtypes) and first in narrower:
        return DType.FLOAT32
    return first


Predicate = Callable[[Operand], bool]


def common_type(operands: Sequence[Operand], is_known: Predicate, is_extent: Predicate) -> DType:
    """The item type in which an operator with several operands computes.

    Equal types stay.  Extents become of the type of the others.  What is known follows what is not,
    a single number everything else; otherwise the wider type is taken.
    """

    def is_number(x: Operand) -> bool:
        return is_known(x) and x.type.volume == 1

    candidates = list(operands)
    for follows in (is_extent, is_number, is_known):
        leading = [x for x in candidates if not follows(x)]
        candidates = leading or candidates
        if len({x.type.dtype for x in candidates}) == 1:
            break
    return widest([x.type.dtype for x in candidates])
