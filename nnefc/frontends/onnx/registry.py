"""The registry of operators: Python functions registered under ONNX's names.

    @operator("Squeeze", until=12)
    def squeeze_1(make: OpBuilder, data: Operand, *, axes: Integers | None = None) -> Any: ...

    @operator("Squeeze", since=13)
    def squeeze(make: OpBuilder, data: Operand, axes: Integers | None = None) -> Any: ...

The positional parameters of a function after `make` are the inputs of the operator, in order; the
keyword parameters are its attributes, with the defaults of these versions.  Annotations say how
arguments are converted.  A parameter `node: Node` receives the node itself.  A keyword parameter
whose annotation is an `AttributeRecord` receives several attributes, the fields of the record.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, Final, TypeVar, cast

from nnefc.frontends.common.values import (
    Operand,
    OperatorError,
    StringTensor,
    integers,
    operand,
    scalar,
)
from nnefc.frontends.onnx import operators as operator_modules
from nnefc.frontends.onnx.node import BROKEN, Node
from nnefc.ops.tools.suggest import suggestion

Integers = tuple[int, ...]
"""The annotation of known integers: an attribute, or an input that is known."""
Floats = tuple[float, ...]
"""The annotation of known numbers."""
Strings = tuple[str, ...]

STANDARD: Final = ""
"""The domain of the operators of ONNX itself, `ai.onnx`."""
MICROSOFT: Final = "com.microsoft"
NEWEST: Final = 1 << 30
CONSUMED_INPUTS: Final = "consumed_inputs"
"""An attribute of version 1, which permits to compute in place; no function has it."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class AttributeRecord:
    """The base of records of attributes that several operators have."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An input or an attribute; `default` is `inspect.Parameter.empty` if it is required."""

    name: str
    convert: Callable[[Any], Any]
    default: Any
    items: type[int] | type[float] | type[str] | None = None
    """Of an attribute: the type of its value, or of its items; None for other values."""


@dataclass(frozen=True)
class Operator:
    """A function for the versions `since` to `until` of an operator."""

    name: str
    since: int
    until: int
    function: Callable[..., Any]

    @property
    def parameters(self) -> Parameters:
        return _parameters(self.function)


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of an operator's function."""

    inputs: tuple[Parameter, ...]
    rest: Callable[[Any], Any] | None
    """The conversion of inputs behind `inputs`; None if there are no more."""
    attributes: Mapping[str, Parameter]
    """All attributes, those in records included."""
    records: Mapping[str, type[AttributeRecord]]
    """Parameters that receive several attributes."""
    takes_node: bool


_operators: dict[tuple[str, str], list[Operator]] = {}
_refused: dict[tuple[str, str], str] = {}


def operator(
    *names: str, domain: str = STANDARD, since: int = 1, until: int = NEWEST
) -> Callable[[_Function], _Function]:
    """Register a function for operators `names` in versions `since` to `until` of a domain."""

    def register(function: _Function) -> _Function:
        for name in names:
            versions = _operators.setdefault((domain, name), [])
            if any(each.since <= until and since <= each.until for each in versions):
                raise ValueError(f"{name} is registered already for some of {since} to {until}")
            versions.append(Operator(name, since, until, function))
        return function

    return register


def refuse(reason: str, *names: str, domain: str = STANDARD) -> None:
    """Register the reason why nnefc does not support some operators."""
    for name in names:
        _refused[domain, name] = reason


def refusal(domain: str, name: str) -> str | None:
    """Why an operator is not supported; None if no reason is known."""
    _load()
    return _refused.get((domain, name))


def refused() -> Mapping[tuple[str, str], str]:
    """The reasons why operators are not supported, by domain and name."""
    _load()
    return _refused


def find(domain: str, name: str, version: int) -> Operator | None:
    """The function for an operator in a version of its domain; None if there is none."""
    _load()
    versions = _operators.get((domain, name), ())
    return next((each for each in versions if each.since <= version <= each.until), None)


def operators() -> Mapping[tuple[str, str], Sequence[Operator]]:
    """All functions by domain and name."""
    _load()
    return _operators


def versions_of(every: Iterable[Operator]) -> str:
    """The versions of an operator: `1 to 6, 9 and later`."""
    ranges: list[tuple[int, int]] = []
    for each in sorted(every, key=lambda operator: operator.since):
        if ranges and each.since == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], each.until)
        else:
            ranges.append((each.since, each.until))
    texts = [
        f"{first} and later"
        if last == NEWEST
        else f"{first} to {last}"
        if last > first
        else str(first)
        for first, last in ranges
    ]
    return ", ".join(texts)


@cache
def _load() -> None:
    for module in walk_packages(operator_modules.__path__, f"{operator_modules.__name__}."):
        import_module(module.name)


def bind(
    operator: Operator, inputs: Sequence[Any], attributes: Mapping[str, Any], node: Node
) -> tuple[list[Any], dict[str, Any]]:
    """The converted arguments of an operator's function; raises OperatorError.

    `inputs`: None for an optional input that is absent.  `BROKEN` ones stay as they are, so that
    the others and the attributes are checked.
    """
    parameters = operator.parameters
    most = len(parameters.inputs)
    if len(inputs) > most and parameters.rest is None:
        message = f"takes at most {most} inputs, not {len(inputs)}"
        raise OperatorError("onnx/arguments", message)
    positional: list[Any] = []
    for parameter, value in zip(parameters.inputs, inputs, strict=False):
        positional.append(_converted(parameter, value))
    for parameter in parameters.inputs[len(inputs) :]:
        positional.append(_converted(parameter, None))
    if parameters.rest is not None:
        positional += [
            value if value is BROKEN else parameters.rest(value) for value in inputs[most:]
        ]
    named: dict[str, Any] = {}
    for name, value in attributes.items():
        if name == CONSUMED_INPUTS:
            continue
        parameter = parameters.attributes.get(name)
        if parameter is None:
            hint = suggestion(name, parameters.attributes)
            message = f"version {node.version} has no attribute '{name}'"
            raise OperatorError("onnx/arguments", message, hint)
        _check_items(parameter, value)
        named[name] = _converted(parameter, value)
    for name, parameter in parameters.attributes.items():
        if name not in named:
            named[name] = _converted(parameter, None)
    for name, record in parameters.records.items():
        named[name] = record(**{each.name: named.pop(each.name) for each in fields(record)})
    if parameters.takes_node:
        named["node"] = node
    return positional, named


def _converted(parameter: Parameter, value: Any) -> Any:
    """An argument, converted; None, for one that is absent, becomes the default."""
    if value is None:
        if parameter.default is inspect.Parameter.empty:
            raise OperatorError("onnx/arguments", f"'{parameter.name}' is missing")
        return parameter.default
    if value is BROKEN:
        return value
    try:
        return parameter.convert(value)
    except OperatorError as wrong:
        message = f"{parameter.name}: {wrong.message}"
        raise OperatorError(wrong.rule, message, wrong.hint, wrong.unknown) from None


def _check_items(parameter: Parameter, value: Any) -> None:
    """Raise OperatorError for an attribute of another type than that of the operator."""
    for item in cast("tuple[Any, ...]", value if isinstance(value, tuple) else (value,)):
        wrong = isinstance(item, (int, float, str)) and type(item) is not parameter.items
        if wrong and parameter.items is not None:
            given = f"the {_KINDS[type(item)]} {item!r}"
            message = f"'{parameter.name}' is {given}, but must be {_ARTICLES[parameter.items]}"
            raise OperatorError("onnx/arguments", message)


_KINDS: Final = {int: "integer", bool: "boolean", float: "real number", str: "string"}
_ARTICLES: Final = {int: "an integer", float: "a real number", str: "a string"}


@cache
def _parameters(function: Callable[..., Any]) -> Parameters:
    """The parameters of an operator's function after `make`."""
    hints = typing.get_type_hints(function, localns={"Node": Node})
    _, *listed = inspect.signature(function).parameters.values()
    inputs: list[Parameter] = []
    attributes: dict[str, Parameter] = {}
    records: dict[str, type[AttributeRecord]] = {}
    rest: Callable[[Any], Any] | None = None
    for each in listed:
        if each.name == "node":
            continue
        hint = hints[each.name]
        if isinstance(hint, type) and issubclass(hint, AttributeRecord):
            records[each.name] = hint
            attributes.update(_fields(hint))
            continue
        convert = _converter(hint)
        default = each.default
        if default is inspect.Parameter.empty and type(None) in typing.get_args(hint):
            default = None  # an optional input before one that is required
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            rest = convert
        elif each.kind is inspect.Parameter.KEYWORD_ONLY:
            attributes[each.name] = Parameter(each.name, convert, default, _items(hint))
        else:
            inputs.append(Parameter(each.name, convert, default))
    takes_node = any(each.name == "node" for each in listed)
    return Parameters(tuple(inputs), rest, attributes, records, takes_node)


def _fields(record: type[AttributeRecord]) -> dict[str, Parameter]:
    """The attributes in a record."""
    hints = typing.get_type_hints(record)
    empty = inspect.Parameter.empty
    return {
        each.name: Parameter(
            each.name,
            _converter(hints[each.name]),
            empty if each.default is MISSING else each.default,
            _items(hints[each.name]),
        )
        for each in fields(record)
    }


# -- conversions, by annotation


def _converter(hint: Any) -> Callable[[Any], Any]:
    """The conversion of arguments for a parameter annotated with `hint`."""
    simple: dict[Any, Callable[[Any], Any]] = {
        int: _integer,
        float: scalar,
        bool: _flag,
        str: _text,
        Operand: _tensor,
        Integers: integers,
        Floats: _floats,
        Strings: _texts,
        Any: _itself,
    }
    if hint in simple:
        return simple[hint]
    members = [each for each in typing.get_args(hint) if each is not type(None)]
    if len(members) == 1:
        return _converter(members[0])
    if set(members) == set(typing.get_args(Operand)):
        return _tensor
    if isinstance(hint, type):
        return _instance_of(hint)
    raise TypeError(f"no argument can be converted to {hint}")


def _items(hint: Any) -> type[int] | type[float] | type[str] | None:
    """The type of the items of an attribute that is annotated with `hint`."""
    members = [each for each in typing.get_args(hint) if each is not type(None)]
    if type(None) in typing.get_args(hint) and len(members) == 1:
        return _items(members[0])
    known: dict[Any, Any] = {
        **dict.fromkeys((int, bool, Integers), int),
        **dict.fromkeys((float, Floats), float),
        **dict.fromkeys((str, Strings), str),
    }
    return known.get(hint)


def _itself(value: Any) -> Any:
    return value


def _tensor(value: Any) -> Operand:
    if isinstance(value, StringTensor):
        raise OperatorError("onnx/unsupported", value.wrong.message)
    return operand(value)


_NOUNS: Final = {"Subgraph": "graph", "TensorSequence": "sequence"}


def _instance_of(type_: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if not isinstance(value, type_):
            noun = _NOUNS.get(type_.__name__, type_.__name__)
            raise OperatorError("onnx/arguments", f"a {noun} is expected")
        return value

    return convert


def _integer(value: Any) -> int:
    items = integers(value)
    if len(items) != 1:
        raise OperatorError("onnx/arguments", f"one integer is expected, not {len(items)}")
    return items[0]


def _flag(value: Any) -> bool:
    return bool(_integer(value))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise OperatorError("onnx/arguments", f"a string is expected, not {value!r}")


def _texts(value: Any) -> Strings:
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return tuple(_text(item) for item in items)
    return (_text(value),)


def _floats(value: Any) -> Floats:
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return tuple(scalar(item) for item in items)
    x = operand(value)
    if hasattr(x, "array"):
        return tuple(float(item) for item in x.array.reshape(-1))  # pyright: ignore
    raise OperatorError(
        "onnx/value", "numbers that are known before the model runs are expected here", unknown=[x]
    )
