"""Evaluation of statements, fragments and invocations.

Statements run in order; a reassigned name has its last value.  An expression with an error is
reported and evaluates to `BROKEN`; operations on `BROKEN` values report nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from nnefc.frontends.common.budget import Exhausted
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import (
    ComplexTensor,
    OperatorError,
    QuantizedTensor,
)
from nnefc.frontends.tract.evaluation_context import BROKEN, EvaluationContext, Scope
from nnefc.frontends.tract.expressions import ExpressionEvaluator
from nnefc.frontends.tract.registry import bind, complex_variant
from nnefc.ir import Graph, Location, Value
from nnefc.ops.core.interface import sequence
from nnefc.support.errors import Diagnostic, NnefError, Step
from nnefc.syntax import ast

MAX_CHAIN: Final = 16
"""Links of a chain of invocations that a location stores."""


class Evaluator(ExpressionEvaluator):
    """Evaluates bodies of the document; their operations are appended to one graph."""

    def __init__(self, context: EvaluationContext, graph: Graph) -> None:
        super().__init__(context)
        self.make = OpBuilder(graph, context.budget)
        self.make.evaluator = self

    def within(self, graph: Graph) -> Evaluator:
        """An evaluator with the same context that appends to another graph."""
        return Evaluator(self.context, graph)

    def fragment_results(
        self, fragment: ast.Fragment, values: Mapping[str, Any], location: Location | None
    ) -> list[Any]:
        """All results of a fragment of the document for `values` of its parameters.

        Raises OperatorError if a result is `BROKEN`.
        """
        assert fragment.body is not None
        chain: tuple[Step, ...] = ()
        if location is not None:
            step = Step(f"in {fragment.name}, invoked here", location.place)
            chain = (step, *location.chain)[:MAX_CHAIN]
        scope = Scope(dict(values), 1, chain)
        self.run(fragment.body, scope)
        results = [scope.values.get(result.name, BROKEN) for result in fragment.results]
        if any(result is BROKEN for result in results):
            raise OperatorError("argument/scan", f"the body '{fragment.name}' has errors")
        return results

    # -- statements

    def run(self, body: Sequence[ast.Assignment], scope: Scope, *, names: bool = False) -> None:
        """Evaluate the statements of a body.

        `names`: tensors are named after their identifiers, as in the body of the graph.
        """
        for statement in body:
            if names:
                target = statement.target
                self.context.target = target.name if isinstance(target, ast.Identifier) else ""
            try:
                value = self.evaluate(statement.value, scope)
            except Exhausted as exhausted:
                if exhausted.place is None:
                    exhausted.place = self.context.source.place(statement.at)
                    exhausted.chain = scope.chain
                raise
            self._assign(statement.target, value, scope, names=names)

    def _assign(self, target: ast.LValue, value: Any, scope: Scope, *, names: bool) -> None:
        """Bind the identifiers of `target`, an identifier or a nested array of them, to a value."""
        if isinstance(target, ast.Identifier):
            if names:
                value = self._named(target, value, scope)
            scope.values[target.name] = value
            return
        items = sequence(value) or [value]
        if value is BROKEN:
            items = [BROKEN] * len(target.items)
        if len(items) != len(target.items):
            message = f"{len(items)} values cannot be assigned to {len(target.items)} identifiers"
            self._report(OperatorError("type/unpack", message), target.at, scope)
            items = [BROKEN] * len(target.items)
        for each, item in zip(target.items, items, strict=True):
            assert isinstance(each, ast.Identifier | ast.Array | ast.Tuple)
            self._assign(each, item, scope, names=names)

    def _named(self, target: ast.Identifier, value: Any, scope: Scope) -> Any:
        """`value` as tensor `target` of the graph, quantized if graph.quant has an entry for it."""
        datum = self.context.quantized_types.get(target.name)
        if datum is not None and value is not BROKEN:
            with self.make.at(self._location(target.at, scope)):
                try:
                    value = self.context.model.quantize(self.make, value, datum)
                except OperatorError as wrong:
                    self._report(wrong, target.at, scope)
                    return BROKEN
        tensor = value.codes if isinstance(value, QuantizedTensor) else value
        tensor = value.parts if isinstance(value, ComplexTensor) else tensor
        if isinstance(tensor, Value) and not tensor.name:
            tensor.name = self.context.model.free_name(target.name)
        return value

    # -- invocations

    def _invocation(self, node: ast.Invocation, scope: Scope) -> Any:
        """The results of an invocation whose arguments are evaluated first."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        known = self._parameters(node.name)
        for argument in node.arguments:
            if argument.name is not None and known and argument.name not in known:
                self._warn_ignored(node.name, argument, known)
                continue
            if argument.name in named:
                message = f"{node.name}: argument '{argument.name}' is given twice"
                return self._report(
                    OperatorError("invocation/arguments", message), argument.at, scope
                )
            value = self.evaluate(argument.value, scope)
            if argument.name is None:
                positional.append(value)
            else:
                named[argument.name] = value
        if any(value is BROKEN for value in (*positional, *named.values())):
            return BROKEN
        if node.dtype is not None:
            scope.values["?"] = node.dtype
        return self._call(node.name, positional, named, node.at, scope, node.dtype)

    def _parameters(self, name: str) -> list[str]:
        """Parameter names of the operator `name`; empty for fragments and unknown operators."""
        fragment = self.context.fragments.get(name)
        operator = self.context.operators.get(name)
        if operator is None or (fragment is not None and fragment.body is not None):
            return []
        return [p.name for p in operator.parameters]

    def _warn_ignored(self, name: str, argument: ast.Argument, known: Sequence[str]) -> None:
        """Warn about an argument that tract ignores too: exporters write such arguments."""
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
        scope: Scope,
        dtype: str | None = None,
    ) -> Any:
        """The results of a fragment of the document, or else of an operator; reports errors."""
        fragment = self.context.fragments.get(name)
        if fragment is not None and fragment.body is not None:
            return self._expand(fragment, positional, named, at, scope)
        operator = self.context.operators.get(name)
        place = self.context.source.place(at)
        if operator is None:
            if name not in self.context.unknown:
                self.context.unknown[name] = [place]
            return BROKEN
        try:
            with self.make.at(self._location(at, scope)):
                self.make.dtype = dtype
                if any(map(_has_complex, (*positional, *named.values()))):
                    operator = complex_variant(operator)
                if not operator.takes_quantized:
                    positional = [self._dequantized(value) for value in positional]
                    named = {key: self._dequantized(value) for key, value in named.items()}
                result = operator.function(
                    self.make, **bind(operator, positional, named, scope.values)
                )
                self._check_rank(name, result)
                return result
        except OperatorError as wrong:
            what = "" if wrong.message.startswith(f"{name}:") else f"{name}: "
            return self._report(
                OperatorError(wrong.rule, what + wrong.message, wrong.hint), at, scope
            )
        except NnefError as error:
            location = self._location(at, scope)
            for diagnostic in error.errors:
                self.context.diagnostics.add(_relocated(diagnostic, name, location))
            return BROKEN
        except (ArithmeticError, LookupError, TypeError, ValueError, AssertionError) as error:
            message = f"{name} fails with these arguments: {type(error).__name__}: {error}"
            hint = "this is a bug in nnefc, which should report what is wrong with them"
            return self._report(OperatorError("internal/operator", message, hint), at, scope)

    def _dequantized(self, value: Any) -> Any:
        """An argument in which quantized tensors are replaced by real ones."""
        if isinstance(value, QuantizedTensor):
            return self.context.model.dequantize(self.make, value)
        items = sequence(value)
        return value if items is None else tuple(self._dequantized(item) for item in items)

    def _check_rank(self, name: str, result: Any) -> None:
        """Raise OperatorError for a result of more dimensions than the limits allow."""
        most = self.context.budget.limits.rank
        for each in sequence(result) or (result,):
            each = each.parts if isinstance(each, ComplexTensor) else each
            if isinstance(each, Value) and each.type.rank > most:
                raise OperatorError(
                    "limit/rank", f"the result has rank {each.type.rank}; at most {most}"
                )

    def _expand(
        self,
        fragment: ast.Fragment,
        positional: Sequence[Any],
        named: Mapping[str, Any],
        at: int,
        scope: Scope,
    ) -> Any:
        """The results of invoking a fragment of the document."""
        limits = self.context.budget.limits
        if scope.depth >= min(limits.recursion, 200):
            message = f"'{fragment.name}' is invoked more than {scope.depth} levels deep"
            hint = "a recursive fragment needs an if-else that ends it"
            self._report(OperatorError("limit/recursion", message, hint), at, scope)
            # a fragment that invokes itself twice would go on for 2^depth invocations
            self.context.diagnostics.raise_errors()
        self.context.budget.invocations[fragment.name] += 1
        step = Step(f"in {fragment.name}, invoked here", self.context.source.place(at))
        chain = (step, *scope.chain)[:MAX_CHAIN]
        inner = Scope({}, scope.depth + 1, chain)
        try:
            self._bind_arguments(fragment, positional, named, inner)
        except OperatorError as wrong:
            wrong = OperatorError(wrong.rule, f"{fragment.name}: {wrong.message}", wrong.hint)
            return self._report(wrong, at, scope)
        assert fragment.body is not None
        self.run(fragment.body, inner)
        results: list[Any] = []
        for result in fragment.results:
            if result.name not in inner.values:
                message = f"result '{result.name}' of {fragment.name} is never assigned"
                return self._report(OperatorError("identifier/result", message), result.at, inner)
            results.append(inner.values[result.name])
        return results[0] if len(results) == 1 else tuple(results)

    def _bind_arguments(
        self,
        fragment: ast.Fragment,
        positional: Sequence[Any],
        named: Mapping[str, Any],
        inner: Scope,
    ) -> None:
        """Bind the parameters of a fragment in its scope `inner`; raises OperatorError."""
        names = [p.name for p in fragment.parameters]
        if len(positional) > len(names):
            message = f"takes at most {len(names)} arguments, not {len(positional)}"
            raise OperatorError("invocation/arguments", message)
        inner.values.update(zip(names, positional, strict=False))
        for name, value in named.items():
            if name not in names:
                hint = f"the parameters are {', '.join(names)}"
                raise OperatorError("invocation/arguments", f"there is no parameter '{name}'", hint)
            if name in inner.values:
                raise OperatorError("invocation/arguments", f"argument '{name}' is given twice")
            inner.values[name] = value
        for parameter in fragment.parameters:
            if parameter.name in inner.values:
                continue
            if parameter.default is None:
                raise OperatorError(
                    "invocation/arguments", f"argument '{parameter.name}' is missing"
                )
            inner.values[parameter.name] = self.evaluate(parameter.default, inner)

    # -- places

    def _location(self, at: int, scope: Scope) -> Location:
        return Location(self.context.source.place(at), scope.chain)


def _has_complex(value: Any) -> bool:
    """Whether an argument is a complex tensor, or an array that contains one."""
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return any(map(_has_complex, items))
    return isinstance(value, ComplexTensor)


def _relocated(diagnostic: Diagnostic, name: str, location: Location) -> Diagnostic:
    """An error without a line of its own, at the place of the invocation that caused it."""
    place = diagnostic.place
    if place is not None and place.line:
        return diagnostic
    message = f"{name}: {diagnostic.message}"
    if place is not None and place.file != location.place.file:
        message += f" ({place.file})"
    return diagnostic._replace(message=message, place=location.place, chain=location.chain)
