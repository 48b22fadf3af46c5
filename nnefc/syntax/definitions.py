"""Parse fragments, graphs and their bodies (sections 3.2.1, 3.2.2)."""

from __future__ import annotations

from typing import NoReturn, cast

from nnefc.support.errors import Severity
from nnefc.syntax.ast import (
    Array,
    Assignment,
    Expression,
    Fragment,
    Graph,
    Identifier,
    Invocation,
    LValue,
    Parameter,
    PrimitiveName,
    Result,
    Tuple,
)
from nnefc.syntax.cursor import Panic
from nnefc.syntax.expressions import CHOICE_HINT, ExpressionParser
from nnefc.syntax.lexer import (
    END,
    IDENTIFIER,
    ILLEGAL,
    KEYWORDS,
    LOGICAL,
    NUMBER,
    STRING,
    TYPE_NAMES,
)
from nnefc.syntax.types import TypeParser

DEFINITIONS = ("version", "extension", "fragment", "graph")

_ASSIGNMENT = "an assignment is written name = invocation;"
_OPERATOR_WORDS = ("and", "or", "not")


class DefinitionParser(ExpressionParser, TypeParser):
    """Parses definitions, and resumes after errors within them where possible."""

    # -- declarations

    def fragment(self, *, is_bodyless: bool = False) -> Fragment:
        """A definition, or a declaration, which ends with ';'.

        `is_bodyless`: a declaration whose keyword and ';' are optional.
        """
        at = self.starts[self.index]
        if not is_bodyless or self.kinds[self.index] == "fragment":
            self.expect("fragment")
            self.needs_fragments(at)
        name = self.identifier("a fragment")
        try:
            is_generic, default = self._generic()
            parameters = self._parameters()
            self._arrow()
            results = self._results()
        except Panic:
            self.depth = 0
            self._skip_declaration()
            is_generic, default, parameters, results = False, None, (), ()
        body = None
        if is_bodyless:
            self.accept(";")
        elif self.kinds[self.index] == "{":
            body = self.body(f"fragment {name!r}")
        elif not self.accept(";"):
            hint = "a fragment without body ends with ';'"
            if self.kinds[self.index] in (*DEFINITIONS, END):
                self.missing("';' or '{'", "the declaration", hint)
            else:
                self.unexpected("'{' or ';' after the declaration", hint)
        return Fragment(at, name, is_generic, default, parameters, results, body)

    def _generic(self) -> tuple[bool, PrimitiveName | None]:
        default = None
        if not self.accept("<"):
            return False, None
        self.expect("?", "'<'", "a generic fragment is declared name<?> or name<? = scalar>")
        if self.accept("="):
            if self.kinds[self.index] not in TYPE_NAMES:
                self.unexpected("a type", "one of integer, scalar, logical, string")
            default = cast(PrimitiveName, self.kinds[self.index])
            self.index += 1
        self.close_angle()
        return True, default

    def _parameters(self) -> tuple[Parameter, ...]:
        self.expect("(", "the name")
        if self.is_tract and self.accept(")"):
            return ()
        parameters: list[Parameter] = []
        if not self._is_empty("a fragment has at least one parameter", self.severity):
            while True:
                at = self.starts[self.index]
                name = self.identifier("a parameter")
                self.expect(":", f"parameter {name!r}", "a parameter is written name: type")
                spec = self.type()
                default = self.literal_expression() if self.accept("=") else None
                parameters.append(Parameter(at, name, spec, default))
                if not self.accept(","):
                    break
            self._close_list("the parameters")
        return tuple(parameters)

    def _results(self) -> tuple[Result, ...]:
        self.expect("(", "'->'", "write results in parentheses")
        results: list[Result] = []
        if not self._is_empty("a fragment has at least one result"):
            while True:
                at = self.starts[self.index]
                name = self.identifier("a result")
                self.expect(":", f"result {name!r}", "a result is written name: type")
                results.append(Result(at, name, self.type()))
                if self.kinds[self.index] == "=":
                    self.unexpected("',' or ')'", "a result has no default value")
                if not self.accept(","):
                    break
            self._close_list("the results")
        return tuple(results)

    def _is_empty(self, message: str, severity: Severity = "error") -> bool:
        """Whether the list is empty, which is reported."""
        if self.kinds[self.index] != ")":
            return False
        at = self.starts[self.index]
        if severity == "error":
            self.error("syntax/expected", message, at)
        else:
            self.warn("syntax/expected", message, at)
        self.index += 1
        return True

    def _close_list(self, what: str) -> None:
        if not self.accept(")"):
            self.unexpected(f"',' or ')' in {what}", self._hint_in_declaration())

    def _hint_in_declaration(self) -> str:
        kind = self.kinds[self.index]
        return "is a comma missing?" if kind == IDENTIFIER else ""

    def _arrow(self) -> None:
        if self.accept("->"):
            return
        hint = "results are introduced by ->"
        if self.kinds[self.index] == "(":
            self.missing("'->'", "the parameters", hint)
        else:
            self.expect("->", "the parameters", hint)

    def _skip_declaration(self) -> None:
        """Skip to the body or to the end of the declaration."""
        self.skip_to("{", ";", "}", *DEFINITIONS)

    def missing(self, expected: str, after: str, hint: str = "") -> None:
        """Report that `expected` is missing after the previous token, and continue."""
        if self.index and self.kinds[self.index - 1] == ILLEGAL:
            return
        message = f"expected {expected} after {after}, found {self.describe_token()}"
        self.error("syntax/expected", message, self.previous_end(), hint)

    def graph(self) -> Graph:
        """The definition of the graph."""
        at = self.expect("graph")
        name = self.identifier("the graph")
        parameters: tuple[Identifier, ...] = ()
        results: tuple[Identifier, ...] = ()
        try:
            parameters = self._graph_tensors("parameter")
            self._arrow()
            results = self._graph_tensors("result")
        except Panic:
            self.depth = 0
            self._skip_declaration()
        if self.kinds[self.index] != "{":
            self.unexpected("'{' and the body of the graph")
        return Graph(at, name, parameters, results, self.body(f"graph {name!r}"))

    def _graph_tensors(self, what: str) -> tuple[Identifier, ...]:
        before = "the name" if what == "parameter" else "'->'"
        self.expect("(", before, f"write the {what}s in parentheses")
        names: list[Identifier] = []
        if self._is_empty(f"a graph has at least one {what}"):
            return ()
        while True:
            at = self.starts[self.index]
            names.append(Identifier(at, self.identifier(f"a {what}")))
            if self.kinds[self.index] == ":":
                message = f"a {what} of the graph is a tensor and declares no type"
                hint = f"remove the type; external<...> in the body gives the type of a {what}"
                if what == "result":
                    hint = "remove the type"
                self.error("syntax/expected", message, self.starts[self.index], hint)
                self.index += 1
                self.type()
            if not self.accept(","):
                break
        self._close_list(f"the {what}s")
        return tuple(names)

    # -- bodies

    def body(self, owner: str) -> tuple[Assignment, ...]:
        """`{ assignments }`, without invalid ones."""
        opening = self.expect("{")
        assignments: list[Assignment] = []
        is_whole = True
        kinds = self.kinds
        while True:
            kind = kinds[self.index]
            if kind == "}":
                if not assignments and is_whole:
                    message = f"the body of {owner} is empty"
                    hint = "a body has at least one assignment"
                    self.error("syntax/expected", message, self.starts[self.index], hint)
                self.index += 1
                return tuple(assignments)
            if kind == END or self._is_definition():
                line = self.source.place(opening).line
                self.missing("'}'", f"the body of {owner}", f"it begins on line {line}")
                return tuple(assignments)
            try:
                assignments.append(self._assignment())
            except Panic:
                is_whole = False
                self.depth = 0
                self._skip_statement()

    def _is_definition(self) -> bool:
        """Whether a definition begins here: a keyword followed by a name."""
        following = self.kinds[self.index + 1]
        return self.kinds[self.index] in ("graph", "fragment") and following == IDENTIFIER

    def _skip_statement(self) -> None:
        """Skip past the next ';', or to the end of the body."""
        kinds = self.kinds
        while kinds[self.index] not in (";", "}", END) and not self._is_definition():
            self.index += 1
        self.accept(";")

    def _assignment(self) -> Assignment:
        i = self.index
        kinds = self.kinds
        at = self.starts[i]
        target: LValue
        if kinds[i] == IDENTIFIER and kinds[i + 1] == "=":
            self.index = i + 2
            target = Identifier(at, self.texts[i])
        else:
            target = self._targets()
        before = self.index
        value = self.expression()
        if kinds[self.index] == ";":
            self.index += 1
        else:
            self._missing_semicolon(value)
        if not self.has_operators and not isinstance(value, Invocation):
            self.needs_operators(
                self.starts[before], "an assignment of something other than an invocation"
            )
        return Assignment(at, target, value)

    def _missing_semicolon(self, value: Expression) -> None:
        i = self.index
        kind = self.kinds[i]
        begins = kind == IDENTIFIER and self.kinds[i + 1] in ("=", ",")
        if kind in ("}", END) or begins or self._is_definition():
            self.missing("';'", "the assignment", "every assignment ends with ';'")
            return
        hint = ""
        if self.texts[i] in _OPERATOR_WORDS or self.texts[i - 1] == "not":
            hint = "the logical operators are !, && and ||"
        elif kind == ",":
            hint = "a tuple on the right side needs parentheses"
        elif kind == "=" and isinstance(value, Identifier):
            hint = "one assignment has one '='; the operator that compares is =="
        elif kind in (")", "]"):
            hint = f"there is one {kind!r} too many"
        elif kind == "(":
            hint = "only a name can be invoked"
        elif kind == "?":
            hint = CHOICE_HINT
        elif kind in (IDENTIFIER, NUMBER, STRING):
            hint = "is an operator or a ';' missing?"
            if isinstance(value, Identifier):
                hint += f" Write arguments in parentheses: {value.name}(...)"
        self.unexpected("';' after the assignment", hint)

    # -- left-value expressions

    def _targets(self) -> LValue:
        """The left side of an assignment and the '='."""
        if self.kinds[self.index] == ";":
            hint = "remove the ';'"
            at = self.starts[self.index]
            self.error("syntax/expected", "an assignment is missing before ';'", at, hint)
            raise Panic
        at = self.starts[self.index]
        first = self._target()
        if self.kinds[self.index] == ",":
            targets = [first]
            while self.accept(","):
                targets.append(self._target("an identifier"))
            first = Tuple(at, tuple(targets))
        kind = self.kinds[self.index]
        if kind == "==":
            hint = "an assignment is written with ="
            self.error("syntax/expected", "expected '=', found '=='", self.starts[self.index], hint)
            self.index += 1
        elif kind in ("(", "<") and isinstance(first, Identifier):
            self._bad_target(f"an invocation of {first.name!r}", at)
        elif kind in ("[", "+", "-", "*", "/", "^"):
            self._bad_target("an expression", at)
        elif kind == ":" and self.kinds[self.index + 1] != "=":
            self.unexpected("'='", "the type of a tensor is inferred, not declared")
        else:
            self.expect("=", "the left side of the assignment", _ASSIGNMENT)
        return first

    def _target(self, expected: str = "an assignment") -> LValue:
        i = self.index
        kind, at = self.kinds[i], self.starts[i]
        if kind in (IDENTIFIER, ILLEGAL):
            self.index = i + 1
            return Identifier(at, self.texts[i])
        if kind == "[":
            self.index = i + 1
            if self.accept("]"):
                return Array(at, ())
            return Array(at, self._target_list("]"))
        if kind == "(":
            self.index = i + 1
            items = self._target_list(")")
            if len(items) == 1:
                self.error("syntax/tuple", "a tuple has at least two items", at)
            return Tuple(at, items)
        if kind in (NUMBER, STRING, LOGICAL, "-"):
            self._bad_target(self.describe_token() if kind != "-" else "an expression", at)
        if kind in KEYWORDS and self.kinds[i + 1] != "(":
            return Identifier(at, self.identifier("a tensor"))
        if kind in KEYWORDS:
            self._bad_target(f"the built-in function {kind}", at)
        self.unexpected(expected, _ASSIGNMENT)

    def _target_list(self, end: str) -> tuple[LValue, ...]:
        self.enter()
        targets = [self._target("an identifier")]
        while self.accept(","):
            targets.append(self._target("an identifier"))
        self.depth -= 1
        if not self.accept(end):
            if self.kinds[self.index] in ("(", "<"):
                self._bad_target("an invocation", self.starts[self.index - 1])
            self.unexpected(f"',' or {end!r} on the left side of the assignment")
        return tuple(targets)

    def _bad_target(self, what: str, at: int) -> NoReturn:
        """Report an invalid left side, and raise Panic."""
        message = f"{what} cannot be assigned to"
        hint = "the left side is an identifier, or an array or tuple of identifiers"
        if self.kinds[self.index] == "(":
            hint += "; the result of an invocation needs a name: y = operation(x);"
        self.error("syntax/lvalue", message, at, hint)
        raise Panic
