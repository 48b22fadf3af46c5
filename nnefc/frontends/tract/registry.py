"""The registry of operators: Python functions registered under tract's names.

    @operator("tract_core")
    def tract_core_gather(make: OpBuilder, input: Operand, indices: Operand, axis: int) -> Any: ...

defines the operator `tract_core_gather`.  The first parameter is the builder of the graph:
`make("add", x, y)` is the result of an operation, appended to the graph or, for known operands,
computed at once.  The other parameters are those of the operator in the dialect, in order and with
defaults; their annotations say how arguments are converted.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final, NewType, TypeVar

from nnefc.frontends.common.values import (
    ComplexTensor,
    KnownTensor,
    Operand,
    OperatorError,
    QuantizedTensor,
    integers,
    named_type,
    operand,
    scalar,
)
from nnefc.ir import Value
from nnefc.support.registration import is_taken

Pairs = tuple[tuple[int, int], ...]
"""The annotation of an array of pairs of integers."""
Operands = tuple[Operand, ...]
"""The annotation of an array of tensors."""
TypeName = NewType("TypeName", str)
"""The annotation of the name of an item type, which may be empty."""
NO_TYPE: Final = TypeName("")
F32: Final = TypeName("f32")

REGISTRIES: Final = (
    "tract_nnef",
    "tract_core",
    "tract_transformers",
    "tract_onnx",
    "tract_extra",
    "tract_resource",
    "tract_pulse",
)
MODULES: Final = (
    "arithmetic",
    "boxes",
    "complex_numbers",
    "experts",
    "inputs_and_constants",
    "gathering",
    "lookups",
    "movement",
    "pooling",
    "nonzero",
    "products",
    "random",
    "recurrent",
    "reductions",
    "scan",
    "fourier",
    "states",
    "streaming",
    "sums",
    "transformers",
    "trees",
    "convolutions",
)

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an operator.

    `keyword` is its name in Python, where `lambda_` stands for `lambda`.  `convert` converts an
    argument, raising OperatorError; `default` is `inspect.Parameter.empty` if the argument is
    required.
    """

    name: str
    keyword: str
    convert: Callable[[Any], Any]
    default: Any


@dataclass(frozen=True)
class Operator:
    """An operator of the dialect.

    `takes_quantized`: `function` accepts quantized tensors; otherwise they are dequantized first.
    """

    name: str
    registry: str
    function: Callable[..., Any]
    takes_quantized: bool = False

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return _parameters(self.function)


_operators: dict[str, Operator] = {}
_NOTHING: Final[Mapping[str, Any]] = {}


def operator(
    registry: str, *aliases: str, quantized: bool = False
) -> Callable[[_Function], _Function]:
    """Register a function as the operator of its name and of `aliases`.

    A trailing underscore of the name is dropped: `slice_` is the operator `slice`.
    """

    def register(function: _Function) -> _Function:
        for name in (function.__name__.rstrip("_"), *aliases):
            registered = _operators.get(name)
            if registered is not None and is_taken(registered.function, function):
                raise ValueError(f"operator {name!r} is registered already")
            _operators[name] = Operator(name, registry, function, quantized)
        return function

    return register


_of_complex: dict[str, Callable[..., Any]] = {}


def on_complex(*names: str) -> Callable[[_Function], _Function]:
    """Register a function as the variant of operators for complex arguments.

    `names`: the operators; by default the one that is named like the function.  The function has
    parameters of the same names, possibly fewer.
    """

    def register(function: _Function) -> _Function:
        for name in names or (function.__name__.rstrip("_"),):
            _of_complex[name] = function
        return function

    return register


def complex_variant(operator: Operator) -> Operator:
    """The variant of an operator for complex arguments; raises OperatorError if it has none."""
    function = _of_complex.get(operator.name)
    if function is None:
        hint = "tract_core_complex_to_inner_dim moves their parts to a last dimension"
        raise OperatorError("operator/unsupported", "it does not take complex tensors", hint)
    return Operator(operator.name, operator.registry, function, takes_quantized=True)


_refused: dict[str, str] = {}


def refuse(name: str, reason: str) -> None:
    """Register the reason why nnefc does not support an operator of tract."""
    _refused[name] = reason


def refused() -> Mapping[str, str]:
    """The unsupported operators of tract by name, with the reason."""
    operators()
    return _refused


@cache
def operators() -> Mapping[str, Operator]:
    """All operators by name and alias."""
    for module in MODULES:
        import_module(f"nnefc.frontends.tract.operators.{module}")
    return _operators


@cache
def _parameters(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The parameters of an operator's function after `make`."""
    hints = typing.get_type_hints(function)
    _, *parameters = inspect.signature(function).parameters.values()
    return tuple(
        Parameter(p.name.rstrip("_"), p.name, _converter(hints[p.name]), p.default)
        for p in parameters
    )


def bind(
    operator: Operator,
    positional: Sequence[Any],
    named: Mapping[str, Any],
    values: Mapping[str, Any] = _NOTHING,
) -> dict[str, Any]:
    """The converted arguments of an operator's function by keyword; raises OperatorError.

    `values`: the identifiers in scope, which torch_to_nnef names by strings in some shapes.
    """
    parameters = operator.parameters
    if len(positional) > len(parameters):
        raise OperatorError(
            "invocation/arguments",
            f"takes at most {len(parameters)} arguments, not {len(positional)}",
        )
    arguments = dict(zip((p.name for p in parameters), positional, strict=False))
    for name, value in named.items():
        if name in arguments:
            raise OperatorError("invocation/arguments", f"argument '{name}' is given twice")
        if name not in {p.name for p in parameters}:
            listed = ", ".join(p.name for p in parameters)
            hint = f"the parameters are {listed}"
            raise OperatorError("invocation/arguments", f"there is no parameter '{name}'", hint)
        arguments[name] = value
    missing = [
        p.name
        for p in parameters
        if p.name not in arguments and p.default is inspect.Parameter.empty
    ]
    if missing:
        raise OperatorError("invocation/arguments", f"argument '{missing[0]}' is missing")
    converted: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.name not in arguments:
            converted[parameter.keyword] = parameter.default
            continue
        value = arguments[parameter.name]
        if parameter.convert is integers and isinstance(value, tuple):
            items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
            value = tuple(values.get(x, x) if isinstance(x, str) else x for x in items)
        try:
            converted[parameter.keyword] = parameter.convert(value)
        except OperatorError as wrong:
            raise OperatorError(
                wrong.rule, f"{parameter.name}: {wrong.message}", wrong.hint
            ) from None
    return converted


# -- conversions, by annotation


def _converter(hint: Any) -> Callable[[Any], Any]:
    """The conversion of arguments for a parameter annotated with `hint`."""
    simple: dict[Any, Callable[[Any], Any]] = {
        int: _integer,
        float: scalar,
        bool: _flag,
        str: _text,
        TypeName: _type_name,
        Operand: operand,
        ComplexTensor: _complex,
        Operands: _operands,
        tuple[int, ...]: integers,
        Pairs: _pairs,
        Any: _itself,
    }
    conversion = simple.get(hint)
    if conversion is not None:
        return conversion
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = typing.get_args(hint)
        if type(None) in members:
            rest = [member for member in members if member is not type(None)]
            inner = operand if set(rest) == {Value, KnownTensor} else _converter(rest[0])
            return lambda value: None if _absent(value) else inner(value)
        if set(members) == {Value, KnownTensor, QuantizedTensor}:
            return lambda value: value if isinstance(value, QuantizedTensor) else operand(value)
    raise TypeError(f"no argument can be converted to {hint}")


def _absent(value: Any) -> bool:
    """Whether an optional argument is absent: tract writes `false`."""
    if isinstance(value, KnownTensor) and value.array.size == 1:
        value = value.array.reshape(()).item()
    return value is False or value is None


def _itself(value: Any) -> Any:
    return value


def _integer(value: Any) -> int:
    """A known integer; raises OperatorError."""
    items = integers(value)
    if len(items) != 1:
        raise OperatorError("operator/attribute", f"one integer is expected, not {len(items)}")
    return items[0]


def _flag(value: Any) -> bool:
    """A known boolean; raises OperatorError."""
    items = value if isinstance(value, str) else list(integers(value))
    if items not in ([0], [1]):
        raise OperatorError("operator/attribute", f"true or false is expected, not {items!r}")
    return items == [1]


def _text(value: Any) -> str:
    """A string; raises OperatorError."""
    if isinstance(value, str):
        return value
    raise OperatorError("operator/attribute", f"a string is expected, not {value!r}")


def _type_name(value: Any) -> TypeName:
    """The name of an item type; empty if the argument is absent.  Raises OperatorError."""
    if _absent(value):
        return TypeName("")
    if value != "":
        named_type(value)
    return TypeName(value)


def _complex(value: Any) -> ComplexTensor:
    if isinstance(value, ComplexTensor):
        return value
    raise OperatorError("operator/attribute", "a complex tensor is expected")


def _operands(value: Any) -> Operands:
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return tuple(operand(item) for item in items)
    return (operand(value),)


def _pairs(value: Any) -> Pairs:
    """An array of pairs from an array of pairs or of twice as many integers."""
    flat = integers(value)
    if len(flat) % 2:
        raise OperatorError(
            "operator/attribute", f"pairs of integers are expected, not {len(flat)} integers"
        )
    return tuple(zip(flat[::2], flat[1::2], strict=True))
