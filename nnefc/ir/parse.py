"""The parser of the text form of the IR; `nnefc.ir.text` defines the notation."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from nnefc.ir.convolution_algorithm import parse_algorithm
from nnefc.ir.expression import Expression, Step
from nnefc.ir.graph import Attribute, Count, Graph, Op, State, Value, Variable
from nnefc.ir.layout import Blocked
from nnefc.ir.types import DType, TensorType
from nnefc.support.errors import NnefError, Place

if TYPE_CHECKING:
    import numpy as np

NESTING = 100
"""Maximum depth of nested attributes."""

_DTYPES = {t.value: t for t in DType}
_Item = TypeVar("_Item")
_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\r\n]+|\#(?![0-9])[^\n]*)+)
      | (?P<value>%(?:[A-Za-z_0-9]+|"(?:[^"\\\n]|\\.)*")(?:\#[0-9]+)?)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<digest>@[0-9a-f]+)
      | (?P<number>[-+]?(?:inf|nan|[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)(?![A-Za-z_0-9]))
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<mark>->|[(){}\[\],:;=?])""",
    re.VERBOSE,
)


def parse_graph(
    text: str, file: str = "<ir>", *, data: Mapping[str, np.ndarray[Any, Any]] | None = None
) -> Graph:
    """The graph that `text` describes.

    `data`: arrays by digest, for constants that the text refers to.  Variables have no data.
    Raises NnefError (rule `syntax/ir`) at the first error.
    """
    graph = _Parser(text, file, data or {}).whole()
    graph.share_variables()
    return graph


class _Parser:
    def __init__(self, text: str, file: str, data: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self._text = text
        self._file = file
        self._data = data
        self._values: dict[str, Value] = {}
        self._at: int = 0
        self._depth = 0
        self._kind: str = ""
        self._token: str = ""
        self._end: int = 0
        self._advance()

    def _error(self, message: str, hint: str = "") -> NnefError:
        line = self._text.count("\n", 0, self._at) + 1
        column = self._at - self._text.rfind("\n", 0, self._at)
        return NnefError.of("syntax/ir", message, Place(self._file, line, column), hint)

    def _advance(self) -> None:
        self._at = self._end
        while self._at < len(self._text):
            match = _TOKEN.match(self._text, self._at)
            if match is None:
                raise self._error(f"unexpected character {self._text[self._at]!r}")
            if match.lastgroup != "space":
                self._kind, self._token = match.lastgroup or "", match.group()
                self._end = match.end()
                return
            self._at = match.end()
        self._kind, self._token, self._end = "end", "end of text", self._at

    @property
    def _position(self) -> tuple[int, int, str, str]:
        """Start, end, kind and text of the current token."""
        return self._at, self._end, self._kind, self._token

    @_position.setter
    def _position(self, position: tuple[int, int, str, str]) -> None:
        self._at, self._end, self._kind, self._token = position

    def _take(self, kind: str, what: str) -> str:
        if self._kind != kind:
            raise self._error(f"expected {what}, found {self._token!r}")
        token = self._token
        self._advance()
        return token

    def _is(self, token: str) -> bool:
        return self._token == token and self._kind in ("mark", "word", "number")

    def _accept(self, token: str) -> bool:
        if self._is(token):
            self._advance()
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise self._error(f"expected {token!r}, found {self._token!r}")

    def _list(self, item: Callable[[], _Item], close: str) -> list[_Item]:
        """Items separated by commas, up to and including `close`."""
        items: list[_Item] = []
        while not self._accept(close):
            if items:
                self._expect(",")
            items.append(item())
        return items

    # -- the graph

    def whole(self) -> Graph:
        graph = self._graph()
        if self._kind != "end":
            raise self._error(f"expected the end of the text, found {self._token!r}")
        return graph

    def _body(self) -> Graph:
        """A nested graph; the values of the outer graph are not visible in it."""
        outside, self._values = self._values, {}
        with self._nested():
            graph = self._graph()
        self._values = outside
        return graph

    def _graph(self) -> Graph:
        self._expect("graph")
        graph = Graph(self._name())
        self._expect("(")
        for key, name, type_ in self._list(self._declaration, ")"):
            self._define(key, graph.add_input(type_, name))
        self._expect("->")
        self._expect("(")
        start = self._position
        self._list(self._skip_output, ")")  # its values are not defined yet
        self._expect("{")
        while not self._accept("}"):
            if self._begins("variable"):
                self._variable(graph)
            elif self._begins("state"):
                self._state(graph)
            elif self._begins("count"):
                self._count(graph)
            else:
                self._operation(graph)
        end, self._position = self._position, start
        for name, value in self._list(self._output, ")"):
            graph.add_output(value, name)
        self._position = end
        return graph

    def _skip_output(self) -> None:
        self._name()
        self._expect("=")
        self._take("value", "a value")

    def _output(self) -> tuple[str, Value]:
        name = self._name()
        self._expect("=")
        return name, self._use()

    def _begins(self, keyword: str) -> bool:
        """Whether a declaration, not an operation of that name, starts here; skips the keyword."""
        start = self._position
        if self._accept(keyword) and not self._is("("):
            return True
        self._position = start
        return False

    def _variable(self, graph: Graph) -> None:
        label = self._string()
        self._expect(":")
        graph.variables[label.lower()] = Variable(label, self._type())

    def _state(self, graph: Graph) -> None:
        name, positions = self._string(), self._positions("input", "output", "axis")
        graph.states.append(State(name, *positions))

    def _count(self, graph: Graph) -> None:
        at = self._at
        output, of, axis = self._positions("output", "of", "axis")
        if output is None or of is None or axis is None:
            self._at = at
            raise self._error("a count needs output, of and axis")
        graph.counts.append(Count(output, of, axis))

    def _positions(self, *names: str) -> list[int | None]:
        """The numbers in `{name = number, ...}`; None for missing names."""
        self._expect("{")
        positions = dict(self._list(self._named_attribute, "}"))
        for name, value in positions.items():
            if name not in names or type(value) is not int:
                raise self._error(f"expected a position for {' or '.join(names)}, found {name!r}")
        return [positions.get(name) for name in names]

    def _operation(self, graph: Graph) -> None:
        declared: list[tuple[str, str, TensorType]] = []
        if self._kind == "value":
            declared.append(self._declaration())
            while self._accept(","):
                declared.append(self._declaration())
            self._expect("=")
        op_name = self._name()
        self._expect("(")
        inputs = self._list(self._use, ")")
        attributes: dict[str, Attribute] = {}
        if self._accept("{"):
            for name, value in self._list(self._named_attribute, "}"):
                attributes[name] = value
        types = [type_ for _, _, type_ in declared]
        op = graph.insert(Op(op_name, inputs, attributes, types, [name for _, name, _ in declared]))
        for (key, _, _), value in zip(declared, op.outputs, strict=True):
            self._define(key, value)
        label = attributes.get("label")
        if op_name == "variable" and isinstance(label, str) and types:
            graph.variables.setdefault(label.lower(), Variable(label, types[0]))

    def _declaration(self) -> tuple[str, str, TensorType]:
        """(%key, name, type); a numbered value has no name."""
        key = self._take("value", "a value")
        if key in self._values:
            raise self._error(f"{key} is defined twice")
        self._expect(":")
        bare = key[1:]
        if bare.startswith('"'):
            name = self._unquote(bare[: bare.rindex('"') + 1])
        else:
            name = bare.partition("#")[0]
        return key, "" if name.isdecimal() and not bare.startswith('"') else name, self._type()

    def _define(self, key: str, value: Value) -> None:
        if key in self._values:
            raise self._error(f"{key} is defined twice")
        self._values[key] = value

    def _use(self) -> Value:
        if self._kind == "value" and self._token not in self._values:
            raise self._error(f"{self._token} is not defined", "values are defined before use")
        return self._values[self._take("value", "a value")]

    # -- words, types and attributes

    def _name(self) -> str:
        if self._kind == "string":
            return self._string()
        return self._take("word", "a name")

    def _string(self) -> str:
        return self._unquote(self._take("string", "a string"))

    def _unquote(self, token: str) -> str:
        try:
            return json.loads(token)
        except ValueError:
            raise self._error(f"invalid escape in {token}") from None

    def _dtype(self) -> DType:
        if self._kind != "word" or self._token not in _DTYPES:
            raise self._error(f"expected one of {', '.join(_DTYPES)}, found {self._token!r}")
        return _DTYPES[self._take("word", "a type")]

    def _type(self) -> TensorType:
        dtype = self._dtype()
        self._expect("[")
        if self._accept("?"):
            self._expect("]")
            return TensorType(dtype, None)
        type_ = TensorType(dtype, tuple(self._list(self._extent, "]")))
        return type_.with_layout(self._layout(dtype.itemsize)) if self._accept("blocked") else type_

    def _layout(self, itemsize: int) -> Blocked:
        self._expect("(")
        block = self._extent()
        fill = self._extent("-") if self._accept("fill") else 0
        halo: list[tuple[int, int]] = []
        while self._accept(","):
            self._expect("[")
            before, _, after = self._extent(), self._expect(","), self._extent()
            halo.append((before, after))
            self._expect("]")
        self._expect(")")
        return Blocked(block, tuple(halo), itemsize, fill)

    def _extent(self, sign: str = "") -> int:
        if self._kind != "number" or not self._token.removeprefix(sign).isdecimal():
            raise self._error(f"expected an extent, found {self._token!r}")
        return int(self._take("number", "an extent"))

    def _named_attribute(self) -> tuple[str, Attribute]:
        name = self._name()
        self._expect("=")
        return name, self._attribute()

    def _attribute(self) -> Attribute:
        if self._kind == "string":
            return self._string()
        if self._is("tensor"):
            return self._array()
        if self._is("graph"):
            return self._body()
        if self._kind == "word" and self._token in _DTYPES:
            return self._dtype()
        if self._kind == "word" and (algorithm := parse_algorithm(self._token)) is not None:
            self._advance()
            return algorithm
        if self._accept("("):
            return self._expression()
        if not self._accept("["):
            return self._scalar()
        with self._nested():
            return tuple(self._list(self._attribute, "]"))

    @contextmanager
    def _nested(self) -> Generator[None]:
        """One level deeper; raises NnefError beyond `NESTING`."""
        self._depth += 1
        if self._depth > NESTING:
            raise self._error(f"attributes are nested deeper than {NESTING}")
        yield
        self._depth -= 1

    def _scalar(self) -> bool | int | float:
        if self._kind == "word" and self._token in ("true", "false"):
            return self._take("word", "") == "true"
        token = self._token
        if self._kind != "number":
            raise self._error(f"expected an attribute, found {token!r}")
        if len(token) > 400:
            raise self._error(f"a number has {len(token)} characters, more than 400")
        self._advance()
        return int(token) if token.lstrip("+-").isdecimal() else float(token)

    def _array(self) -> np.ndarray[Any, Any]:
        import numpy as np

        self._expect("tensor")
        type_ = self._type()
        if self._kind == "digest":
            key = self._token[1:]
            if key not in self._data:
                raise self._error(f"no data for @{key}", "pass it in data=")
            self._advance()
            return self._data[key]
        self._expect("[")
        items = self._list(self._scalar, "]")
        if len(items) != math.prod(type_.dims):
            raise self._error(f"{len(items)} items do not fill {type_}")
        try:
            return np.array(items, type_.dtype.numpy).reshape(type_.dims)
        except (OverflowError, ValueError) as error:
            raise self._error(f"items do not fit {type_.dtype}: {error}") from None

    def _expression(self) -> Expression:
        """An expression, after its opening parenthesis."""
        inputs = [self._operand_type(i) for i in self._numbered(")")]
        steps: list[Step] = []
        self._expect("{")
        while not self._accept("return"):
            dtype = self._operand_type(len(inputs) + len(steps))
            self._expect("=")
            if self._kind == "number" or self._token in ("true", "false"):
                steps.append(Step("literal", (), dtype, self._scalar()))
            else:
                name = self._name()
                self._expect("(")
                steps.append(Step(name, tuple(self._list(self._operand, ")")), dtype))
            self._expect(";")
        return Expression(tuple(inputs), tuple(steps), tuple(self._list(self._operand, "}")))

    def _numbered(self, close: str) -> Iterable[int]:
        count = 0
        while not self._accept(close):
            if count:
                self._expect(",")
            yield count
            count += 1

    def _operand_type(self, number: int) -> DType:
        if self._kind != "value" or self._token != f"%{number}":
            raise self._error(f"expected %{number}, found {self._token!r}")
        self._advance()
        self._expect(":")
        return self._dtype()

    def _operand(self) -> int:
        token = self._take("value", "an operand")
        if not token[1:].isdecimal():
            raise self._error(f"operands of an expression are numbered, found {token!r}")
        return int(token[1:])
