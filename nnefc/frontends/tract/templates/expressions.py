"""Evaluation of template expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import nodes

from nnefc.formats.files import printable
from nnefc.frontends.common.budget import Budget
from nnefc.frontends.tract.templates.filters import apply_filter, apply_test, call_function
from nnefc.frontends.tract.templates.values import (
    Function,
    TemplateError,
    UndefinedName,
    arithmetic,
    contains,
    equal,
    is_true,
    items_of,
    less,
    member,
    text_of,
    type_name,
)


class TemplateScope:
    """The names assigned in a block of a template, inside the scope around it."""

    def __init__(
        self, parent: TemplateScope | None, missing: Callable[[str], Any] | None = None
    ) -> None:
        """`missing`: the value of a name that is assigned nowhere; by default undefined."""
        self._parent = parent
        self._missing = missing or UndefinedName
        self.names: dict[str, Any] = {}

    def find(self, name: str) -> Any:
        """The value of a name in the innermost scope that assigns it."""
        scope: TemplateScope | None = self
        outermost = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            outermost, scope = scope, scope._parent
        return outermost._missing(name)


class TemplateEvaluator:
    """Evaluates expression nodes; `line` is the line of the last node, for error messages."""

    def __init__(self, budget: Budget) -> None:
        self.line = 1
        self.budget = budget

    def step(self, node: nodes.Node) -> None:
        """Count a node against the budget and note its line."""
        self.line = node.lineno or self.line
        self.budget.take_steps()

    def value(self, node: nodes.Node, scope: TemplateScope) -> Any:
        """The value of an expression; raises TemplateError."""
        self.step(node)
        match node:
            case nodes.Const():
                return node.value
            case nodes.TemplateData():
                return node.data
            case nodes.Name():
                return scope.find(node.name)
            case nodes.List() | nodes.Tuple():
                self.budget.take_items(len(node.items))
                return [self.value(item, scope) for item in node.items]
            case nodes.Dict():
                self.budget.take_items(2 * len(node.items))
                pairs = [(self.value(p.key, scope), self.value(p.value, scope)) for p in node.items]
                return _mapping_of(pairs)
            case nodes.Getattr():
                return member(self.value(node.node, scope), node.attr)
            case nodes.Getitem(arg=nodes.Slice()):
                return self._sliced(node, scope)
            case nodes.Getitem():
                return member(self.value(node.node, scope), self.value(node.arg, scope))
            case nodes.And():
                left = self.value(node.left, scope)
                return self.value(node.right, scope) if is_true(left) else left
            case nodes.Or():
                left = self.value(node.left, scope)
                return left if is_true(left) else self.value(node.right, scope)
            case nodes.Not():
                return not is_true(self.value(node.node, scope))
            case nodes.Neg() | nodes.Pos():
                return arithmetic(node.operator, 0, self.value(node.node, scope), self.budget)
            case nodes.BinExpr():
                left, right = self.value(node.left, scope), self.value(node.right, scope)
                return arithmetic(node.operator, left, right, self.budget)
            case nodes.Concat():
                pieces = [text_of(self.value(each, scope), self.budget) for each in node.nodes]
                self.budget.take_items(sum(map(len, pieces)))
                return "".join(pieces)
            case nodes.Compare():
                return self._compared(node, scope)
            case nodes.CondExpr():
                chosen = node.expr1 if is_true(self.value(node.test, scope)) else node.expr2
                return UndefinedName("else") if chosen is None else self.value(chosen, scope)
            case nodes.Filter():
                assert node.node is not None
                return self.filtered(node, self.value(node.node, scope), scope)
            case nodes.Test():
                tested = self.value(node.node, scope)
                return apply_test(node.name, self.budget, tested, *self._arguments(node, scope))
            case nodes.Call():
                function = _callable(self.value(node.node, scope))
                result = call_function(function, *self._arguments(node, scope))
                self.line = node.lineno  # a macro has moved it to its end
                return result
            case _:
                raise unsupported_node(node)

    def _sliced(self, node: nodes.Getitem, scope: TemplateScope) -> Any:
        """`value[start:stop:step]` of a string or a sequence."""
        value, index = self.value(node.node, scope), node.arg
        assert isinstance(index, nodes.Slice)
        if not isinstance(value, str):
            value = items_of(value)
        bounds = [
            None if bound is None else self.value(bound, scope)
            for bound in (index.start, index.stop, index.step)
        ]
        if bounds[2] == 0 or any(type(bound) not in (int, type(None)) for bound in bounds):
            raise TemplateError("the bounds of a slice must be integers, and its step not 0")
        self.budget.take_items(len(value))
        return value[slice(*bounds)]

    def _compared(self, node: nodes.Compare, scope: TemplateScope) -> bool:
        """A chain of comparisons, `a < b < c`."""
        left = self.value(node.expr, scope)
        for operand in node.ops:
            right = self.value(operand.expr, scope)
            if not self._holds(operand.op, left, right):
                return False
            left = right
        return True

    def _holds(self, operator: str, left: Any, right: Any) -> bool:
        """A comparison by the name that jinja2 gives its operator."""
        match operator:
            case "eq":
                return equal(left, right, self.budget)
            case "ne":
                return not equal(left, right, self.budget)
            case "lt":
                return less(left, right, self.budget)
            case "gt":
                return less(right, left, self.budget)
            case "lteq":
                return not less(right, left, self.budget)
            case "gteq":
                return not less(left, right, self.budget)
            case "in":
                return contains(right, left, self.budget)
            case _:
                return not contains(right, left, self.budget)

    def filtered(self, node: nodes.Filter, value: Any, scope: TemplateScope) -> Any:
        """The result of a filter applied to `value`."""
        self.step(node)
        return apply_filter(node.name, self.budget, value, *self._arguments(node, scope))

    def _arguments(
        self, node: nodes.Call | nodes.Filter | nodes.Test, scope: TemplateScope
    ) -> tuple[list[Any], dict[str, Any]]:
        """The positional and the named arguments."""
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise TemplateError("arguments cannot be unpacked with * or **")
        named: dict[str, Any] = {}
        for each in node.kwargs:
            assert isinstance(each, nodes.Keyword)
            named[each.key] = self.value(each.value, scope)
        return [self.value(each, scope) for each in node.args], named


def unsupported_node(node: nodes.Node) -> TemplateError:
    """The error for a statement or an expression that document templates do not support."""
    return TemplateError(f"document templates do not support '{type(node).__name__.lower()}'")


def _mapping_of(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """A mapping; raises TemplateError for a key that is not a string or a number."""
    for key, _ in pairs:
        if not isinstance(key, str | int | float):
            raise TemplateError(f"{type_name(key)} cannot be a key")
    return dict(pairs)


def _callable(value: Any) -> Function:
    """`value` if it is a function; raises TemplateError."""
    if isinstance(value, UndefinedName):
        raise TemplateError(f"'{printable(value.name)}' is undefined and cannot be called")
    if not isinstance(value, Function):
        raise TemplateError(f"{type_name(value)} cannot be called")
    return value
