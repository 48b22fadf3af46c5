"""Evaluation of statements, expressions and fragments, with the values that are known.

Everything is evaluated as it stands, from the first statement to the last; a name that is
assigned again means the last value.  Where a value cannot be had it is `BROKEN`: the reason
has been reported, and what follows from it is not.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from nnefc.errors import Diagnostic, Diagnostics, NnefError, Place, Step
from nnefc.frontends.budget import Budget, Exhausted
from nnefc.frontends.nnef.operators import BINARY_OPERATIONS, UNARY_OPERATIONS
from nnefc.frontends.tract.maker import Maker
from nnefc.frontends.tract.registry import Operator, bind, of_complex
from nnefc.frontends.tract.values import (
    Complex,
    DatumType,
    Known,
    Quantized,
    Unbound,
    Wrong,
    integers,
    operand,
)
from nnefc.ir import Graph, Location, Value
from nnefc.ops.common import sequence
from nnefc.symbolic import Extent
from nnefc.syntax import ast

EXACT: Final = {"+": operator.add, "-": operator.sub, "*": operator.mul}
"""Operators whose results may be too large for the items that they have."""
CHAIN: Final = 16
"""Links of a chain of invocations that are kept."""


class Broken:
    """The value of an expression that was wrong."""

    def __repr__(self) -> str:
        return "BROKEN"


BROKEN: Final = Broken()


@dataclass(slots=True)
class Frame:
    """The body that is being evaluated: its identifiers, and how it was reached."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    depth: int = 0
    chain: tuple[Step, ...] = ()


@dataclass(slots=True)
class Context:
    """What evaluation has of the model around it.

    `fragments` of the document; `operators` of the registries it declares; `symbols` with
    values.  `external`, `variable` make inputs and weights.
    """

    source: ast.Source
    fragments: Mapping[str, ast.Fragment]
    operators: Mapping[str, Operator]
    symbols: Mapping[str, int]
    budget: Budget
    diagnostics: Diagnostics
    unbound: frozenset[str] = frozenset()
    """Symbols without a value."""
    quantized: Mapping[str, DatumType] = field(default_factory=dict[str, DatumType])
    """Item types of quantized results, by identifier."""
    unknown: dict[str, list[Place]] = field(default_factory=dict[str, list[Place]])
    """Operators that are in no registry that was declared, and where they are used."""
    model: Any = None
    """What operators of inputs, weights and states ask (`nnefc.frontends.tract.model.Model`)."""
    target: str = ""
    """The identifier that is being assigned to in the body of the graph."""


class Evaluator:
    """Evaluates bodies into one graph."""

    def __init__(self, context: Context, graph: Graph) -> None:
        self.context = context
        self.make = Maker(graph, context.budget)
        self.make.evaluator = self
        self._methods: dict[type, Callable[[Any, Frame], Any]] = {
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

    def within(self, graph: Graph) -> Evaluator:
        """One that makes the operations of another graph, of the same document."""
        return Evaluator(self.context, graph)

    def fragment_results(
        self, fragment: ast.Fragment, values: Mapping[str, Any], location: Location | None
    ) -> list[Any]:
        """All results of a fragment of the document, with values for its parameters."""
        assert fragment.body is not None
        chain: tuple[Step, ...] = ()
        if location is not None:
            step = Step(f"in {fragment.name}, invoked here", location.place)
            chain = (step, *location.chain)[:CHAIN]
        frame = Frame(dict(values), 1, chain)
        self.run(fragment.body, frame)
        results = [frame.values.get(result.name, BROKEN) for result in fragment.results]
        if any(result is BROKEN for result in results):
            raise Wrong("argument/scan", f"the body '{fragment.name}' is wrong")
        return results

    # -- statements

    def run(self, body: Sequence[ast.Assignment], frame: Frame, *, names: bool = False) -> None:
        """Evaluate the statements of a body.

        `names`: the values get the names of their identifiers, as in the body of the graph.
        """
        for statement in body:
            if names:
                target = statement.target
                self.context.target = target.name if isinstance(target, ast.Identifier) else ""
            try:
                value = self.evaluate(statement.value, frame)
            except Exhausted as exhausted:
                if exhausted.place is None:
                    exhausted.place = self.context.source.place(statement.at)
                    exhausted.chain = frame.chain
                raise
            self._bind(statement.target, value, frame, names=names)

    def _bind(self, target: ast.LValue, value: Any, frame: Frame, *, names: bool) -> None:
        if isinstance(target, ast.Identifier):
            if names:
                value = self._named(target, value, frame)
            frame.values[target.name] = value
            return
        items = sequence(value) or [value]
        if value is BROKEN:
            items = [BROKEN] * len(target.items)
        if len(items) != len(target.items):
            message = f"{len(items)} values cannot be assigned to {len(target.items)} identifiers"
            self._report(Wrong("type/unpack", message), target.at, frame)
            items = [BROKEN] * len(target.items)
        for part, item in zip(target.items, items, strict=True):
            assert isinstance(part, ast.Identifier | ast.Array | ast.Tuple)
            self._bind(part, item, frame, names=names)

    def _named(self, target: ast.Identifier, value: Any, frame: Frame) -> Any:
        """A value of the body of the graph, quantized if a file says that it is."""
        datum = self.context.quantized.get(target.name)
        if datum is not None and value is not BROKEN:
            with self.make.at(self._location(target.at, frame)):
                try:
                    value = self.context.model.quantized(self.make, value, datum)
                except Wrong as wrong:
                    self._report(wrong, target.at, frame)
                    return BROKEN
        tensor = value.codes if isinstance(value, Quantized) else value
        tensor = value.parts if isinstance(value, Complex) else tensor
        if isinstance(tensor, Value) and not tensor.name:
            tensor.name = self.context.model.free_name(target.name)
        return value

    # -- expressions

    def evaluate(self, node: ast.Expression, frame: Frame) -> Any:
        """The value of an expression; what is wrong with it is told here, once for all kinds."""
        self.context.budget.take_steps()
        try:
            return self._methods[type(node)](node, frame)
        except Wrong as wrong:
            return self._report(wrong, node.at, frame)

    def _identifier(self, node: ast.Identifier, frame: Frame) -> Any:
        found = frame.values.get(node.name, self)
        if found is not self:
            return found
        if node.name in self.context.symbols:
            return operand(self.context.symbols[node.name])
        if node.name in self.context.unbound:
            return Unbound(node.name)
        if node.name == "inf":
            return float("inf")
        if node.name == "nan":
            return float("nan")
        raise Wrong("identifier/undefined", f"'{node.name}' is not defined")

    def _literal(self, node: ast.Literal_, frame: Frame) -> Any:
        return node.value

    def _items(self, node: ast.Array | ast.Tuple, frame: Frame) -> Any:
        self.context.budget.take_items(len(node.items))
        items: tuple[Any, ...] = tuple([self.evaluate(item, frame) for item in node.items])
        return BROKEN if any(item is BROKEN for item in items) else items

    def _unary(self, node: ast.Unary, frame: Frame) -> Any:
        value = self.evaluate(node.operand, frame)
        if value is BROKEN:
            return BROKEN
        if isinstance(value, Unbound):
            return value
        if isinstance(value, int | float | Extent):
            return {"-": -value, "+": value, "!": not value}[node.operator]
        return self._call(UNARY_OPERATIONS[node.operator], (value,), {}, node.at, frame)

    def _binary(self, node: ast.Binary, frame: Frame) -> Any:
        left = self.evaluate(node.left, frame)
        right = self.evaluate(node.right, frame)
        if left is BROKEN or right is BROKEN:
            return BROKEN
        if isinstance(left, Unbound) or isinstance(right, Unbound):
            return left if isinstance(left, Unbound) else right
        if node.operator == "in":
            return left in (sequence(right) or ())
        first, second = sequence(left), sequence(right)
        if node.operator == "+" and first is not None and second is not None:
            return (*first, *second)
        name = BINARY_OPERATIONS[node.operator]
        value = self._call(name, (left, right), {}, node.at, frame)
        if isinstance(left, int) and isinstance(right, int) and node.operator in EXACT:
            exact = EXACT[node.operator](left, right)
            if not -(1 << 63) <= exact < 1 << 63:
                raise Wrong("tract/number", f"{exact} does not fit in 64 bits")
        if isinstance(left, int | float | Extent) and isinstance(right, int | float | Extent):
            # numbers stay numbers, which take the type of what they meet
            return value.array.reshape(()).item() if isinstance(value, Known) else value
        return value

    def _if_else(self, node: ast.IfElse, frame: Frame) -> Any:
        condition = self.evaluate(node.condition, frame)
        if condition is BROKEN:
            return BROKEN
        chosen = node.value if integers(condition) == (1,) else node.other
        return self.evaluate(chosen, frame)

    def _comprehension(self, node: ast.Comprehension, frame: Frame) -> Any:
        lists = [self.evaluate(array, frame) for _, array in node.iterators]
        if any(each is BROKEN for each in lists):
            return BROKEN
        iterated = [_items_of(each, "type/iterate", "is iterated") for each in lists]
        if len(set(map(len, iterated))) > 1:
            listed = " and ".join(str(len(items)) for items in iterated)
            message = f"the arrays of a comprehension have the same length, not {listed}"
            raise Wrong("argument/comprehension", message)
        found: list[Any] = []
        outer = dict(frame.values)
        try:
            for items in zip(*iterated, strict=True):
                for (name, _), item in zip(node.iterators, items, strict=True):
                    frame.values[name.name] = item
                if node.condition is not None:
                    condition = self.evaluate(node.condition, frame)
                    if condition is BROKEN or not integers(condition)[0]:
                        continue
                self.context.budget.take_items(1)
                found.append(self.evaluate(node.item, frame))
        finally:
            frame.values = outer
        return BROKEN if any(item is BROKEN for item in found) else tuple(found)

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Any:
        parts = [node.operand, *(p for p in (node.begin, node.end) if p is not None)]
        values = [self.evaluate(part, frame) for part in parts]
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
            raise Wrong("argument/index", message) from None

    def _builtin(self, node: ast.Builtin, frame: Frame) -> Any:
        value = self.evaluate(node.argument, frame)
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
                    return float(integers(value)[0]) if isinstance(value, Known) else float(value)
                case "logical":
                    return bool(integers(value)[0])
                case _:
                    return str(value)
        except (TypeError, ValueError):
            raise Wrong("type/argument", f"{node.name} does not apply to {value!r}") from None

    # -- invocations

    def _invocation(self, node: ast.Invocation, frame: Frame) -> Any:
        positional: list[Any] = []
        named: dict[str, Any] = {}
        known = self._parameters(node.name)
        for argument in node.arguments:
            if argument.name is not None and known and argument.name not in known:
                self._ignored(node.name, argument, known)
                continue
            value = self.evaluate(argument.value, frame)
            if argument.name is None:
                positional.append(value)
            else:
                named[argument.name] = value
        if any(value is BROKEN for value in (*positional, *named.values())):
            return BROKEN
        if node.dtype is not None:
            frame.values["?"] = node.dtype
        return self._call(node.name, positional, named, node.at, frame, node.dtype)

    def _parameters(self, name: str) -> list[str]:
        """The parameters of an operator, unless a fragment has its name; empty if there is none."""
        fragment = self.context.fragments.get(name)
        found = self.context.operators.get(name)
        if found is None or (fragment is not None and fragment.body is not None):
            return []
        return [p.name for p in found.parameters]

    def _ignored(self, name: str, argument: ast.Argument, known: Sequence[str]) -> None:
        """Exporters write arguments that operators do not have, which have no effect."""
        self.context.diagnostics.warn(
            "invocation/ignored",
            f"{name} has no parameter '{argument.name}'; the argument has no effect",
            self.context.source.place(argument.at),
            hint=f"the parameters are {', '.join(known)}",
        )

    def _call(
        self,
        name: str,
        positional: Sequence[Any],
        named: Mapping[str, Any],
        at: int,
        frame: Frame,
        dtype: str | None = None,
    ) -> Any:
        fragment = self.context.fragments.get(name)
        if fragment is not None and fragment.body is not None:
            return self._expanded(fragment, positional, named, at, frame)
        found = self.context.operators.get(name)
        place = self.context.source.place(at)
        if found is None:
            if name not in self.context.unknown:
                self.context.unknown[name] = [place]
            return BROKEN
        try:
            with self.make.at(self._location(at, frame)):
                self.make.dtype = dtype
                if any(map(_has_complex, (*positional, *named.values()))):
                    found = of_complex(found)
                if not found.takes_quantized:
                    positional = [self._decoded(value) for value in positional]
                    named = {key: self._decoded(value) for key, value in named.items()}
                result = found.function(self.make, **bind(found, positional, named, frame.values))
                self._check_rank(name, result)
                return result
        except Wrong as wrong:
            what = "" if wrong.message.startswith(f"{name}:") else f"{name}: "
            return self._report(Wrong(wrong.rule, what + wrong.message, wrong.hint), at, frame)
        except NnefError as error:
            location = self._location(at, frame)
            for diagnostic in error.errors:
                self.context.diagnostics.add(_placed(diagnostic, name, location))
            return BROKEN
        except (ArithmeticError, LookupError, TypeError, ValueError, AssertionError) as error:
            message = f"{name} fails with these arguments: {type(error).__name__}: {error}"
            hint = "this is an error in nnefc, which should say what is wrong with them"
            return self._report(Wrong("internal/operator", message, hint), at, frame)

    def _decoded(self, value: Any) -> Any:
        """An argument with numbers in the place of codes."""
        if isinstance(value, Quantized):
            return self.context.model.decoded(self.make, value)
        items = sequence(value)
        return value if items is None else tuple(self._decoded(item) for item in items)

    def _check_rank(self, name: str, result: Any) -> None:
        most = self.context.budget.limits.rank
        for each in sequence(result) or (result,):
            each = each.parts if isinstance(each, Complex) else each
            if isinstance(each, Value) and each.type.rank > most:
                raise Wrong("limit/rank", f"the result has rank {each.type.rank}; at most {most}")

    def _expanded(
        self,
        fragment: ast.Fragment,
        positional: Sequence[Any],
        named: Mapping[str, Any],
        at: int,
        frame: Frame,
    ) -> Any:
        """The results of a fragment of the document."""
        limits = self.context.budget.limits
        if frame.depth >= min(limits.recursion, 200):
            message = f"'{fragment.name}' is invoked more than {frame.depth} levels deep"
            return self._report(Wrong("limit/recursion", message), at, frame)
        self.context.budget.invocations[fragment.name] += 1
        step = Step(f"in {fragment.name}, invoked here", self.context.source.place(at))
        chain = (step, *frame.chain)[:CHAIN]
        inner = Frame({}, frame.depth + 1, chain)
        try:
            self._arguments(fragment, positional, named, inner)
        except Wrong as wrong:
            wrong = Wrong(wrong.rule, f"{fragment.name}: {wrong.message}", wrong.hint)
            return self._report(wrong, at, frame)
        assert fragment.body is not None
        self.run(fragment.body, inner)
        results: list[Any] = []
        for result in fragment.results:
            if result.name not in inner.values:
                message = f"result '{result.name}' of {fragment.name} is never assigned"
                return self._report(Wrong("identifier/result", message), result.at, inner)
            results.append(inner.values[result.name])
        return results[0] if len(results) == 1 else tuple(results)

    def _arguments(
        self,
        fragment: ast.Fragment,
        positional: Sequence[Any],
        named: Mapping[str, Any],
        inner: Frame,
    ) -> None:
        names = [p.name for p in fragment.parameters]
        if len(positional) > len(names):
            message = f"takes at most {len(names)} arguments, not {len(positional)}"
            raise Wrong("invocation/arguments", message)
        inner.values.update(zip(names, positional, strict=False))
        for name, value in named.items():
            if name not in names:
                hint = f"the parameters are {', '.join(names)}"
                raise Wrong("invocation/arguments", f"there is no parameter '{name}'", hint)
            inner.values[name] = value
        for parameter in fragment.parameters:
            if parameter.name in inner.values:
                continue
            if parameter.default is None:
                raise Wrong("invocation/arguments", f"argument '{parameter.name}' is missing")
            inner.values[parameter.name] = self.evaluate(parameter.default, inner)

    # -- reports

    def _location(self, at: int, frame: Frame) -> Location:
        return Location(self.context.source.place(at), frame.chain)

    def _report(self, wrong: Wrong, at: int, frame: Frame) -> Any:
        """Tell what is wrong; the value of what could not be had."""
        place = self.context.source.place(at)
        hint = wrong.hint
        if not hint and wrong.rule.startswith(("argument/", "tract/empty")):
            hint = self.context.model.about_empty_inputs()
        self.context.diagnostics.error(
            wrong.rule, wrong.message, place, hint=hint, chain=frame.chain
        )
        return BROKEN


def _has_complex(value: Any) -> bool:
    """Whether an argument is complex, or an array of which something is."""
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return any(map(_has_complex, items))
    return isinstance(value, Complex)


def _items_of(value: Any, rule: str, what: str) -> str | tuple[Any, ...]:
    """The items of an array, a string, or a tensor of rank 1 that is known; raises Wrong."""
    if isinstance(value, str):
        return value
    if isinstance(value, Known) and value.array.ndim == 1:
        each = (value.array[i, ...] for i in range(value.array.size))
        return tuple(Known(item, value.dtype, value.is_extent) for item in each)
    items = sequence(value)
    if items is None:
        shown = (
            "a tensor" if isinstance(value, Value | Known | Quantized | Complex) else repr(value)
        )
        raise Wrong(rule, f"only an array {what}, not {shown}")
    return tuple(items)


def _length(value: Any) -> int:
    """The number of items of an array, a string, or a tensor of rank 1 that is known."""
    return len(value.array if isinstance(value, Known) else value)


def _placed(diagnostic: Diagnostic, name: str, location: Location) -> Diagnostic:
    """What is wrong with a file or an operation, where the document invokes it."""
    place = diagnostic.place
    if place is not None and place.line:
        return diagnostic
    message = f"{name}: {diagnostic.message}"
    if place is not None and place.file != location.place.file:
        message += f" ({place.file})"
    return replace(diagnostic, message=message, place=location.place, chain=location.chain)


__all__ = ["BROKEN", "Context", "Evaluator", "Frame"]
