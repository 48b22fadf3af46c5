"""Build the graph of a document: declarations, fragments, then the graph's body."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nnefc.frontends.common.budget import Budget, Exhausted
from nnefc.frontends.nnef import typed_tree as tree
from nnefc.frontends.nnef.build_operations import Elaborator, ImportChoices, abstract
from nnefc.frontends.nnef.check_types import TypeChecker
from nnefc.frontends.nnef.custom_fragments import resolve
from nnefc.frontends.nnef.evaluate import CallFrame, Evaluator, RecursionTooDeep
from nnefc.frontends.nnef.operation_declarations import Declaration, DeclaredOperations, declare
from nnefc.frontends.nnef.types import OPAQUE
from nnefc.frontends.nnef.variable_literals import StoredData, VariableLiterals
from nnefc.ir import Graph, Value
from nnefc.ops.tools.table import declared
from nnefc.support.errors import Diagnostics, Step
from nnefc.support.limits import Limits, how_to_raise, no_collection, room_for_recursion
from nnefc.syntax import ast
from nnefc.syntax.printer import print_fragment

FRAMES_OF_NESTING = 10
FRAMES_OF_INVOCATION = 60
"""Upper bounds of Python's stack frames per level of nesting, and per level of invocations."""


@dataclass
class Elaboration:
    """The elaborated document.

    `names`: tensors by identifier in the graph's body.  `scope`: its declared operations.
    `complete`: whether every operation could be built; custom operations without a shape rule
    leave shapes unknown that other operations need.  The graph is valid only if it is complete
    and no error was reported.
    """

    graph: Graph
    names: dict[str, Any]
    scope: DeclaredOperations
    complete: bool


def elaborate(
    document: ast.Document,
    *,
    limits: Limits,
    diagnostics: Diagnostics,
    choice: ImportChoices | None = None,
    stored: StoredData | None = None,
) -> Elaboration:
    """Check a document and expand its graph; errors and warnings go to `diagnostics`.

    `stored`: gives the data of variables that are arguments of attributes.
    Raises NnefError only where checking cannot go on: after too many errors, or at a limit.
    """
    frames = FRAMES_OF_NESTING * limits.nesting + FRAMES_OF_INVOCATION * limits.recursion
    with no_collection(), room_for_recursion(frames):
        checked = _Document(document, limits, diagnostics, choice or ImportChoices(), stored)
        return checked.elaborate()


class _Document:
    def __init__(
        self,
        document: ast.Document,
        limits: Limits,
        diagnostics: Diagnostics,
        choice: ImportChoices,
        stored: StoredData | None,
    ) -> None:
        self._document = document
        self._source = document.source
        self._limits = limits
        self._diagnostics = diagnostics
        self._choice = choice
        self._stored = stored
        self._budget = Budget(limits, len(document.source.text))
        self._scope = declare(document.fragments, document.source, diagnostics)
        self._bodies: dict[tuple[str, str], list[tree.Assign] | None] = {}
        for declaration in self._scope.declared.values():
            fragment = declaration.fragment
            if fragment.body is None and declaration.spec is None and not declaration.malformed:
                resolve(declaration, self._source.place(fragment.at), diagnostics)

    def elaborate(self) -> Elaboration:
        graph = self._document.graph
        elaborator = self._elaborator(Graph(graph.name))
        evaluator = self._evaluator(elaborator)
        statement: ast.Assignment | None = None
        try:
            for declaration in self._scope.declared.values():
                self._check_fragment(declaration)
            checker = self._checker(graph.body, in_graph=True, literals=self._literals(elaborator))
            self._check_lists(graph)
            frame = CallFrame({})
            for statement in graph.body:
                evaluator.run(checker.assignment(statement), frame)
            checker.finish([(r.name, r.at) for r in graph.results])
        except Exhausted as exhausted:
            at = graph.at if statement is None else statement.at
            self._give_up(exhausted.limit, exhausted.message, at, exhausted)
        except RecursionTooDeep as deep:
            self._diagnostics.error(
                "limit/recursion",
                f"'{deep.name}' is invoked more than {self._limits.recursion} levels deep",
                deep.place,
                hint="a recursive fragment needs an if-else that ends it; "
                + how_to_raise("recursion"),
                chain=deep.chain,
            )
            self._diagnostics.raise_errors()
        except RecursionError:
            at = graph.at if statement is None else statement.at
            self._give_up("recursion", "expressions and invocations nest too deeply", at)
        elaborator.finish()
        self._connect(elaborator)
        for name, declaration in self._scope.declared.items():
            if declaration.fragment.body is None and name not in declared():
                elaborator.graph.declarations[name] = print_fragment(declaration.fragment)
        return Elaboration(
            elaborator.graph, elaborator.names, self._scope, not elaborator.incomplete
        )

    def _give_up(
        self, limit: str, message: str, at: int, exhausted: Exhausted | None = None
    ) -> None:
        """Report that a limit is exceeded; raises NnefError."""
        hint = how_to_raise(limit)
        often = self._budget.invocations.most_common(1)
        if often and often[0][1] > 1:
            name, count = often[0]
            hint = f"'{name}' is expanded {count} times, more than any other fragment; {hint}"
        place = self._source.place(at)
        chain: tuple[Step, ...] = ()
        if exhausted is not None and exhausted.place is not None:
            place, chain = exhausted.place, exhausted.chain
        self._diagnostics.error(f"limit/{limit}", message, place, hint=hint, chain=chain)
        self._diagnostics.raise_errors()

    # -- fragments

    def _check_fragment(self, declaration: Declaration) -> None:
        """Check the body of a fragment for parameters of any shapes and values."""
        fragment = declaration.fragment
        if fragment.body is None or declaration.malformed:
            return
        before = len(self._diagnostics.errors)
        dtype = OPAQUE if declaration.generic else ""
        body = self._check_body(declaration, dtype, ())
        elaborator = self._elaborator(Graph(fragment.name))
        evaluator = self._evaluator(elaborator)
        values = {p.name: abstract(p.type) for p in declaration.parameters}
        frame = CallFrame(values, dict(declaration.results), real=False)
        for statement in body:
            evaluator.run(statement, frame)
        if len(self._diagnostics.errors) > before:
            declaration.broken = True
        self._bodies[declaration.name, dtype] = body

    def _check_body(
        self, declaration: Declaration, dtype: str, chain: tuple[Step, ...]
    ) -> list[tree.Assign]:
        assert declaration.fragment.body is not None
        checker = self._checker(declaration.fragment.body, declaration, dtype, chain=chain)
        body = [checker.assignment(statement) for statement in declaration.fragment.body]
        checker.finish([(r.name, r.at) for r in declaration.fragment.results])
        return body

    def _body(
        self, declaration: Declaration, dtype: str, chain: tuple[Step, ...]
    ) -> list[tree.Assign] | None:
        """The body of a fragment with `dtype` in place of `?`, checked at its first use."""
        if declaration.broken:
            return None
        key = declaration.name, dtype
        if key not in self._bodies:
            before = len(self._diagnostics.errors)
            body = self._check_body(declaration, dtype, chain)
            self._bodies[key] = body if len(self._diagnostics.errors) == before else None
        return self._bodies[key]

    # -- the graph

    def _check_lists(self, graph: ast.Graph) -> None:
        for kind, identifiers in (("parameter", graph.parameters), ("result", graph.results)):
            seen: set[str] = set()
            for identifier in identifiers:
                if identifier.name in seen:
                    self._diagnostics.error(
                        "definition/duplicate",
                        f"{kind} '{identifier.name}' of the graph occurs twice",
                        self._source.place(identifier.at),
                    )
                seen.add(identifier.name)

    def _connect(self, elaborator: Elaborator) -> None:
        """Set the inputs and outputs of the graph to the tensors of these names."""
        graph = self._document.graph
        for parameter in graph.parameters:
            name = parameter.name
            value = elaborator.externals.get(name)
            if value is not None:
                value.index = len(elaborator.graph.inputs)
                elaborator.graph.inputs.append(value)
                continue
            if name in elaborator.names:
                if elaborator.spoiled or self._diagnostics.errors:
                    continue
                message = f"parameter '{name}' of the graph is not the result of external"
            else:
                message = f"parameter '{name}' of the graph is never defined"
            self._diagnostics.error(
                "identifier/parameter",
                message,
                self._source.place(parameter.at),
                hint=f"write {name} = external(shape = [...]);",
            )
        for result in graph.results:
            value = elaborator.names.get(result.name)
            if isinstance(value, Value):
                elaborator.graph.add_output(value, result.name)

    # -- construction

    def _elaborator(self, graph: Graph) -> Elaborator:
        parameters = [p.name for p in self._document.graph.parameters]
        return Elaborator(
            graph, parameters, self._choice, self._limits, self._budget, self._diagnostics
        )

    def _evaluator(self, elaborator: Elaborator) -> Evaluator:
        return Evaluator(elaborator, self._body, self._source, self._budget)

    def _checker(
        self,
        body: Sequence[ast.Assignment],
        declaration: Declaration | None = None,
        dtype: str = "",
        *,
        in_graph: bool = False,
        chain: tuple[Step, ...] = (),
        literals: VariableLiterals | None = None,
    ) -> TypeChecker:
        parameters = {}
        results = {}
        if declaration is not None:
            types, _ = declaration.types(dtype)
            parameters = {p.name: t for p, t in zip(declaration.parameters, types)}
            results = declaration.result_types(dtype)
        return TypeChecker(
            self._scope,
            self._source,
            self._budget,
            self._diagnostics,
            parameters=parameters,
            results=results,
            dtype=dtype,
            in_graph=in_graph,
            later=_assigned(body),
            chain=chain,
            literals=literals,
        )

    def _literals(self, elaborator: Elaborator) -> VariableLiterals | None:
        """Replaces variables among arguments; None for a document without data."""
        if self._stored is None:
            return None
        return VariableLiterals(elaborator, self._stored, self._source, self._diagnostics)


def _assigned(body: Sequence[ast.Assignment]) -> Iterator[str]:
    """Identifiers on the left-hand sides of a body."""
    stack: list[ast.LValue] = [statement.target for statement in body]
    while stack:
        target = stack.pop()
        if isinstance(target, ast.Identifier):
            yield target.name
        else:
            stack.extend(target.items)  # pyright: ignore[reportArgumentType]


__all__ = ["Elaboration", "ImportChoices", "elaborate"]
