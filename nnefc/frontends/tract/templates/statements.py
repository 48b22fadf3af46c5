"""Execution of template statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from jinja2 import nodes

from nnefc.frontends.common.budget import Budget
from nnefc.frontends.tract.templates.expressions import (
    TemplateEvaluator,
    TemplateScope,
    unsupported_node,
)
from nnefc.frontends.tract.templates.values import (
    Function,
    Namespace,
    TemplateError,
    UndefinedName,
    is_true,
    items_of,
    text_of,
    type_name,
)
from nnefc.support.errors import NnefError
from nnefc.support.limits import how_to_raise

_MOST_TURNS: Final = 100_000
"""Numbers that `range` yields at most, as in minijinja."""


class RenderedText:
    """Output text; `take` is called with the length of each piece and may raise."""

    def __init__(self, take: Callable[[int], None]) -> None:
        self._pieces: list[str] = []
        self._take = take

    def write(self, piece: str) -> None:
        """Append a piece of text."""
        self._take(len(piece))
        self._pieces.append(piece)

    def text(self) -> str:
        return "".join(self._pieces)


class TemplateRenderer(TemplateEvaluator):
    """Renders the syntax tree of a template."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self._written = 0

    def render(self, template: nodes.Template, missing: Callable[[str], Any]) -> str:
        """The rendered text; `missing` gives the value of a name that the template does not assign.

        Raises TemplateError, Exhausted, NnefError and RecursionError.
        """
        functions: dict[str, Callable[..., Any]] = {
            "range": self._range,
            "namespace": Namespace,
            "dict": dict,
        }

        def outside(name: str) -> Any:
            value = missing(name)
            if isinstance(value, UndefinedName) and name in functions:
                return Function(name, functions[name])
            return value

        out = RenderedText(self._write)
        self._run(template.body, TemplateScope(None, outside), out)
        return out.text()

    # -- statements

    def _run(self, body: Iterable[nodes.Node], scope: TemplateScope, out: RenderedText) -> None:
        for statement in body:
            self._statement(statement, scope, out)

    def _statement(self, node: nodes.Node, scope: TemplateScope, out: RenderedText) -> None:
        self.step(node)
        match node:
            case nodes.Output():
                for each in node.nodes:
                    if isinstance(each, nodes.TemplateData):
                        out.write(each.data)
                    else:
                        out.write(text_of(self.value(each, scope), self.budget))
            case nodes.If():
                self._choose(node, scope, out)
            case nodes.For():
                self._loop(node, scope, out)
            case nodes.Assign():
                self._assign(node.target, self.value(node.node, scope), scope)
            case nodes.AssignBlock():
                text: Any = self._captured(node.body, TemplateScope(scope))
                if node.filter is not None:
                    text = self.filtered(node.filter, text, scope)
                self._assign(node.target, text, scope)
            case nodes.FilterBlock():
                text = self._captured(node.body, TemplateScope(scope))
                out.write(text_of(self.filtered(node.filter, text, scope), self.budget))
            case nodes.With():
                inner = TemplateScope(scope)
                for target, value in zip(node.targets, node.values, strict=True):
                    self._assign(target, self.value(value, inner), inner)
                self._run(node.body, inner, out)
            case nodes.Scope():
                self._run(node.body, TemplateScope(scope), out)
            case nodes.Macro():
                scope.names[node.name] = self._macro(node, scope)
            case _:
                raise unsupported_node(node)

    def _choose(self, node: nodes.If, scope: TemplateScope, out: RenderedText) -> None:
        for branch in (node, *node.elif_):
            if is_true(self.value(branch.test, scope)):
                self._run(branch.body, scope, out)
                return
        self._run(node.else_, scope, out)

    def _loop(self, node: nodes.For, scope: TemplateScope, out: RenderedText) -> None:
        """`for`, with `if`, `else` and the variable `loop`."""
        if node.recursive:
            raise TemplateError("recursive loops are not supported; use a macro")
        items = items_of(self.value(node.iter, scope))
        if node.test is not None:
            chosen: list[Any] = []
            for item in items:
                inner = TemplateScope(scope)
                self._assign(node.target, item, inner)
                if is_true(self.value(node.test, inner)):
                    chosen.append(item)
            items = chosen
        for index, item in enumerate(items):
            inner = TemplateScope(scope)
            inner.names["loop"] = _loop_variables(items, index)
            self._assign(node.target, item, inner)
            self._run(node.body, inner, out)
        if not items:
            self._run(node.else_, TemplateScope(scope), out)

    def _assign(self, target: nodes.Node, value: Any, scope: TemplateScope) -> None:
        """Assign to a name, an attribute of a namespace, or a tuple of names."""
        self.step(target)
        match target:
            case nodes.Name():
                scope.names[target.name] = value
            case nodes.NSRef():
                space = scope.find(target.name)
                if not isinstance(space, Namespace):
                    raise TemplateError(f"'{target.name}' is not a namespace")
                space[target.attr] = value
            case nodes.Tuple():
                items = items_of(value)
                if len(items) != len(target.items):
                    raise TemplateError(f"{len(items)} items for {len(target.items)} names")
                for each, item in zip(target.items, items, strict=True):
                    self._assign(each, item, scope)
            case _:
                raise TemplateError(f"'{type(target).__name__.lower()}' cannot be assigned to")

    def _macro(self, node: nodes.Macro, scope: TemplateScope) -> Function:
        """A macro as a function that returns its text."""
        names = [argument.name for argument in node.args]
        defaults = dict(zip(names[len(names) - len(node.defaults) :], node.defaults, strict=True))

        def call(*arguments: Any, **named: Any) -> str:
            inner = TemplateScope(scope)
            if len(arguments) > len(names):
                raise TemplateError(
                    f"{node.name} takes {len(names)} arguments, not {len(arguments)}"
                )
            given = dict(zip(names, arguments, strict=False))
            for name, value in named.items():
                if name not in names or name in given:
                    raise TemplateError(f"{node.name} takes no argument '{name}', or takes it once")
                given[name] = value
            for name in names:
                if name not in given and name in defaults:
                    given[name] = self.value(defaults[name], inner)
                inner.names[name] = given.get(name, UndefinedName(name))
            return self._captured(node.body, inner)

        return Function(node.name, call)

    def _captured(self, body: Sequence[nodes.Node], scope: TemplateScope) -> str:
        """The text of a block."""
        out = RenderedText(self.budget.take_items)
        self._run(body, scope, out)
        return out.text()

    def _write(self, count: int) -> None:
        """Count characters of the result; raises NnefError beyond the limit."""
        self._written += count
        if self._written > self.budget.limits.document_bytes:
            most = self.budget.limits.document_bytes
            message = f"the template renders more than {most:,} characters"
            raise NnefError.of("limit/size", message, hint=how_to_raise("document_bytes"))

    def _range(self, *bounds: Any) -> list[int]:
        """The function `range`; raises TemplateError."""
        for bound in bounds:
            if not isinstance(bound, int):
                raise TemplateError(f"'range' takes integers, not {type_name(bound)}")
        turns = range(*bounds)
        if len(turns) > _MOST_TURNS:
            raise TemplateError(f"a range of {len(turns):,} numbers, more than {_MOST_TURNS:,}")
        self.budget.take_items(len(turns))
        return list(turns)


def _loop_variables(items: list[Any], index: int) -> dict[str, Any]:
    """The variable `loop` in the turn for item `index`."""
    count = len(items)
    return {
        "index": index + 1,
        "index0": index,
        "revindex": count - index,
        "revindex0": count - index - 1,
        "first": index == 0,
        "last": index == count - 1,
        "length": count,
        "previtem": items[index - 1] if index else UndefinedName("previtem"),
        "nextitem": items[index + 1] if index + 1 < count else UndefinedName("nextitem"),
        "cycle": Function("cycle", lambda *values: values[index % len(values)]),
    }
