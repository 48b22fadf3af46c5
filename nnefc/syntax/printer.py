"""Print syntax trees in a canonical layout, with no more parentheses than needed.

`parse(print_document(d))` equals `d` up to positions.  Literals are printed as they were written;
generated literals, without `Literal_.text`, are printed from their value.
"""

from __future__ import annotations

import math
import re
from typing import Final

from nnefc.support.limits import room_for_recursion
from nnefc.syntax.ast import (
    Argument,
    Array,
    ArraySpec,
    Assignment,
    Binary,
    Builtin,
    Comprehension,
    Document,
    Expression,
    Extension,
    Fragment,
    Graph,
    Identifier,
    IfElse,
    Invocation,
    Literal_,
    LValue,
    Parameter,
    PrimitiveSpec,
    QuantizationFile,
    Subscript,
    TensorSpec,
    Tuple,
    TypeSpec,
    Unary,
)
from nnefc.syntax.expressions import PRECEDENCE

WIDTH: Final = 100
_INDENT: Final = "    "
_CONTINUED: Final = "        "
_UNBROKEN: Final = 40
"""Longest arrays and tuples, in characters, that are never split over lines."""

# precedence of the other kinds of expressions, on the scale of PRECEDENCE
_LOWEST: Final = 0
_UNARY: Final = 7
_POSTFIX: Final = 8
_PRIMARY: Final = 9

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")


def print_document(document: Document) -> str:
    """The text of a document, with a final line break."""
    lines = [f"version {document.version.text or print_literal(document.version.value)};"]
    lines += [_extension(e) for e in document.extensions]
    with room_for_recursion():  # the parser has limited the nesting
        definitions = [*map(print_fragment, document.fragments), _graph(document.graph)]
    return "\n".join(lines) + "\n\n" + "\n\n".join(definitions) + "\n"


def print_fragment(fragment: Fragment) -> str:
    """The lines of a fragment; without body a declaration, which ends with ';'."""
    head = f"fragment {fragment.name}"
    if fragment.generic:
        head += f"<? = {fragment.default_dtype}>" if fragment.default_dtype else "<?>"
    parameters = [_parameter(p) for p in fragment.parameters]
    results = ", ".join(f"{r.name}: {print_type(r.type)}" for r in fragment.results)
    end = ";" if fragment.body is None else "\n" + _body(fragment.body)
    line = f"{head}( {', '.join(parameters)} ) -> ( {results} )"
    if len(line) < WIDTH:
        return line + end
    separator = ",\n" + _INDENT
    return f"{head}(\n{_INDENT}{separator.join(parameters)} )\n-> ( {results} ){end}"


def print_expression(expression: Expression) -> str:
    """An expression on one line."""
    line = _Line()
    line.expression(expression)
    return line.unbroken()


def print_quantization(file: QuantizationFile) -> str:
    """The text of a quantization file, one entry per line."""
    lines: list[str] = []
    for entry in file.entries:
        invocation = print_expression(entry.invocation)
        lines.append(f"{print_literal(entry.tensor)}: {invocation};\n")
    return "".join(lines)


def print_literal(value: bool | int | float | str) -> str:
    """The literal of a value: `true`, `2`, `2.0`, `1e+30`, `'text'`.

    A float has a point or an exponent, and the fewest digits that identify the double.  Raises
    ValueError for infinity, NaN and strings with control characters, which have no literal.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} has no literal")
        return float.__repr__(value)
    if _UNPRINTABLE.search(value):
        raise ValueError(f"{value!r} has no literal: it contains a control character")
    quote = '"' if "'" in value and '"' not in value else "'"
    return quote + value.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote


def print_type(spec: TypeSpec) -> str:
    """A type, as in a declaration."""
    if isinstance(spec, PrimitiveSpec):
        return spec.name
    if isinstance(spec, TensorSpec):
        return f"tensor<{spec.dtype or ''}>"
    if isinstance(spec, ArraySpec):
        return print_type(spec.item) + "[]"
    return "(" + ", ".join(map(print_type, spec.items)) + ")"


def _parameter(parameter: Parameter) -> str:
    declared = f"{parameter.name}: {print_type(parameter.type)}"
    if parameter.default is None:
        return declared
    return f"{declared} = {print_expression(parameter.default)}"


def _extension(extension: Extension) -> str:
    names = " ".join(name.name for name in extension.names)
    return f"extension {names}{extension.text and ' ' + extension.text};"


def _graph(graph: Graph) -> str:
    line = _Line()
    line.write(f"graph {graph.name}( ")
    for i, parameter in enumerate(graph.parameters):
        line.separate(i)
        line.write(parameter.name)
    line.write(" )")
    line.may_break()
    line.write("-> ( ")
    for i, result in enumerate(graph.results):
        line.separate(i)
        line.write(result.name)
    line.write(" )")
    return line.fill("") + "\n" + _body(graph.body)


def _body(assignments: tuple[Assignment, ...]) -> str:
    lines = ["{"]
    for assignment in assignments:
        line = _Line()
        line.target(assignment.target, is_outermost=True)
        line.write(" = ")
        line.expression(assignment.value)
        line.write(";")
        lines.append(line.fill(_INDENT))
    lines.append("}")
    return "\n".join(lines)


def _precedence(e: Expression) -> int:
    if isinstance(e, Binary):
        return PRECEDENCE[e.operator]
    if isinstance(e, IfElse):
        return _LOWEST
    if isinstance(e, Unary):
        return _UNARY
    if isinstance(e, Subscript):
        return _POSTFIX
    if isinstance(e, Literal_) and (e.text.startswith("-") or _is_negative(e)):
        return _UNARY
    return _PRIMARY


def _could_be_type_argument(left: Binary, e: Binary) -> bool:
    """Whether `e` with the left operand `left` is `… < name > …`.

    Without parentheses `a < b > (c)` is an invocation of `a` with a type argument.
    """
    return left.operator == "<" and e.operator == ">" and isinstance(left.right, Identifier)


def _is_negative(e: Literal_) -> bool:
    return not e.text and not isinstance(e.value, str) and print_literal(e.value)[0] == "-"


def _join(pieces: list[str | None]) -> str:
    return "".join(" " if piece is None else piece for piece in pieces)


class _Line:
    """A line of text with optional breaks, which print as a space or as a line break."""

    def __init__(self) -> None:
        self._pieces: list[str | None] = []  # None: an optional break

    def write(self, text: str) -> None:
        self._pieces.append(text)

    def may_break(self) -> None:
        self._pieces.append(None)

    def separate(self, i: int) -> None:
        """A comma before each item but the first."""
        if i:
            self._pieces.append(",")
            self._pieces.append(None)

    def unbroken(self) -> str:
        return _join(self._pieces)

    def fill(self, indent: str) -> str:
        """Lines of at most WIDTH characters where possible; continuation lines are indented."""
        whole = indent + self.unbroken()
        if len(whole) <= WIDTH:
            return whole
        lines: list[str] = []
        current, word = indent, ""
        is_fresh = True
        for piece in [*self._pieces, None]:
            if piece is not None:
                word += piece
                continue
            if is_fresh:
                current += word
            elif len(current) + 1 + len(word) <= WIDTH:
                current += " " + word
            else:
                lines.append(current)
                current = indent + _CONTINUED + word
            word, is_fresh = "", False
        lines.append(current)
        return "\n".join(lines)

    # -- syntax

    def target(self, target: LValue, *, is_outermost: bool = False) -> None:
        if isinstance(target, Identifier):
            self.write(target.name)
            return
        opening, closing = "[]" if isinstance(target, Array) else "()"
        if is_outermost and isinstance(target, Tuple):
            opening = closing = ""
        self.write(opening)
        for i, item in enumerate(target.items):
            self.separate(i)
            assert isinstance(item, Identifier | Array | Tuple), "an lvalue consists of lvalues"
            self.target(item)
        self.write(closing)

    def within(self, e: Expression, lowest: int) -> None:
        """`e`, in parentheses if it binds less tightly than `lowest`."""
        if _precedence(e) >= lowest:
            self.expression(e)
        else:
            self.write("(")
            self.expression(e)
            self.write(")")

    def expression(self, e: Expression) -> None:
        match e:
            case Identifier():
                self.write(e.name)
            case Literal_():
                self.write(e.text or print_literal(e.value))
            case Invocation():
                self.write(f"{e.name}<{e.dtype}>(" if e.dtype else f"{e.name}(")
                for i, argument in enumerate(e.arguments):
                    self.separate(i)
                    self._argument(argument)
                self.write(")")
            case Array():
                self._items("[", e.items, "]")
            case Tuple():
                self._items("(", e.items, ")")
            case Binary():
                self._binary(e)
            case Unary():
                self.write(e.operator)
                self.within(e.operand, _UNARY)
            case IfElse():
                self._if_else(e)
            case Subscript():
                self._subscript(e)
            case Builtin():
                self.write(f"{e.name}(")
                self.expression(e.argument)
                self.write(")")
            case Comprehension():
                self._comprehension(e)

    def _argument(self, argument: Argument) -> None:
        if argument.name is not None:
            self.write(f"{argument.name} = ")
        self.expression(argument.value)

    def _items(self, opening: str, items: tuple[Expression, ...], closing: str) -> None:
        start = len(self._pieces)
        self.write(opening)
        for i, item in enumerate(items):
            self.separate(i)
            self.expression(item)
        self.write(closing)
        if len(self._pieces) - start <= _UNBROKEN:
            text = _join(self._pieces[start:])
            if len(text) <= _UNBROKEN:
                self._pieces[start:] = [text]

    def _binary(self, e: Binary) -> None:
        """Binary operators, without recursion: chains of left operands may be very long."""
        chain = [e]
        while isinstance(left := chain[-1].left, Binary) and (
            PRECEDENCE[left.operator] >= PRECEDENCE[chain[-1].operator]
            and not _could_be_type_argument(left, chain[-1])
        ):
            chain.append(left)
        first = chain[-1]
        if isinstance(left := first.left, Binary) and _could_be_type_argument(left, first):
            self._items("(", (left,), ")")
        else:
            self.within(left, PRECEDENCE[first.operator])
        for link in reversed(chain):
            self.may_break()
            self.write(f"{link.operator} ")
            self.within(link.right, PRECEDENCE[link.operator] + 1)

    def _if_else(self, e: IfElse) -> None:
        while True:
            self.within(e.value, _LOWEST + 1)
            self.may_break()
            self.write("if ")
            self.within(e.condition, _LOWEST + 1)
            self.may_break()
            self.write("else ")
            if not isinstance(e.other, IfElse):
                self.expression(e.other)
                return
            e = e.other

    def _subscript(self, e: Subscript) -> None:
        self.within(e.operand, _POSTFIX)
        self.write("[")
        if e.begin is not None:
            self.expression(e.begin)
        if e.is_range:
            self.write(":")
        if e.end is not None:
            self.expression(e.end)
        self.write("]")

    def _comprehension(self, e: Comprehension) -> None:
        self.write("[for ")
        for i, (name, array) in enumerate(e.iterators):
            self.separate(i)
            self.write(f"{name.name} in ")
            # parentheses separate the operator `in` from the keyword `in`
            self.within(array, PRECEDENCE["in"] + 1)
        self.may_break()
        if e.condition is not None:
            self.write("if ")
            self.within(e.condition, _LOWEST + 1)
            self.may_break()
        self.write("yield ")
        self.expression(e.item)
        self.write("]")
