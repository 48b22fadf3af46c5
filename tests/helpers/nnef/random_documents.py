"""Random documents: trees by the grammar, plain valid documents, and mutated texts.

Everything draws from a `random.Random`, so that hypothesis (`st.randoms()`) and scripts
can use the same generators.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from itertools import pairwise
from random import Random
from typing import Any

from hypothesis import strategies as st

from nnefc.syntax import ast
from nnefc.syntax.ast import SourceText

NAMES = ("x", "y", "conv1", "_", "X_1", "relu", "true_", "e1", "Version", "shape")
TYPES: tuple[ast.PrimitiveName, ...] = ("integer", "scalar", "logical", "string", "?")
OPERATORS = ("in", "&&", "||", "<", "<=", ">", ">=", "==", "!=", "+", "-", "*", "/", "^")
FUNCTIONS = ("shape_of", "length_of", "range_of", "integer", "scalar", "logical", "string")
VALUES = (0, 1, 7, (1 << 63) - 1, 0.0, 0.5, 1e-30, 1.7976931348623157e308, True, False)
STRINGS = ("", "a", "constant", "it's", '"', "\\", "a\\b", "\\'", "# no comment", "a;}")
FRAGMENTS = "KHR_enable_fragment_definitions"
EXPRESSIONS = "KHR_enable_operator_expressions"


class Trees:
    """Trees that the grammar allows; they need not make sense.

    `flat`: of the flat grammar.  Literals have no text, positions are 0.
    """

    def __init__(self, random: Random, *, flat: bool = False, depth: int = 4) -> None:
        self.random = random
        self.flat = flat
        self.depth = depth

    def name(self) -> str:
        return self.random.choice(NAMES)

    def some(self, least: int, most: int) -> range:
        return range(self.random.randint(least, most))

    def literal(self, *, signed: bool) -> ast.Literal_:
        value = self.random.choice((*VALUES, *STRINGS))
        if signed and not isinstance(value, bool | str) and value and self.random.random() < 0.3:
            value = -value
        return ast.Literal_(0, value)

    def expression(self, depth: int | None = None) -> ast.Expression:
        depth = self.depth if depth is None else depth
        kinds = ["identifier", "literal"]
        if depth > 0:
            kinds += ["array", "tuple"]
            if not self.flat:
                kinds += ["binary"] * 3
                kinds += ["unary", "if", "comprehension", "subscript", "builtin", "invocation"]
        kind = self.random.choice(kinds)
        match kind:
            case "identifier":
                return ast.Identifier(0, self.name())
            case "literal":
                return self.literal(signed=self.flat)
            case "array":
                return ast.Array(0, tuple(self.expression(depth - 1) for _ in self.some(0, 3)))
            case "tuple":
                return ast.Tuple(0, tuple(self.expression(depth - 1) for _ in self.some(2, 3)))
            case "binary":
                operator = self.random.choice(OPERATORS)
                left, right = self.expression(depth - 1), self.expression(depth - 1)
                return ast.Binary(0, operator, left, right)
            case "unary":
                operator = self.random.choice("+-!")
                return ast.Unary(0, operator, self.expression(depth - 1))  # type: ignore[arg-type]
            case "if":
                return ast.IfElse(0, *(self.expression(depth - 1) for _ in range(3)))
            case "comprehension":
                return self.comprehension(depth - 1)
            case "subscript":
                return self.subscript(depth - 1)
            case "builtin":
                return ast.Builtin(0, self.random.choice(FUNCTIONS), self.expression(depth - 1))
            case _:
                return self.invocation(depth - 1)

    def comprehension(self, depth: int) -> ast.Comprehension:
        iterators = tuple(
            (ast.Identifier(0, self.name()), self.expression(depth)) for _ in self.some(1, 2)
        )
        condition = self.expression(depth) if self.random.random() < 0.5 else None
        return ast.Comprehension(0, iterators, condition, self.expression(depth))

    def subscript(self, depth: int) -> ast.Subscript:
        operand = self.expression(depth)
        if self.random.random() < 0.5:
            return ast.Subscript(0, operand, self.expression(depth), None, is_range=False)
        begin, end = (
            self.expression(depth) if self.random.random() < 0.6 else None for _ in range(2)
        )
        return ast.Subscript(0, operand, begin, end, is_range=True)

    def invocation(self, depth: int) -> ast.Invocation:
        dtype = self.random.choice((None, None, None, *TYPES))
        arguments = tuple(
            ast.Argument(0, self.random.choice((None, self.name())), self.expression(depth))
            for _ in self.some(1, 4)
        )
        return ast.Invocation(0, self.name(), dtype, arguments)

    def target(self, depth: int = 2) -> ast.LValue:
        kind = self.random.choice("iiiiat") if depth else "i"
        if kind == "i":
            return ast.Identifier(0, self.name())
        items = tuple(
            self.target(depth - 1) for _ in self.some(*((2, 3) if kind == "t" else (0, 3)))
        )
        return ast.Tuple(0, items) if kind == "t" else ast.Array(0, items)

    def body(self) -> tuple[ast.Assignment, ...]:
        return tuple(
            ast.Assignment(
                0, self.target(), self.invocation(self.depth) if self.flat else self.expression()
            )
            for _ in self.some(1, 4)
        )

    def type(self, depth: int = 2) -> ast.TypeSpec:
        match self.random.choice("pppttau") if depth else "p":
            case "p":
                return ast.PrimitiveSpec(0, self.random.choice(TYPES))
            case "t":
                return ast.TensorSpec(0, self.random.choice((*TYPES, None)))
            case "a":
                return ast.ArraySpec(0, self.type(depth - 1))
            case _:
                return ast.TupleSpec(0, tuple(self.type(depth - 1) for _ in self.some(2, 3)))

    def default(self, depth: int = 2) -> ast.Expression | None:
        kind = self.random.choice("nlllat" if depth == 2 else "llat") if depth else "l"
        if kind == "n":
            return None
        if kind == "l":
            return self.literal(signed=True)
        items = tuple(
            item
            for _ in self.some(*((2, 3) if kind == "t" else (0, 3)))
            if (item := self.default(depth - 1)) is not None
        )
        return ast.Tuple(0, items) if kind == "t" else ast.Array(0, items)

    def fragment(self) -> ast.Fragment:
        generic = self.random.random() < 0.3
        return ast.Fragment(
            0,
            self.name(),
            generic,
            self.random.choice((None, "scalar", "integer")) if generic else None,
            tuple(
                ast.Parameter(0, self.name(), self.type(), self.default()) for _ in self.some(1, 5)
            ),
            tuple(ast.Result(0, self.name(), self.type()) for _ in self.some(1, 2)),
            self.body() if self.random.random() < 0.8 else None,
        )

    def names(self) -> tuple[ast.Identifier, ...]:
        return tuple(ast.Identifier(0, self.name()) for _ in self.some(1, 3))

    def document(self) -> ast.Document:
        extensions: tuple[ast.Extension, ...] = ()
        fragments: tuple[ast.Fragment, ...] = ()
        if not self.flat:
            enabled = (ast.Identifier(0, FRAGMENTS), ast.Identifier(0, EXPRESSIONS))
            if self.random.random() < 0.5:
                extensions = (ast.Extension(0, enabled),)
            else:
                extensions = tuple(ast.Extension(0, (name,)) for name in enabled)
            fragments = tuple(self.fragment() for _ in self.some(0, 3))
        graph = ast.Graph(0, self.name(), self.names(), self.names(), self.body())
        source = SourceText("", "<made up>")
        return ast.Document(source, ast.Literal_(0, 1.0), extensions, fragments, graph)


def plain_document(random: Random) -> str:
    """The text of a valid flat document, with white space and comments in odd places."""
    tokens = ["version", "1.0", ";", "graph", "net", "(", "x", ")", "->", "(", "y", ")", "{"]
    tokens += _split("x = external ( shape = [ 1 , 4 , 6 ] ) ;")
    names = ["x"]
    for i in range(random.randint(0, 6)):
        x, z = random.choice(names), random.choice(names)
        name = f"t{i}"
        value = random.choice(("0.5", "-2e-3", "1e3", "-0.0", "01.5"))
        tokens += [name, "="]
        operation = random.choice(
            (
                f"relu ( {x} )",
                f"add ( {x} , {z} )",
                f"mul ( {x} , {value} )",
                f"concat ( [ {x} ] , axis = 0 )",
                f"pad ( {x} , padding = [ ( 0 , 0 ) , ( 0 , 0 ) , ( 0 , 0 ) ] , value = {value} )",
                f"softmax ( {x} , axes = [ 1 ] )",
                f"transpose ( {x} , axes = [ ] )",
                f"select ( true , {x} , {z} )",
                "variable < scalar > ( shape = [ 1 , 4 , 6 ] , label = 'some/label' )",
            )
        )
        tokens += [*_split(operation), ";"]
        names.append(name)
    tokens += ["y", "=", "copy", "(", names[-1], ")", ";", "}"]
    return spread(random, tokens)


def spread(random: Random, tokens: list[str]) -> str:
    """The tokens with white space and comments between them."""
    text = tokens[0]
    for before, token in pairwise(tokens):
        space = random.choice(("", "", " ", "  ", "\n", "\t", " \r\n", "\f", "# c; }\n", "\v"))
        if not space and (before[-1].isalnum() or before[-1] in "_.") and token[0].isalnum():
            space = " "
        text += space + token
    return text + random.choice(("", "\n", "# end", "\n\n# end\n"))


def _split(text: str) -> list[str]:
    return text.split(" ")


_WORDS = (
    *_split("version extension graph fragment tensor integer scalar logical string shape_of"),
    *_split("length_of range_of for in yield if else true false x y conv 1 1.0 1e999 2y 1.0.0"),
    *_split("9999999999999999999999 -1 'a' \"b\" ' \" \\ # // /* ( ) [ ] { } : = , ; -> - ? $ . &"),
    *_split("< > <= >= == != && || ! + * / ^ \0 \x7f \ufeff é \n \r \f tensor< (((((( [[[[ !!!!"),
    "version 1.0;",
    "fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> );",
    "graph g( x ) -> ( y ) { x = external(shape = [1]); y = neg(x); }",
)


def mutate(random: Random, text: str, changes: int = 3) -> str:
    """`text` with some random edits: mostly invalid, but close to valid."""
    for _ in range(random.randint(1, changes)):
        a = random.randint(0, len(text))
        b = min(len(text), a + random.choice((0, 1, 1, 2, 5, 20, 100)))
        match random.randint(0, 6):
            case 0:
                text = text[:a] + text[b:]
            case 1:
                text = text[:a] + random.choice(_WORDS) + text[b:]
            case 2:
                text = text[:a] + random.choice(_WORDS) + text[a:]
            case 3:
                text = text[:b] + text[a:b] * random.choice((1, 2, 50)) + text[b:]
            case 4:
                text = text[:a]
            case 5:
                c = random.randint(0, len(text))
                text = text[:a] + text[c : c + b - a] + text[a:]
            case _:
                text = text[:a] + random.choice(_WORDS) * random.choice((3, 300)) + text[a:]
    return text


def trees(*, flat: bool = False, depth: int = 4) -> st.SearchStrategy[ast.Document]:
    """Trees of documents, for hypothesis."""
    randoms = st.randoms(use_true_random=False)
    return randoms.map(lambda random: Trees(random, flat=flat, depth=depth).document())


def same(a: Any, b: Any) -> bool:
    """Whether two trees are equal but for positions and for how literals are written.

    Iterative: chains of operators make trees of any depth.
    """
    pending = [(a, b)]
    while pending:
        a, b = pending.pop()
        if type(a) is not type(b):
            return False
        if isinstance(a, tuple):
            items: tuple[Any, ...] = a  # pyright: ignore[reportUnknownVariableType]
            if len(items) != len(b):
                return False
            pending += zip(items, b, strict=True)
        elif is_dataclass(a):
            skipped = {"at", "source"} | ({"text"} if isinstance(a, ast.Literal_) else set[str]())
            pending += [
                (getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.name not in skipped
            ]
        elif a != b or str(a) != str(b):  # str: -0.0 is not 0.0
            return False
    return True
