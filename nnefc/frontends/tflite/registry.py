"""The registry of operators: Python functions registered under TensorFlow Lite's names.

    @operator("SOFTMAX", options="SoftmaxOptions", types=REALS)
    def softmax(make: OpBuilder, input: Operand, *, beta: float) -> Any: ...

The positional parameters of a function after `make` are the inputs of the operator, in order.  Its
keyword parameters are options, with the names and defaults of the schema.  Annotations say how
inputs are converted.  A parameter `node: Node` receives the operator itself, with the tensors of
its inputs and outputs.  An operator may have several functions, for different item types.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, Final, TypeVar

from nnefc.formats.tflite.enumerations import CUSTOM
from nnefc.formats.tflite.model import Operator as OperatorOfFile
from nnefc.formats.tflite.model import Tensor
from nnefc.formats.tflite.schema import schema
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, integers, operand
from nnefc.frontends.tflite import operators as operator_modules
from nnefc.ops import custom

Integers = tuple[int, ...]
"""The annotation of an input of known integers."""

REALS: Final = ("FLOAT32",)
NUMBERS: Final = ("FLOAT32", "INT32", "INT64")
CODES: Final = ("UINT8", "INT8")
"""Item types of quantized tensors."""
CODES_16: Final = ("INT16",)
"""The item type of codes of 16 bits, whose filters have 8 bits."""
ANY: Final = (
    *("FLOAT32", "INT32", "INT64", "BOOL", "UINT8", "INT8", "INT16", "FLOAT16", "UINT16"),
    *("UINT32", "UINT64", "FLOAT64", "BFLOAT16"),
)
"""Item types of operators that only move items."""
COMPLEX: Final = "COMPLEX64"
OF_USERS: Final = "*"
"""The name of the custom operator that calls functions of users."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of a model, with its tensors."""

    operator: OperatorOfFile
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor | None, ...]
    intermediates: tuple[Tensor | None, ...] = ()

    @property
    def output(self) -> Tensor:
        """The first output."""
        if not self.outputs or self.outputs[0] is None:
            raise OperatorError("tflite/arguments", "it has no output")
        return self.outputs[0]

    def __str__(self) -> str:
        return str(self.operator)


@dataclass(frozen=True)
class Operator:
    """A function for an operator with certain item types."""

    name: str
    function: Callable[..., Any]
    options: str
    """The table of its options, or ""."""
    types: tuple[str, ...]
    """Empty for an operator that has no tensors."""
    typed_by: int
    """The input whose item type is one of `types`."""
    is_custom: bool = False
    """Whether `name` is that of a custom operator."""

    @property
    def moves_items(self) -> bool:
        """Whether it takes items of all types, so also the parts of complex numbers."""
        return self.types == ANY

    @property
    def parameters(self) -> Parameters:
        return _parameters(self.function)


@dataclass(frozen=True, slots=True)
class Parameter:
    """An input of an operator."""

    name: str
    convert: Callable[[Any], Any]
    is_optional: bool


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of an operator's function."""

    inputs: tuple[Parameter, ...]
    rest: Callable[[Any], Any] | None
    """The conversion of tensors behind `inputs`; None if there are no more."""
    options: tuple[str, ...]
    takes_node: bool


_operators: dict[str, list[Operator]] = {}
_custom: dict[str, Operator] = {}


def operator(
    *names: str, types: Sequence[str], options: str = "", typed_by: int = 0
) -> Callable[[_Function], _Function]:
    """Register a function for operators `names` with these item types."""

    def register(function: _Function) -> _Function:
        for name in names:
            known = _operators.setdefault(name, [])
            if any(set(each.types) & set(types) for each in known):
                raise ValueError(f"{name} is registered already for some of {', '.join(types)}")
            known.append(Operator(name, function, options, tuple(types), typed_by))
        return function

    return register


def custom_operator(name: str) -> Callable[[_Function], _Function]:
    """Register a function for the custom operator `name`; it reads its options itself."""

    def register(function: _Function) -> _Function:
        _custom[name] = Operator(name, function, "", (), 0, is_custom=True)
        return function

    return register


def custom_operators() -> Mapping[str, Operator]:
    """The custom operators that nnefc has, by name."""
    _load()
    return _custom


def operators() -> Mapping[str, Sequence[Operator]]:
    """All functions by the names of operators."""
    _load()
    return _operators


def find(node: Node) -> Operator | None:
    """The function for an operator with the item types of its inputs; None if there is none.

    Raises NnefError if a package that registers operations cannot be imported.
    """
    if node.operator.name == CUSTOM:
        custom.load_entry_points()
        code = node.operator.custom_code
        is_of_user = custom.spec(identifier(code)) is not None
        return custom_operators().get(OF_USERS if is_of_user else code)
    for each in operators().get(node.operator.name, ()):
        type_ = type_of(node, each.typed_by)
        if type_ in (each.types or ("",)) or (each.moves_items and type_ == COMPLEX):
            return each
    return None


def identifier(code: str) -> str:
    """The name under which a custom operator is registered: other characters are `_`."""
    return re.sub(r"\W", "_", code, flags=re.ASCII)


def type_of(node: Node, index: int) -> str:
    """The item type of an input; that of the first output if there is no such input."""
    tensors = [*node.inputs[index : index + 1], *node.outputs[:1]]
    return next((each.type for each in tensors if each is not None), "")


@cache
def _load() -> None:
    for module in walk_packages(operator_modules.__path__, f"{operator_modules.__name__}."):
        import_module(module.name)


def bind(
    registered: Operator, inputs: Sequence[Any], node: Node
) -> tuple[list[Any], dict[str, Any]]:
    """The converted arguments of an operator's function; raises OperatorError.

    `inputs`: None for absent ones.
    """
    parameters = registered.parameters
    most = len(parameters.inputs)
    if len(inputs) > most and parameters.rest is None:
        message = f"it takes at most {most} inputs, not {len(inputs)}"
        raise OperatorError("tflite/arguments", message)
    given = [*inputs[:most], *[None] * (most - len(inputs))]
    positional = [_converted(*pair) for pair in zip(parameters.inputs, given, strict=True)]
    if parameters.rest is not None:
        positional += [parameters.rest(each) for each in inputs[most:]]
    named = _options(registered, node)
    if parameters.takes_node:
        named["node"] = node
    return positional, named


def _options(registered: Operator, node: Node) -> dict[str, Any]:
    """The options of an operator; defaults of the schema where it has none."""
    wanted = registered.parameters.options
    if not wanted:
        return {}
    table = node.operator.options_table
    if table and table != registered.options:
        message = f"it has {table}, not {registered.options}"
        raise OperatorError("tflite/arguments", message)
    defaults = {each.name: each.missing for each in schema().tables[registered.options]}
    filled = {**defaults, **node.operator.options}
    return {name: filled[name] for name in wanted}


def _converted(parameter: Parameter, value: Any) -> Any:
    """An input, converted; raises OperatorError for one that is missing."""
    if value is None:
        if parameter.is_optional:
            return None
        raise OperatorError("tflite/arguments", f"its input '{parameter.name}' is missing")
    try:
        return parameter.convert(value)
    except OperatorError as wrong:
        message = f"{parameter.name}: {wrong.message}"
        raise OperatorError(wrong.rule, message, wrong.hint, wrong.unknown) from None


@cache
def _parameters(function: Callable[..., Any]) -> Parameters:
    """The parameters of an operator's function after `make`."""
    hints = typing.get_type_hints(function)
    _, *listed = inspect.signature(function).parameters.values()
    inputs: list[Parameter] = []
    options: list[str] = []
    rest: Callable[[Any], Any] | None = None
    for each in listed:
        if each.name == "node":
            continue
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            may_be_absent = type(None) in typing.get_args(hints[each.name])
            rest = _or_none if may_be_absent else operand
            rest = _as_given if hints[each.name] is Any else rest
            continue
        if each.kind is inspect.Parameter.KEYWORD_ONLY:
            options.append(each.name)
            continue
        hint = hints[each.name]
        members = set(typing.get_args(hint))
        is_optional = type(None) in members
        is_known = hint == Integers or Integers in members
        convert = integers if is_known else _as_given if hint is Any else operand
        inputs.append(Parameter(each.name, convert, is_optional))
    takes_node = any(each.name == "node" for each in listed)
    return Parameters(tuple(inputs), rest, tuple(options), takes_node)


def _as_given(value: Any) -> Any:
    """A value of any kind, such as a resource."""
    return value


def _or_none(value: Any) -> Operand | None:
    return None if value is None else operand(value)


def known(x: Operand, name: str) -> KnownTensor:
    """A tensor that must be known before the model runs; raises OperatorError."""
    if isinstance(x, KnownTensor):
        return x
    message = f"{name} must be a constant, but is computed from the inputs of the model"
    raise OperatorError("operator/attribute", message, unknown=[x])
