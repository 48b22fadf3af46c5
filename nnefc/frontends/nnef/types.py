"""Types of expressions, and implicit casts between them (chapter 3.3.1).

Types are frozen dataclasses, compared by value; common ones are constants of this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from nnefc.syntax import ast

OPAQUE: Final = "?"
"""Data-type of a generic fragment that is checked without being invoked."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """integer, scalar, logical, string; `?` inside a generic fragment."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Tensor:
    """tensor<dtype>; `dtype` None: unbound, tensor<>."""

    dtype: str | None

    def __str__(self) -> str:
        return f"tensor<{self.dtype or ''}>"


@dataclass(frozen=True, slots=True)
class Array:
    """item[]; the empty-array type is the array of `NOTHING`."""

    item: Type

    def __str__(self) -> str:
        return "[]" if self.item == NOTHING else f"{self.item}[]"


@dataclass(frozen=True, slots=True)
class Tuple:
    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({','.join(map(str, self.items))})"


@dataclass(frozen=True, slots=True)
class Any_:
    """An unknown type, which fits everywhere: `ANY` or `NOTHING`."""

    name: str

    def __str__(self) -> str:
        return self.name


Type = Primitive | Tensor | Array | Tuple | Any_

ANY: Final = Any_("unknown")
"""Type of an expression whose error has been reported."""
NOTHING: Final = Any_("nothing")
"""Type of the items of `[]`, and of expressions computed from them."""
INTEGER: Final = Primitive("integer")
SCALAR: Final = Primitive("scalar")
LOGICAL: Final = Primitive("logical")
STRING: Final = Primitive("string")
INTEGERS: Final = Array(INTEGER)
EMPTY: Final = Array(NOTHING)


@lru_cache(maxsize=4096)
def castable(source: Type, target: Type) -> bool:
    """Whether an expression of type `source` may be passed where `target` is declared."""
    if source == target or isinstance(source, Any_) or isinstance(target, Any_):
        return True
    match source, target:
        case Primitive(name), Primitive(other):
            return other == OPAQUE or name == other
        case Primitive(name), Tensor(dtype):
            return dtype is None or dtype in (OPAQUE, name)
        case Tensor(dtype), Tensor(other):
            return other is None or (other == OPAQUE and dtype is not None)
        case Array(item), Array(other):
            return castable(item, other)
        case Tuple(items), Tuple(others):
            return len(items) == len(others) and all(map(castable, items, others))
        case _:
            return False


def common(left: Type, right: Type) -> Type | None:
    """The one of two types that the other can be cast to, or None.

    If each can be cast to the other, because one is partly unknown, it is the more specific one.
    """
    if castable(right, left):
        return right if has_any(left) and castable(left, right) else left
    return right if castable(left, right) else None


@lru_cache(maxsize=4096)
def has_any(type_: Type, *names: Any_) -> bool:
    """Whether the type contains an unknown type (one of `names`, if there are any)."""
    match type_:
        case Any_():
            return not names or type_ in names
        case Array(item):
            return has_any(item, *names)
        case Tuple(items):
            return any(has_any(item, *names) for item in items)
        case _:
            return False


def unknown(*types: Type) -> Any_:
    """Type of a result whose operand types are partly unknown."""
    return ANY if any(has_any(type_, ANY) for type_ in types) else NOTHING


@lru_cache(maxsize=4096)
def has_tensor(type_: Type) -> bool:
    """Whether the type contains a tensor; attribute types do not."""
    match type_:
        case Tensor():
            return True
        case Array(item):
            return has_tensor(item)
        case Tuple(items):
            return any(map(has_tensor, items))
        case _:
            return False


def mixes_tensors_and_attributes(type_: Type) -> bool:
    """Whether a tuple somewhere inside has both tensor and attribute items."""
    match type_:
        case Array(item):
            return mixes_tensors_and_attributes(item)
        case Tuple(items):
            tensors = [has_tensor(i) for i in items]
            return (any(tensors) and not all(tensors)) or any(
                map(mixes_tensors_and_attributes, items)
            )
        case _:
            return False


@lru_cache(maxsize=4096)
def is_generic(type_: Type) -> bool:
    """Whether `?` occurs in the type."""
    match type_:
        case Primitive(name):
            return name == OPAQUE
        case Tensor(dtype):
            return dtype == OPAQUE
        case Array(item):
            return is_generic(item)
        case Tuple(items):
            return any(map(is_generic, items))
        case Any_():
            return False


@lru_cache(maxsize=4096)
def instantiate(type_: Type, dtype: str) -> Type:
    """The type with `dtype` in place of `?`."""
    if not is_generic(type_):
        return type_
    match type_:
        case Primitive():
            return Primitive(dtype)
        case Tensor():
            return Tensor(dtype)
        case Array(item):
            return Array(instantiate(item, dtype))
        case Tuple(items):
            return Tuple(tuple(instantiate(i, dtype) for i in items))
        case Any_():
            return type_


def deduce(declared: Type, actual: Type, candidates: dict[str, None]) -> None:
    """Add to `candidates` the data-types that `actual` suggests for `?` in `declared`."""
    match declared, actual:
        case (Primitive(name=name), Primitive(name=dtype)) if name == OPAQUE:
            candidates[dtype] = None
        case (Tensor(dtype=name), Primitive(name=dtype) | Tensor(dtype=str(dtype))) if (
            name == OPAQUE
        ):
            candidates[dtype] = None
        case Array(item), Array(other):
            deduce(item, other, candidates)
        case (Tuple(items), Tuple(others)) if len(items) == len(others):
            for item, other in zip(items, others):
                deduce(item, other, candidates)
        case _:
            pass


def from_spec(spec: ast.TypeSpec) -> Type:
    """The type written in a declaration."""
    match spec:
        case ast.PrimitiveSpec(name=name):
            return Primitive(name)
        case ast.TensorSpec(dtype=dtype):
            return Tensor(dtype)
        case ast.ArraySpec(item=item):
            return Array(from_spec(item))
        case ast.TupleSpec(items=items):
            return Tuple(tuple(map(from_spec, items)))
