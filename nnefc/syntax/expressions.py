"""Parse expressions (sections 3.2.1, 3.2.3): recursive descent, precedence climbing for operators.

Precedence, lowest first: if-else; in; && ||; < <= > >= == !=; + -; * /; ^; unary; subscript and
call.  The specification orders the binary operators only.  This parser places if-else below and
unary operators above them, and makes all binary operators, including ^, left-associative: `-x + y`
is `(-x) + y`, `-x ^ y` is `(-x) ^ y`.
"""

from __future__ import annotations

from typing import Final, Literal, cast

from nnefc.syntax.ast import (
    Argument,
    Array,
    Binary,
    Builtin,
    Comprehension,
    Expression,
    Identifier,
    IfElse,
    Invocation,
    Literal_,
    PrimitiveName,
    Subscript,
    Tuple,
    Unary,
)
from nnefc.syntax.lexer import (
    BUILTINS,
    IDENTIFIER,
    ILLEGAL,
    KEYWORDS,
    LOGICAL,
    NUMBER,
    STRING,
    TYPE_NAMES,
)
from nnefc.syntax.literals import LiteralParser

PRECEDENCE: Final = {
    "in": 1,
    "&&": 2,
    "||": 2,
    "<": 3,
    "<=": 3,
    ">": 3,
    ">=": 3,
    "==": 3,
    "!=": 3,
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "^": 6,
}
"""Binary operators; higher binds tighter, all are left-associative."""

CHOICE_HINT: Final = "a choice is written: value if condition else other"

_PREFIXES: Final = frozenset("+-!")
_SEPARATORS: Final = frozenset(",)];")
_LITERALS: Final = frozenset((NUMBER, STRING, LOGICAL))
_STARTS: Final = _LITERALS | BUILTINS | {IDENTIFIER, "(", "["}

_Prefix = Literal["+", "-", "!"]


class ExpressionParser(LiteralParser):
    """Parses right-value expressions.

    `signed`: a minus sign before a number is part of the literal, as in flat syntax, default values
    and quantization files.
    """

    signed = False

    def expression(self, *, iterated: bool = False) -> Expression:
        """One right-value expression; `iterated`: a following `if` is not part of it."""
        i = self.index
        if self.kinds[i + 1] in _SEPARATORS:  # fast path: most expressions are a single token
            kind = self.kinds[i]
            if kind == IDENTIFIER:
                self.index = i + 1
                return Identifier(self.starts[i], self.texts[i])
            if kind in _LITERALS:
                self.index = i + 1
                return self._literal(i)
        self.enter()
        value = self._binary()
        if not iterated and self.kinds[self.index] == "if":
            value = self._if_else(value)
        self.depth -= 1
        return value

    def _if_else(self, value: Expression) -> Expression:
        """`value if a else other if b else ...`, which is right-associative."""
        kinds = self.kinds
        branches: list[tuple[int, Expression, Expression]] = []
        while kinds[self.index] == "if":
            at = self.starts[self.index]
            self.needs_operators(at, "an if-else expression")
            self.index += 1
            self.enter()
            condition = self.expression()
            if not self.accept("else"):
                self.unexpected("'else'", "an if needs an else: x if condition else y")
            branches.append((at, condition, value))
            value = self._binary()
        self.depth -= len(branches)
        for at, condition, chosen in reversed(branches):
            value = IfElse(at, condition, chosen, value)
        return value

    def _binary(self) -> Expression:
        """Operands and binary operators, without recursion for chains of left operands."""
        left = self._operand()
        kinds = self.kinds
        precedence = PRECEDENCE.get(kinds[self.index])
        if precedence is None:
            return left
        # the stack: left operand, index of the operator, precedence
        waiting: list[tuple[Expression, int, int]] = []
        while precedence is not None:
            i = self.index
            while waiting and waiting[-1][2] >= precedence:
                before, operator, _ = waiting.pop()
                left = Binary(self.starts[operator], kinds[operator], before, left)
                self.depth -= 1
            self.needs_operators(self.starts[i], f"operator {kinds[i]}")
            waiting.append((left, i, precedence))
            self.enter()
            self.index = i + 1
            left = self._operand()
            precedence = PRECEDENCE.get(kinds[self.index])
        self.depth -= len(waiting)
        for before, operator, _ in reversed(waiting):
            left = Binary(self.starts[operator], kinds[operator], before, left)
        return left

    def _operand(self) -> Expression:
        """An operand of binary operators: prefixes, primary, postfixes."""
        kinds = self.kinds
        first = self.index
        if kinds[first] in _PREFIXES:
            while kinds[self.index] in _PREFIXES:
                if self.signed and kinds[self.index] == "-" and kinds[self.index + 1] == NUMBER:
                    break
                self.needs_operators(self.starts[self.index], f"operator {kinds[self.index]}")
                self.index += 1
        prefixes = self.index - first
        self.enter(prefixes)
        outer, self.deepest = self.deepest, self.depth
        value = self._primary()
        postfixes = 0
        while kinds[self.index] == "[":
            postfixes += 1
            value = self._subscript(value)
        self.enclose(outer, postfixes)
        self.depth -= prefixes
        for i in reversed(range(first, first + prefixes)):
            value = Unary(self.starts[i], cast(_Prefix, kinds[i]), value)
        return value

    def _primary(self) -> Expression:
        i = self.index
        kind = self.kinds[i]
        if kind == IDENTIFIER:
            following = self.kinds[i + 1]
            if following == "(" or (following == "<" and self._is_type_argument(i + 1)):
                if self.depth > 1 and self.chained is None:
                    self.chained = self.starts[i]
                return self.invocation()
            if following == "<" and self.kinds[i + 2 : i + 5] == [IDENTIFIER, ">", "("]:
                self.unknown_type(i + 2)  # no comparison: its types could not be valid
                return self.invocation()
            self.index = i + 1
            return Identifier(self.starts[i], self.texts[i])
        if kind in _LITERALS:
            self.index = i + 1
            return self._literal(i)
        if kind == "[":
            return self._comprehension() if self.kinds[i + 1] == "for" else self._array()
        if kind == "(":
            return self._parenthesised()
        if kind == "-" and self.signed:  # _operand leaves this sign only before a number
            self.index = i + 2
            return self._literal(i + 1, negative=True)
        if kind in BUILTINS:
            return self._builtin()
        if kind == ILLEGAL:
            self.index = i + 1
            return Identifier(self.starts[i], self.texts[i])
        self.unexpected("an expression", self._hint_no_expression())

    def _hint_no_expression(self) -> str:
        before = self.kinds[self.index - 1] if self.index else ""
        kind = self.kinds[self.index]
        if before == "," and kind in ")]":
            return "a list does not end with a comma"
        if kind in KEYWORDS:
            return f"{kind!r} is a keyword and cannot be used as a name"
        if kind == "*" and before == "*":
            return "the operator of powers is ^"
        if kind == "=" and before in ("=", "<", ">", "!"):
            return f"write {before}= without a space"
        return ""

    # -- arrays, tuples, parentheses

    def _items(self, end: str, what: str) -> list[Expression]:
        """Expressions separated by commas, up to and including `end`."""
        kinds = self.kinds
        items: list[Expression] = []
        while True:
            items.append(self.expression())
            kind = kinds[self.index]
            self.index += 1
            if kind == end:
                return items
            if kind != ",":
                self.index -= 1
                self.unexpected(f"',' or {end!r} in {what}", self._hint_in_list())

    def _hint_in_list(self) -> str:
        kind = self.kinds[self.index]
        if kind in _STARTS:
            return "is a comma, or the closing parenthesis or bracket missing?"
        if kind == "=":
            return "is == meant? Only arguments of invocations are named"
        if kind == "?":
            return CHOICE_HINT
        if kind == ";":
            return "a parenthesis or bracket is not closed"
        return ""

    def _array(self) -> Array:
        i = self.index
        self.index = i + 1
        if self.accept("]"):
            return Array(self.starts[i], ())
        return Array(self.starts[i], tuple(self._items("]", "an array")))

    def _parenthesised(self) -> Expression:
        i = self.index
        at = self.starts[i]
        self.index = i + 1
        if self.accept(")"):
            hint = "the empty array is []"
            self.error("syntax/tuple", "a tuple has at least two items", at, hint)
            return Tuple(at, ())
        first = self.expression()
        if self.accept(")"):
            self.needs_operators(at, "an expression in parentheses")
            return first
        if self.kinds[self.index] == "," and self.kinds[self.index + 1] == ")":
            self.index += 2
            self.error("syntax/tuple", "a tuple has at least two items", at)
            return first
        if not self.accept(","):
            self.unexpected("',' or ')'", self._hint_in_list())
        return Tuple(at, (first, *self._items(")", "a tuple")))

    def _comprehension(self) -> Comprehension:
        at = self.starts[self.index]
        self.needs_operators(at, "an array comprehension")
        self.index += 2
        iterators: list[tuple[Identifier, Expression]] = []
        while True:
            start = self.starts[self.index]
            name = Identifier(start, self.identifier("a loop variable"))
            self.expect("in", "the loop variable")
            iterators.append((name, self.expression(iterated=True)))
            if not self.accept(","):
                break
        condition = None
        if self.accept("if"):
            condition = self.expression()
        if not self.accept("yield"):
            hint = "[for item in array if condition yield expression]"
            if self.kinds[self.index] == "else":
                hint = "here 'if' filters the items; put an if-else expression in parentheses"
            self.unexpected("'yield'", hint)
        item = self.expression()
        self.expect("]", "the comprehension")
        return Comprehension(at, tuple(iterators), condition, item)

    # -- subscripts, built-in functions, invocations

    def _subscript(self, operand: Expression) -> Subscript:
        at = self.starts[self.index]
        self.needs_operators(at, "a subscript")
        self.index += 1
        begin = None if self.kinds[self.index] == ":" else self.expression()
        if not self.accept(":"):
            self.expect("]", "the subscript")
            return Subscript(at, operand, begin, None, is_range=False)
        end = None if self.kinds[self.index] == "]" else self.expression()
        self.expect("]", "the range", "a range has a begin and an end only")
        return Subscript(at, operand, begin, end, is_range=True)

    def _builtin(self) -> Builtin:
        i = self.index
        at, name = self.starts[i], self.texts[i]
        if self.kinds[i + 1] != "(":
            self.unexpected("an expression", f"{name!r} is a keyword; as a function: {name}(x)")
        self.needs_operators(at, f"the built-in function {name}")
        self.index = i + 2
        if self.kinds[self.index] == ")":
            self.unexpected("an expression", f"{name} takes one argument")
        argument = self.expression()
        self.expect(")", "", f"{name} takes one argument")
        return Builtin(at, name, argument)

    def _is_type_argument(self, i: int) -> bool:
        """Whether `<type>` begins at token `i`; expressions never have these tokens."""
        return self.kinds[i + 1] in TYPE_NAMES and self.kinds[i + 2] == ">"

    def invocation(self) -> Invocation:
        """`name<type>(arguments)`; the current token is the name."""
        i = self.index
        kinds, starts = self.kinds, self.starts
        name, dtype = self.texts[i], None
        at = starts[i]
        self.index = i + 1
        if kinds[i + 1] == "<":
            if self.kinds[i + 3] != ">":
                self.index += 1
                self.unexpected("a type", "integer, scalar, logical, string or ?, then '>'")
            dtype = cast(PrimitiveName, self.texts[i + 2])
            self.index = i + 4
        opening = self.expect("(", f"{name!r}")
        if self.accept(")"):
            message = f"the invocation of {name!r} has no arguments"
            self.error("syntax/expected", message, opening, "there must be at least one")
            return Invocation(at, name, dtype, ())
        arguments: list[Argument] = []
        while True:
            i = self.index
            keyword = None
            if kinds[i + 1] == "=":
                if kinds[i] == IDENTIFIER:
                    keyword = self.texts[i]
                    self.index = i + 2
                elif kinds[i] in KEYWORDS or kinds[i] == ILLEGAL:
                    keyword = self.identifier("an argument")
                    self.index += 1
            value = self.expression()
            arguments.append(Argument(starts[i], keyword, value))
            kind = kinds[self.index]
            if kind == ",":
                self.index += 1
            elif kind == ")":
                self.index += 1
                return Invocation(at, name, dtype, tuple(arguments))
            else:
                self._unexpected_in_arguments(name)

    def _unexpected_in_arguments(self, name: str) -> None:
        hint = self._hint_in_list()
        kind = self.kinds[self.index]
        if kind == ":":
            hint = "a named argument is written name = value"
        elif kind == "=":
            hint = "the name of an argument is a single identifier"
        self.unexpected(f"',' or ')' in the arguments of {name!r}", hint)

    def literal_expression(self) -> Expression:
        """A default value: a literal, or an array or tuple of literals."""
        outer = self.signed, self.has_operators, self.operator_use
        self.signed, self.has_operators, self.operator_use = True, False, None
        try:
            value = self.expression()
            use = self.operator_use
        finally:
            self.signed, self.has_operators, self.operator_use = outer
        at = _not_literal(value) if use is None else use.at
        if at is not None:
            message = "a default value consists of literals only"
            self.error("syntax/default", message, at, "for example 1.0, 'name' or [1, 2]")
        return value


def _not_literal(value: Expression) -> int | None:
    """Offset of a subexpression that is not a literal, array or tuple; None without one."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, Array | Tuple):
            pending += item.items
        elif not isinstance(item, Literal_):
            return item.at
    return None
