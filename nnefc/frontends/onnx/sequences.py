"""Sequences and optionals as values, and the tensors in values of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from nnefc.frontends.common.values import Operand, OperatorError, operand


@dataclass(frozen=True, slots=True, eq=False)
class TensorSequence:
    """A sequence, whose length is known while a graph is built.

    `items`: tensors, or whatever else a name may stand for.
    """

    items: tuple[Any, ...] = ()

    def index(self, position: int) -> int:
        """The index of an item, counted from the end if negative; raises OperatorError."""
        count = len(self.items)
        if not -count <= position < count:
            message = f"position {position} is not in a sequence of {count} items"
            raise OperatorError("onnx/sequence", message)
        return position % count

    def __repr__(self) -> str:
        return f"a sequence of {len(self.items)} items"


class NoElement:
    """The type of `NO_ELEMENT`, an optional without an element.

    An optional with an element is the element itself.
    """

    def __repr__(self) -> str:
        return "an optional without an element"


NO_ELEMENT: Final = NoElement()

TENSOR: Final = -1
NOTHING: Final = -2


def length_of(value: Any) -> int:
    """The number of items of a sequence; `TENSOR`, or `NOTHING` for an absent element."""
    if isinstance(value, TensorSequence):
        return len(value.items)
    return NOTHING if value is NO_ELEMENT else TENSOR


def tensors_in(values: Iterable[Any]) -> Iterator[Operand]:
    """The tensors in values, which may be sequences; raises OperatorError for others."""
    for value in values:
        if isinstance(value, TensorSequence):
            yield from tensors_in(value.items)
        elif not isinstance(value, NoElement):
            yield operand(value)


def with_tensors(value: Any, tensors: Iterator[Operand]) -> Any:
    """A value like `value` with the next of other `tensors`, in the order of `tensors_in`."""
    if isinstance(value, TensorSequence):
        return TensorSequence(tuple(with_tensors(item, tensors) for item in value.items))
    return value if isinstance(value, NoElement) else next(tensors)


def merged(a: Any, b: Any, merge: Callable[[Operand, Operand], Operand]) -> Any:
    """A value whose tensors are `merge` of those of two values of the same form.

    Raises OperatorError `onnx/unsupported` for values of different forms.
    """
    if isinstance(a, TensorSequence) and isinstance(b, TensorSequence):
        if len(a.items) == len(b.items):
            pairs = zip(a.items, b.items, strict=True)
            return TensorSequence(tuple(merged(x, y, merge) for x, y in pairs))
    elif a is b:
        return a
    elif not isinstance(a, TensorSequence | NoElement) and not isinstance(
        b, TensorSequence | NoElement
    ):
        return merge(operand(a), operand(b))
    message = f"one of two values, {_described(a)} or {_described(b)}, is chosen at run time"
    hint = "both must be tensors of one type and shape, or sequences of equally many"
    raise OperatorError("onnx/unsupported", message, hint)


def _described(value: Any) -> str:
    return repr(value) if isinstance(value, TensorSequence | NoElement) else "a tensor"
