"""The syntax tree of documents and quantization files (section 3.2, appendix A).

Each node has its position `at`, a character offset; `SourceText.place` converts it into line and
column.  Nodes are plain data without semantic checks.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from nnefc.support.errors import Place

_LINE_END = re.compile(r"\r\n?|\n")

PrimitiveName = Literal["integer", "scalar", "logical", "string", "?"]


class SourceText:
    """A text with its file name and the offsets of its lines."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        if "\r" in text:
            self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        else:
            lengths = (len(line) + 1 for line in text.split("\n"))
            self._starts = list(accumulate(lengths, initial=0))[:-1]

    def place(self, at: int) -> Place:
        """Line and column, both counted from 1, of the character at offset `at`."""
        line = bisect_right(self._starts, at)
        return Place(self.file, line, at - self._starts[line - 1] + 1)


# -- types (3.2.2)


@dataclass(frozen=True, slots=True)
class PrimitiveSpec:
    at: int
    name: PrimitiveName


@dataclass(frozen=True, slots=True)
class TensorSpec:
    at: int
    dtype: PrimitiveName | None  # None: unbound, tensor<>


@dataclass(frozen=True, slots=True)
class ArraySpec:
    at: int
    item: TypeSpec


@dataclass(frozen=True, slots=True)
class TupleSpec:
    at: int
    items: tuple[TypeSpec, ...]


TypeSpec = PrimitiveSpec | TensorSpec | ArraySpec | TupleSpec


# -- expressions (3.2.1, 3.2.3)


@dataclass(frozen=True, slots=True)
class Identifier:
    at: int
    name: str


@dataclass(frozen=True, slots=True)
class Literal_:
    """A literal; the type of `value` is int for `integer`, float `scalar`, bool `logical`.

    `text` is the literal as written, so that printing loses no digit; "" for generated literals.
    A minus sign is a Unary, but in default values and flat syntax it is part of the literal.
    """

    at: int
    value: bool | int | float | str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Array:
    at: int
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Tuple:
    at: int
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Unary:
    at: int
    operator: Literal["+", "-", "!"]
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """`at` is the position of the operator."""

    at: int
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class IfElse:
    """`value if condition else other`."""

    at: int
    condition: Expression
    value: Expression
    other: Expression


@dataclass(frozen=True, slots=True)
class Comprehension:
    """`[for name in array, ... if condition yield item]`."""

    at: int
    iterators: tuple[tuple[Identifier, Expression], ...]
    condition: Expression | None
    item: Expression


@dataclass(frozen=True, slots=True)
class Subscript:
    """`operand[begin]`, or `operand[begin:end]` if `is_range`."""

    at: int
    operand: Expression
    begin: Expression | None
    end: Expression | None
    is_range: bool


@dataclass(frozen=True, slots=True)
class Builtin:
    """shape_of, length_of, range_of, integer, scalar, logical or string of one argument."""

    at: int
    name: str
    argument: Expression


@dataclass(frozen=True, slots=True)
class Argument:
    at: int
    name: str | None  # None: positional
    value: Expression


@dataclass(frozen=True, slots=True)
class Invocation:
    """`name<dtype>(arguments)`; `dtype` None if there is no type argument."""

    at: int
    name: str
    dtype: PrimitiveName | None
    arguments: tuple[Argument, ...]


Expression = (
    Identifier
    | Literal_
    | Array
    | Tuple
    | Unary
    | Binary
    | IfElse
    | Comprehension
    | Subscript
    | Builtin
    | Invocation
)

LValue = Identifier | Array | Tuple  # of LValues


# -- definitions


@dataclass(frozen=True, slots=True)
class Assignment:
    at: int
    target: LValue
    value: Expression


@dataclass(frozen=True, slots=True)
class Parameter:
    at: int
    name: str
    type: TypeSpec
    default: Expression | None = None


@dataclass(frozen=True, slots=True)
class Result:
    at: int
    name: str
    type: TypeSpec


@dataclass(frozen=True, slots=True)
class Fragment:
    """A fragment with its body; None for a declaration without body (custom operation).

    `generic`: declared with <?>; `default_dtype`: the type in <? = type>.
    """

    at: int
    name: str
    generic: bool
    default_dtype: PrimitiveName | None
    parameters: tuple[Parameter, ...]
    results: tuple[Result, ...]
    body: tuple[Assignment, ...] | None


@dataclass(frozen=True, slots=True)
class Graph:
    at: int
    name: str
    parameters: tuple[Identifier, ...]
    results: tuple[Identifier, ...]
    body: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Extension:
    """One `extension` line with its names.

    `text`: the text after the first name, if it is not a list of names, as in
    `extension tract_assert S >= 0;`.
    """

    at: int
    names: tuple[Identifier, ...]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A document; `is_tract`: in the dialect of sonos/tract."""

    source: SourceText = field(compare=False, repr=False)
    version: Literal_
    extensions: tuple[Extension, ...]
    fragments: tuple[Fragment, ...]
    graph: Graph
    is_tract: bool = False


@dataclass(frozen=True, slots=True)
class QuantizationEntry:
    """One entry of a quantization file (5.3): `"tensor": operation(name = value, ...);`"""

    at: int
    tensor: str
    invocation: Invocation


@dataclass(frozen=True, slots=True)
class QuantizationFile:
    source: SourceText = field(compare=False, repr=False)
    entries: tuple[QuantizationEntry, ...]
