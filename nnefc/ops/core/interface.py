"""The interface of an operation: tensors, attributes and results, parsed from its signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nnefc.ir import DType
from nnefc.ir.graph import Attribute
from nnefc.ops.core.spec import OpSpec
from nnefc.syntax.ast import (
    Array,
    ArraySpec,
    Expression,
    Literal_,
    PrimitiveName,
    PrimitiveSpec,
    TensorSpec,
    Tuple,
    TupleSpec,
    TypeSpec,
    Unary,
)

Number = bool | int | float


@dataclass(frozen=True, slots=True)
class TensorParameter:
    """A tensor operand.

    `dtype` None or "?" accepts any item type; `default` is the number of an optional operand.
    """

    name: str
    dtype: PrimitiveName | None
    is_array: bool
    default: Number | None = None


@dataclass(frozen=True, slots=True)
class AttributeParameter:
    """An attribute; without a `default` (None) it is required."""

    name: str
    type: TypeSpec
    default: Attribute = None


@dataclass(frozen=True, slots=True)
class Interface:
    """The parameters and results of a signature, by kind."""

    tensors: tuple[TensorParameter, ...]
    attributes: Mapping[str, AttributeParameter]
    results: tuple[TensorParameter, ...]
    defaults: Mapping[str, Attribute]

    @property
    def is_variadic(self) -> bool:
        return any(t.is_array for t in self.tensors)


_interfaces: dict[str, Interface] = {}


def interface(spec: OpSpec) -> Interface:
    """The parameters and results of an operation, cached by signature."""
    known = _interfaces.get(spec.signature)
    if known is None:
        known = _interfaces[spec.signature] = _interface(spec)
    return known


def defaults(spec: OpSpec) -> dict[str, Attribute]:
    """The default values of attributes by name; arrays become tuples."""
    return dict(interface(spec).defaults)


def _interface(spec: OpSpec) -> Interface:
    declaration = spec.declaration
    tensors: list[TensorParameter] = []
    attributes: dict[str, AttributeParameter] = {}
    for parameter in declaration.parameters:
        default = None if parameter.default is None else value_of(parameter.default)
        tensor = _tensor(parameter.name, parameter.type, default)
        if tensor is not None:
            tensors.append(tensor)
        else:
            attributes[parameter.name] = AttributeParameter(parameter.name, parameter.type, default)
    results = [_tensor(r.name, r.type) for r in declaration.results]
    return Interface(
        tuple(tensors),
        attributes,
        tuple(r for r in results if r is not None),
        {name: a.default for name, a in attributes.items() if a.default is not None},
    )


def _tensor(name: str, type_: TypeSpec, default: Any = None) -> TensorParameter | None:
    match type_:
        case TensorSpec():
            return TensorParameter(name, type_.dtype, False, default)
        case ArraySpec(item=TensorSpec() as item):
            return TensorParameter(name, item.dtype, True, default)
        case _:
            return None


def value_of(expression: Expression) -> Attribute:
    """The value of a default, which must be a literal; raises ValueError otherwise."""
    match expression:
        case Literal_():
            return expression.value
        case Array() | Tuple():
            return tuple(value_of(item) for item in expression.items)
        case Unary(operator="-"):
            return -value_of(expression.operand)
        case _:
            raise ValueError("a default value must be a literal")


def normalize(value: Any, type_: TypeSpec) -> Attribute:
    """`value` as an attribute of type `type_`: lists become tuples, integers become scalars."""
    items = sequence(value)
    match type_:
        case ArraySpec() if items is not None:
            return tuple(normalize(item, type_.item) for item in items)
        case TupleSpec() if items is not None:
            return tuple(normalize(item, t) for item, t in zip(items, type_.items))
        case PrimitiveSpec(name="scalar") if isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        case _:
            return value


def sequence(value: Any) -> list[Any] | None:
    """The items of a list or tuple; None for any other value."""
    return list(value) if isinstance(value, list | tuple) else None  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def item_type_problems(spec: OpSpec, dtypes: Sequence[DType]) -> list[str]:
    """Violations by the item types of the operands; trailing operands may be left out."""
    face = interface(spec)
    wanted = [face.tensors[0]] * len(dtypes) if face.is_variadic else face.tensors
    pairs = list(zip(wanted, dtypes))
    generic = next((have for parameter, have in pairs if parameter.dtype == "?"), None)
    scalars = [have for parameter, have in pairs if parameter.dtype == "scalar"]
    whole = scalars[0] if spec.integers and any(t.is_integer for t in scalars) else None
    problems: list[str] = []
    for parameter, have in pairs:
        want = generic if parameter.dtype == "?" else whole if parameter.dtype == "scalar" else None
        if want is not None:
            fits = have is want
        else:
            fits = parameter.dtype is None or kind_of(have) == parameter.dtype
        if not fits:
            problems.append(
                f"{parameter.name} must be a tensor of {want or parameter.dtype}, not of {have}"
            )
    return problems


def kind_of(dtype: DType) -> PrimitiveName:
    """The primitive type of NNEF that an item type represents."""
    if dtype.is_float:
        return "scalar"
    if dtype.is_integer:
        return "integer"
    return "logical" if dtype is DType.BOOL else "string"
