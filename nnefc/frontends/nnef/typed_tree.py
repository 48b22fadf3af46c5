"""The typed tree: expressions after type checking, with names resolved.

`check_types` builds it from the syntax tree, `evaluate` computes it.  Operators on tensors are
`Call`s like invocations; values of arrays and tuples are Python tuples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nnefc.frontends.nnef.types import ANY, Array, Primitive, Tensor, Tuple, Type, has_tensor
from nnefc.syntax import ast

if TYPE_CHECKING:
    from nnefc.frontends.nnef.operation_declarations import Declaration


@dataclass(slots=True)
class ConstantNode:
    """A literal, or an array or tuple of literals."""

    at: int
    type: Type
    value: Any


@dataclass(slots=True)
class Local:
    """The value of an identifier."""

    at: int
    type: Type
    name: str


@dataclass(slots=True)
class Sequence:
    """An array or a tuple, item by item."""

    at: int
    type: Type
    items: list[Typed]


@dataclass(slots=True)
class Apply:
    """A function of attribute values, which may raise `operators.UndefinedResult`.

    `rule`: the identifier of the error that is reported then.
    """

    at: int
    type: Type
    rule: str
    function: Callable[..., Any]
    operands: list[Typed]


@dataclass(slots=True)
class Logic:
    """`&&` (`until` False) or `||` (`until` True); the right operand is evaluated if needed."""

    at: int
    type: Type
    until: bool
    operands: list[Typed]


@dataclass(slots=True)
class Choose:
    at: int
    type: Type
    condition: Typed
    value: Typed
    other: Typed


@dataclass(slots=True)
class Loop:
    """An array comprehension."""

    at: int
    type: Type
    names: list[str]
    arrays: list[Typed]
    condition: Typed | None
    item: Typed


@dataclass(slots=True)
class ShapeOf:
    at: int
    type: Type
    operand: Typed


@dataclass(slots=True)
class AsTensor:
    """Converts primitive values inside `operand` to constant tensors where `type` has tensors."""

    at: int
    type: Type
    operand: Typed


@dataclass(slots=True)
class Call:
    """An invocation: `operands` in the order of the parameters, None for default values.

    `dtype`: the data-type that replaces `?`, "" if the operation is not generic.  `lengths`:
    lengths of array results as the left side of the assignment gives them, None elsewhere.
    """

    at: int
    type: Type
    callee: Declaration
    dtype: str
    operands: list[Typed | None]
    lengths: tuple[int | None, ...] | None = None


@dataclass(slots=True)
class ErrorNode:
    """An expression without a value.

    Its error has been reported (type `ANY`), or is reported when its operands are evaluated
    (type `NOTHING`: an item of an empty array).
    """

    at: int
    type: Type = ANY
    operands: tuple[Typed, ...] = ()


Typed = (
    ConstantNode
    | Local
    | Sequence
    | Apply
    | Logic
    | Choose
    | Loop
    | ShapeOf
    | AsTensor
    | Call
    | ErrorNode
)


def sequence(at: int, type_: Type, items: list[Typed]) -> Typed:
    """An array or tuple; a constant if all its items are constants."""
    values: list[Any] = []
    for item in items:
        if not isinstance(item, ConstantNode):
            return Sequence(at, type_, items)
        values.append(item.value)
    return ConstantNode(at, type_, tuple(values))


@dataclass(slots=True)
class Assign:
    at: int
    target: ast.LValue
    value: Typed


def as_tensor(node: Typed, type_: Type) -> Typed:
    """`node` cast to `type_`: primitive values become tensors where `type_` has tensors."""
    if node.type is type_ or not has_tensor(type_) or not _needs_tensor(node.type, type_):
        return node
    return AsTensor(node.at, type_, node)


def _needs_tensor(source: Type, target: Type) -> bool:
    match source, target:
        case Primitive(), Tensor():
            return True
        case Array(item), Array(other):
            return _needs_tensor(item, other)
        case Tuple(items), Tuple(others):
            return any(map(_needs_tensor, items, others))
        case _:
            return False
