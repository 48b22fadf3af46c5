"""The values of expressions while a graph is built, and the item types of tract.

A value is a tensor (a `Value` of the graph or a `KnownTensor`), a Python number (a literal, or
computed from literals), a string, or a tuple of these for an array or a tuple.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from nnefc.ir import DType, TensorType, Value
from nnefc.ops.extended.quantized import is_scale
from nnefc.symbolic.counted_extent import CountedExtent
from nnefc.symbolic.integers import SymInt, hint
from nnefc.symbolic.sym_int_base import Dim

Array = np.ndarray[Any, Any]

SYMBOLIC_TYPES: Final = (DType.INT64, DType.INT32)
"""Item types of tensors whose items may depend on symbols."""


class OperatorError(Exception):
    """An operator rejects its arguments; the evaluator adds the position.

    `unknown`: tensors whose items the operator must know while the graph is built.
    """

    def __init__(self, rule: str, message: str, hint: str = "", unknown: Any = ()) -> None:
        super().__init__(message)
        self.rule, self.message, self.hint = rule, message, hint
        self.unknown: list[Value] = [x for x in unknown if isinstance(x, Value)]


@dataclass(frozen=True, slots=True, eq=False)
class KnownTensor:
    """A tensor whose items are known while the graph is built.

    `is_extent`: its items have tract's type `tdim`, for extents: integers that take the type of
    the tensors they are combined with.  Items that depend on symbols (`nnefc.symbolic.integers`)
    are objects in an array whose `dtype` is one of `SYMBOLIC_TYPES`.  `name`: that of a weight with
    these items, in any shape, or "".
    """

    array: Array
    dtype: DType
    is_extent: bool = False
    name: str = ""

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, self.array.shape)

    @property
    def is_symbolic(self) -> bool:
        """Whether items depend on symbols."""
        return self.array.dtype == object and self.dtype in SYMBOLIC_TYPES


class EmptyTensor(KnownTensor):
    """A tensor without items; its extents may be symbolic until `array` is read."""

    __slots__ = ("_dims",)

    def __init__(self, type_: TensorType) -> None:
        object.__setattr__(self, "_dims", type_.dims)
        object.__setattr__(self, "dtype", type_.dtype)
        object.__setattr__(self, "is_extent", False)
        object.__setattr__(self, "name", "")

    @property
    def array(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.zeros(self._dims, self.dtype.numpy)

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, self._dims)

    @property
    def is_symbolic(self) -> bool:
        return False


def has_no_items(x: Value | KnownTensor) -> bool:
    """Whether a tensor has no items; tensors of a graph have some."""
    return isinstance(x, EmptyTensor) or (isinstance(x, KnownTensor) and x.array.size == 0)


MAX_RANK: Final = 64
"""The largest rank of NumPy arrays."""


def check_rank(rank: int) -> None:
    """Raise OperatorError for a rank that no NumPy array can have."""
    if rank > MAX_RANK:
        message = f"a constant tensor of rank {rank}; at most {MAX_RANK} is possible"
        raise OperatorError("limit/rank", message)


Scale = float | tuple[float, ...]
"""One scale for a tensor, or one per index of the first dimension, as in weights."""


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
    """A complex tensor: the last dimension of `parts` holds real and imaginary parts."""

    parts: Value | KnownTensor

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape without the last dimension of `parts`."""
        return self.parts.type.dims[:-1]

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def wrong(self) -> OperatorError:
        hint = "tract_core_complex_to_inner_dim makes its parts a last dimension"
        return OperatorError("operator/unsupported", "complex tensors are not possible here", hint)


@dataclass(frozen=True, slots=True, eq=False)
class StringTensor:
    """Strings from a tensor file or from literals, as keys of lookup operators."""

    array: Array
    name: str = ""

    def __repr__(self) -> str:
        return f"'{self.name}'" if self.name else repr(self.array.tolist())

    @property
    def wrong(self) -> OperatorError:
        return OperatorError(
            "data/type", f"{self!r} holds strings, which cannot be an operand here"
        )


def strings(value: Any) -> StringTensor | None:
    """A string, or an array of strings, as a tensor; None for other values."""
    if isinstance(value, StringTensor):
        return value
    if isinstance(value, str):
        return StringTensor(np.array(value, object))
    if not isinstance(value, tuple) or not value:
        return None
    items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
    tensors = [strings(item) for item in items]
    arrays = [tensor.array for tensor in tensors if tensor is not None]
    if len(arrays) < len(tensors) or len({array.shape for array in arrays}) > 1:
        return None
    return StringTensor(np.stack(arrays))


@dataclass(frozen=True, slots=True)
class UnboundSymbol:
    """A symbol that no input determines, such as the length of a cache; it cannot be an operand."""

    symbol: str

    def __repr__(self) -> str:
        return self.symbol

    @property
    def wrong(self) -> OperatorError:
        return OperatorError(
            "input/symbol", f"symbol '{self.symbol}' has no value: no input determines it"
        )


Operand = Value | KnownTensor
"""A tensor operand."""
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
"""Item types in order of promotion: the first one of two is their common type."""


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
    if (known := _NAMES.get(plain)) is not None:
        return DatumType(DType(known), plain == "tdim")
    codes = _QUANTIZED.fullmatch(plain.replace(" ", ""))
    if codes is not None:
        kind, bits, zero_point, scale = codes.groups()
        if not is_scale(_real(scale)):
            message = f"{name!r}: the scale must be positive and finite in float32"
            raise OperatorError("operator/type", message)
        return DatumType(DType(_NAMES[kind + bits]), False, _real(scale), int(zero_point))
    hint = f"types are {', '.join(_NAMES)}"
    if plain.startswith("complex"):
        hint = "tract_core_inner_dim_to_complex takes real and imaginary parts in a last dimension"
    raise OperatorError("operator/type", f"there is no item type {name!r}", hint)


def _real(text: str) -> float:
    """The number in `text`; NaN if it is not one."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def named_type(name: Any) -> DatumType:
    """The item type that an argument names; raises OperatorError."""
    if not isinstance(name, str):
        raise OperatorError("operator/type", f"the name of an item type is expected, not {name!r}")
    return datum_type(name)


def number(value: Number | SymInt) -> KnownTensor:
    """A literal as a tensor of rank 0."""
    if isinstance(value, bool):
        return KnownTensor(np.array(value), DType.BOOL)
    if isinstance(value, int | SymInt):
        if not -(1 << 63) <= hint(value) < 1 << 63:
            raise OperatorError("operator/number", f"{value} does not fit in 64 bits")
        return KnownTensor(integer_array(value), DType.INT64, is_extent=True)
    with np.errstate(over="ignore"):
        return KnownTensor(np.array(value, np.float32), DType.FLOAT32)


def extents(shape: Sequence[int]) -> KnownTensor:
    """A shape as a tensor of rank 1."""
    return KnownTensor(integer_array(shape), DType.INT64, is_extent=True)


def integer_array(items: Any) -> Array:
    """An array of int64, or of objects if some items are symbolic."""
    array = np.array(items, object)
    symbolic = any(isinstance(item, SymInt | CountedExtent) for item in array.flat)
    return array if symbolic else array.astype(np.int64)


def operand(value: Any) -> Operand:
    """A value as a tensor: a number has rank 0, an array one more than its items."""
    if isinstance(value, Value | KnownTensor):
        return value
    if isinstance(value, bool | int | float | SymInt):
        return number(value)
    if isinstance(value, QuantizedTensor):
        raise OperatorError("operator/quantized", "this operator does not take quantized tensors")
    if isinstance(value, tuple):
        return _stacked(value)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(wrong := getattr(value, "wrong", None), OperatorError):
        raise wrong
    if value is None:
        raise OperatorError("operator/argument", "an operand is missing")
    raise OperatorError("operator/argument", f"{_described(value)} is no tensor")


def _stacked(items: tuple[Any, ...]) -> KnownTensor:
    tensors = [operand(item) for item in items]
    known = [x for x in tensors if isinstance(x, KnownTensor)]
    if len(known) < len(tensors):
        raise OperatorError(
            "operator/array", "an array of tensors is no tensor", "stack or concat makes one"
        )
    if len({x.array.shape for x in known}) > 1:
        raise OperatorError("operator/array", "the items of the array have different shapes")
    if not known:
        return KnownTensor(np.zeros(0, np.float32), DType.FLOAT32)
    check_rank(1 + known[0].array.ndim)
    dtype = widest([x.dtype for x in known])
    if any(x.is_symbolic for x in known) and dtype is DType.INT64:
        array = np.stack([x.array.astype(object) for x in known])
    else:
        array = np.stack([x.array.astype(dtype.numpy) for x in known])
    return KnownTensor(array, dtype, all(x.is_extent for x in known))


def _described(value: Any) -> str:
    return f"the string {value!r}" if isinstance(value, str) else f"{value!r}"


def integers(value: Any) -> tuple[Dim, ...]:
    """The integers of an array, of a known tensor, or a single one; raises OperatorError."""
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return tuple(i for item in items for i in integers(item))
    if isinstance(value, SymInt):
        return (cast(Dim, value),)
    if isinstance(value, bool | int) and not isinstance(value, CountedExtent):
        return (int(value),)
    if isinstance(value, float) and value.is_integer():
        return (int(value),)
    if isinstance(value, KnownTensor) and value.dtype is not DType.STRING:
        items = tuple(value.array.reshape(-1).tolist())
        return tuple(i for item in items for i in integers(item))
    raise _not_known(value, "integers")


def _not_known(value: Any, what: str) -> OperatorError:
    if isinstance(wrong := getattr(value, "wrong", None), OperatorError):
        return wrong
    if isinstance(value, Value | CountedExtent):
        which = f"'{name}'" if (name := getattr(value, "name", "")) else "this tensor"
        message = f"{what} that are known before the model runs are expected, but {which} is "
        message += "computed from its inputs"
        return OperatorError("operator/attribute", message, "", [getattr(value, "count", value)])
    text = value.array.tolist() if isinstance(value, KnownTensor) else _described(value)
    return OperatorError("operator/attribute", f"{text} is no array of {what}")


def scalar(value: Any) -> float:
    """A known number, as float; raises OperatorError."""
    if isinstance(value, bool | int | float | SymInt):
        return float(value)
    if isinstance(value, KnownTensor) and value.array.size == 1 and value.dtype is not DType.STRING:
        return float(value.array.reshape(()))
    if isinstance(value, tuple) and len(value) == 1:  # pyright: ignore[reportUnknownArgumentType]
        return scalar(value[0])
    raise _not_known(value, "numbers")


# -- item types of two operands


def widest(dtypes: Sequence[DType]) -> DType:
    """The common type of items of these types (type promotion)."""
    first = next(dtype for dtype in WIDTHS if dtype in dtypes)
    narrower = {n for n in DType if n.value in ("float16", "bfloat16")}
    if narrower <= set(dtypes) and first in narrower:
        return DType.FLOAT32
    return first


Predicate = Callable[[Operand], bool]


def common_type(operands: Sequence[Operand], is_known: Predicate, is_extent: Predicate) -> DType:
    """The item type in which an operator with several operands computes.

    Extents take the type of the other operands, single known numbers that of tensors, and known
    tensors that of computed ones; otherwise the wider type is taken.
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
