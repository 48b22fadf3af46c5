"""Evaluation of expressions to tensors, numbers, strings and tuples (`common.values`)."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from nnefc.frontends.common.tensor_operators import BINARY_OPERATIONS, UNARY_OPERATIONS
from nnefc.frontends.common.values import (
    ComplexTensor,
    KnownTensor,
    OperatorError,
    QuantizedTensor,
    UnboundSymbol,
    integers,
    operand,
)
from nnefc.frontends.tract.evaluation_context import BROKEN, EvaluationContext, Scope
from nnefc.ir import Value
from nnefc.ops.core.interface import sequence
from nnefc.symbolic.integers import SymInt
from nnefc.syntax import ast

EXACT: Final = {"+": operator.add, "-": operator.sub, "*": operator.mul}
"""Operators on integers whose results may exceed 64 bits."""


class ExpressionEvaluator(ABC):
    """Evaluates expressions; subclasses evaluate invocations (`_invocation`, `_call`)."""

    def __init__(self, context: EvaluationContext) -> None:
        self.context = context
        self._methods: dict[type, Callable[[Any, Scope], Any]] = {
            ast.Identifier: self._identifier,
            ast.Literal_: self._literal,
            ast.Array: self._items,
            ast.Tuple: self._items,
            ast.Unary: self._unary,
            ast.Binary: self._binary,
            ast.IfElse: self._if_else,
            ast.Comprehension: self._comprehension,
            ast.Subscript: self._subscript,
            ast.Builtin: self._builtin,
            ast.Invocation: self._invocation,
        }

    @abstractmethod
    def _invocation(self, node: ast.Invocation, scope: Scope) -> Any:
        """The results of an invocation expression."""

    @abstractmethod
    def _call(
        self,
        name: str,
        positional: Sequence[Any],
        named: Mapping[str, Any],
        at: int,
        scope: Scope,
        dtype: str | None = None,
    ) -> Any:
        """The results of the fragment or operator `name` for values, invoked at offset `at`."""

    def evaluate(self, node: ast.Expression, scope: Scope) -> Any:
        """The value of an expression; an OperatorError is reported, and the value is `BROKEN`."""
        self.context.budget.take_steps()
        try:
            return self._methods[type(node)](node, scope)
        except OperatorError as wrong:
            return self._report(wrong, node.at, scope)

    def _identifier(self, node: ast.Identifier, scope: Scope) -> Any:
        """The value of an identifier, a symbol, `inf` or `nan`; raises OperatorError."""
        value = scope.values.get(node.name, self)
        if value is not self:
            return value
        if node.name in self.context.symbols:
            return operand(self.context.symbols[node.name])
        if node.name in self.context.unbound:
            return UnboundSymbol(node.name)
        if node.name == "inf":
            return float("inf")
        if node.name == "nan":
            return float("nan")
        raise OperatorError("identifier/undefined", f"'{node.name}' is not defined")

    def _literal(self, node: ast.Literal_, scope: Scope) -> Any:
        return node.value

    def _items(self, node: ast.Array | ast.Tuple, scope: Scope) -> Any:
        """The items of an array or a tuple, as a tuple."""
        self.context.budget.take_items(len(node.items))
        items: tuple[Any, ...] = tuple([self.evaluate(item, scope) for item in node.items])
        return BROKEN if any(item is BROKEN for item in items) else items

    def _unary(self, node: ast.Unary, scope: Scope) -> Any:
        """`-`, `+` or `!`: of numbers here, of tensors by the operator."""
        value = self.evaluate(node.operand, scope)
        if value is BROKEN:
            return BROKEN
        if isinstance(value, UnboundSymbol):
            return value
        if isinstance(value, int | float | SymInt):
            return {"-": -value, "+": value, "!": not value}[node.operator]
        return self._call(UNARY_OPERATIONS[node.operator], (value,), {}, node.at, scope)

    def _binary(self, node: ast.Binary, scope: Scope) -> Any:
        """A binary operator; the result for two numbers is a number."""
        left = self.evaluate(node.left, scope)
        right = self.evaluate(node.right, scope)
        if left is BROKEN or right is BROKEN:
            return BROKEN
        if isinstance(left, UnboundSymbol) or isinstance(right, UnboundSymbol):
            return left if isinstance(left, UnboundSymbol) else right
        if node.operator == "in":
            return left in (sequence(right) or ())
        first, second = sequence(left), sequence(right)
        if node.operator == "+" and first is not None and second is not None:
            return (*first, *second)
        name = BINARY_OPERATIONS[node.operator]
        value = self._call(name, (left, right), {}, node.at, scope)
        if isinstance(left, int) and isinstance(right, int) and node.operator in EXACT:
            exact = EXACT[node.operator](left, right)
            if not -(1 << 63) <= exact < 1 << 63:
                raise OperatorError("operator/number", f"{exact} does not fit in 64 bits")
        if isinstance(left, int | float | SymInt) and isinstance(right, int | float | SymInt):
            # a number stays a number, so that it takes the type of the other operand
            return value.array.reshape(()).item() if isinstance(value, KnownTensor) else value
        return value

    def _if_else(self, node: ast.IfElse, scope: Scope) -> Any:
        """`a if condition else b`; only the chosen branch is evaluated (beyond tract)."""
        condition = self.evaluate(node.condition, scope)
        if condition is BROKEN:
            return BROKEN
        chosen = node.value if integers(condition) == (1,) else node.other
        return self.evaluate(chosen, scope)

    def _comprehension(self, node: ast.Comprehension, scope: Scope) -> Any:
        """`[for x in xs if condition yield item]` (beyond tract)."""
        lists = [self.evaluate(array, scope) for _, array in node.iterators]
        if any(each is BROKEN for each in lists):
            return BROKEN
        iterated = [_items_of(each, "type/iterate", "is iterated") for each in lists]
        if len(set(map(len, iterated))) > 1:
            listed = " and ".join(str(len(items)) for items in iterated)
            message = f"the arrays of a comprehension have the same length, not {listed}"
            raise OperatorError("argument/comprehension", message)
        results: list[Any] = []
        outer = dict(scope.values)
        try:
            for items in zip(*iterated, strict=True):
                for (name, _), item in zip(node.iterators, items, strict=True):
                    scope.values[name.name] = item
                if node.condition is not None:
                    condition = self.evaluate(node.condition, scope)
                    if condition is BROKEN or not integers(condition)[0]:
                        continue
                self.context.budget.take_items(1)
                results.append(self.evaluate(node.item, scope))
        finally:
            scope.values = outer
        return BROKEN if any(item is BROKEN for item in results) else tuple(results)

    def _subscript(self, node: ast.Subscript, scope: Scope) -> Any:
        """`items[i]` or `items[begin:end]` (beyond tract)."""
        nodes = [node.operand, *(p for p in (node.begin, node.end) if p is not None)]
        values = [self.evaluate(each, scope) for each in nodes]
        if any(value is BROKEN for value in values):
            return BROKEN
        items = _items_of(values[0], "type/subscript", "has subscripts")
        bounds = [integers(value)[0] for value in values[1:]]
        if node.is_range:
            begin = 0 if node.begin is None else bounds.pop(0)
            end = len(items) if node.end is None else bounds[0]
            return items[begin:end]
        try:
            return items[bounds[0]]
        except IndexError:
            message = f"index {bounds[0]} is outside an array of {len(items)} items"
            raise OperatorError("argument/index", message) from None

    def _builtin(self, node: ast.Builtin, scope: Scope) -> Any:
        """`shape_of`, `length_of`, `range_of`, and conversions to literals."""
        value = self.evaluate(node.argument, scope)
        if value is BROKEN:
            return BROKEN
        try:
            match node.name:
                case "shape_of":
                    return operand(value).type.dims
                case "length_of":
                    return _length(value)
                case "range_of":
                    self.context.budget.take_items(_length(value))
                    return tuple(range(_length(value)))
                case "integer":
                    return integers(value)[0]
                case "scalar":
                    return (
                        float(integers(value)[0])
                        if isinstance(value, KnownTensor)
                        else float(value)
                    )
                case "logical":
                    return bool(integers(value)[0])
                case _:
                    return str(value)
        except (TypeError, ValueError):
            raise OperatorError(
                "type/argument", f"{node.name} does not apply to {value!r}"
            ) from None

    def _report(self, wrong: OperatorError, at: int, scope: Scope) -> Any:
        """Report an error at offset `at`; returns `BROKEN`."""
        place = self.context.source.place(at)
        hint = wrong.hint
        if not hint and wrong.rule.startswith(("argument/", "operator/empty")):
            hint = self.context.model.about_empty_inputs()
        self.context.diagnostics.error(
            wrong.rule, wrong.message, place, hint=hint, chain=scope.chain
        )
        return BROKEN


def _items_of(value: Any, rule: str, what: str) -> str | tuple[Any, ...]:
    """The items of an array, a string, or a known tensor of rank 1.

    Raises OperatorError `rule`: "only an array" `what`.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, KnownTensor) and value.array.ndim == 1:
        each = (value.array[i, ...] for i in range(value.array.size))
        return tuple(KnownTensor(item, value.dtype, value.is_extent) for item in each)
    items = sequence(value)
    if items is None:
        shown = (
            "a tensor"
            if isinstance(value, Value | KnownTensor | QuantizedTensor | ComplexTensor)
            else repr(value)
        )
        raise OperatorError(rule, f"only an array {what}, not {shown}")
    return tuple(items)


def _length(value: Any) -> int:
    """The number of items of an array, a string, or a known tensor of rank 1."""
    return len(value.array if isinstance(value, KnownTensor) else value)
