"""The registry of operators: Python functions registered under the names of PyTorch's overloads.

    @operator("aten.softmax.int", "aten._softmax.default")
    def softmax(make: OpBuilder, self: Operand, dim: int, dtype: DType | None = None) -> Any: ...

The parameters of a function after `make` are the arguments of the operator, with the names and the
defaults of its schema.  Annotations say how arguments are converted.  An argument for which the
function has no parameter must be one of `IGNORED`, or False, None or empty.  A parameter
`node: Node` receives the node itself.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, Final, TypeVar

from nnefc.frontends.common.values import Operand, OperatorError, integers, operand, scalar
from nnefc.frontends.torch import operators as operator_modules
from nnefc.frontends.torch.complex_pair import BY_PARTS
from nnefc.frontends.torch.item_types import item_type
from nnefc.frontends.torch.program import Node
from nnefc.ir import DType
from nnefc.symbolic.integers import SymInt

Integers = tuple[int, ...]
"""The annotation of known integers, which may be symbolic."""
Floats = tuple[float, ...]
Tensors = tuple[Operand, ...]
"""The annotation of a list of tensors."""
OptionalTensors = tuple[Operand | None, ...]
"""The annotation of a list of tensors in which some are absent."""
Number = Any
"""The annotation of a tensor or a Python number, which is not converted."""

IGNORED: Final = frozenset(
    (
        *("layout", "device", "pin_memory", "non_blocking", "memory_format", "generator"),
        *("implicit", "copy"),
    )
)
"""Arguments that do not change results on a CPU."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of an operator; `default` is `inspect.Parameter.empty` if it is required."""

    name: str
    convert: Callable[[Any], Any]
    default: Any


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of an operator's function."""

    listed: Mapping[str, Parameter]
    takes_node: bool


@dataclass(frozen=True)
class Operator:
    """A function for an overload of an operator."""

    name: str
    function: Callable[..., Any]

    @property
    def parameters(self) -> Parameters:
        return _parameters(self.function)


_PYTORCH: Final = frozenset(("aten", "prim", "prims", "operator", "math", "torch", "profiler"))
"""Libraries of PyTorch and of Python whose unused operators have no effect on results."""
_operators: dict[str, Operator] = {}
_complex: dict[str, Operator] = {}
_refused: dict[str, str] = {}


def operator(*names: str) -> Callable[[_Function], _Function]:
    """Register a function for the overloads `names`."""
    return _registering(_operators, names)


def complex_operator(*names: str) -> Callable[[_Function], _Function]:
    """Register a function for the overloads `names` where arguments are complex."""
    return _registering(_complex, names)


def _registering(
    functions: dict[str, Operator], names: tuple[str, ...]
) -> Callable[[_Function], _Function]:
    def register(function: _Function) -> _Function:
        for name in names:
            if name in functions:
                raise ValueError(f"{name} is registered already")
            functions[name] = Operator(name, function)
        return function

    return register


def refuse(reason: str, *names: str) -> None:
    """Register the reason why nnefc does not support some operators."""
    for name in names:
        _refused[name] = reason


def refusal(name: str) -> str | None:
    """Why an operator is not supported; None if no reason is known."""
    _load()
    return _refused.get(name)


def refusals() -> Mapping[str, str]:
    """The reasons for all operators that are not supported."""
    _load()
    return _refused


def find(name: str) -> Operator | None:
    """The function for an overload; None if there is none.

    An overload that changes a tensor in place has the function of the one that does not: the
    program uses its result from there on, see `check_operators`.
    """
    _load()
    return _operators.get(name) or _operators.get(functional(name))


def find_complex(name: str) -> Operator | None:
    """The function for an overload with complex arguments; None if there is none."""
    return _complex.get(name) or _complex.get(functional(name))


def functional(name: str) -> str:
    """The overload that computes the same as one in place; the name itself for others."""
    operation, _, overload = name.rpartition(".")
    return f"{operation[:-1]}.{overload}" if is_in_place(name) else name


def is_in_place(name: str) -> bool:
    """Whether an overload changes its first argument: `aten.add_.Tensor`."""
    operation = name.rpartition(".")[0]
    return operation.startswith("aten.") and operation.endswith("_") and operation[-2:] != "__"


def is_of_another_library(name: str) -> bool:
    """Whether an operator is of a library of which nnefc has no operators, and not of PyTorch."""
    library = name.partition(".")[0]
    return library not in _PYTORCH and not any(x.startswith(f"{library}.") for x in operators())


def operators() -> Mapping[str, Operator]:
    """All functions by the names of overloads."""
    _load()
    return _operators


def complex_operators() -> set[str]:
    """The overloads that take complex tensors."""
    _load()
    return {*_complex, *BY_PARTS}


@cache
def _load() -> None:
    for module in walk_packages(operator_modules.__path__, f"{operator_modules.__name__}."):
        import_module(module.name)


def bind(registered: Operator, given: Mapping[str, Any], node: Node) -> dict[str, Any]:
    """The converted arguments of an operator's function, by name; raises OperatorError.

    `given`: values by the names of the schema, or by their positions as text.
    """
    parameters = registered.parameters
    order = list(parameters.listed)
    named: dict[str, Any] = {}
    for key, value in given.items():
        name = order[int(key)] if key.isdecimal() and int(key) < len(order) else key
        parameter = parameters.listed.get(name)
        if parameter is None:
            _check_ignored(name, value)
            continue
        named[name] = _converted(parameter, value)
    for name, parameter in parameters.listed.items():
        if name not in named:
            if parameter.default is inspect.Parameter.empty:
                raise OperatorError("torch/arguments", f"'{name}' is missing")
            named[name] = parameter.default
    if parameters.takes_node:
        named["node"] = node
    return named


def _check_ignored(name: str, value: Any) -> None:
    """Raise OperatorError for an argument without a parameter that changes results."""
    if name in IGNORED or value is None or value is False or value == ():
        return
    raise OperatorError("torch/arguments", f"'{name}' = {value!r} is not supported")


def _converted(parameter: Parameter, value: Any) -> Any:
    """An argument, converted; None stays None if it is a default or the function expects it."""
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
    parameters = {
        each.name: Parameter(each.name, _converter(hints[each.name]), each.default)
        for each in listed
        if each.name != "node"
    }
    return Parameters(parameters, len(parameters) < len(listed))


# -- conversions, by annotation


def _converter(hint: Any) -> Callable[[Any], Any]:
    """The conversion of arguments for a parameter annotated with `hint`."""
    simple: dict[Any, Callable[[Any], Any]] = {
        int: _integer,
        float: scalar,
        bool: _flag,
        str: _text,
        Operand: operand,
        Integers: _integers,
        Floats: _floats,
        Tensors: _tensors,
        OptionalTensors: _optional_tensors,
        DType: _dtype,
        Any: _itself,
    }
    if hint in simple:
        return simple[hint]
    members = [each for each in typing.get_args(hint) if each is not type(None)]
    if len(members) < len(typing.get_args(hint)):
        known = _converter(members[0] if len(members) == 1 else _union(members))
        return lambda value: None if value is None else known(value)
    raise TypeError(f"no argument can be converted to {hint}")


def _union(members: list[Any]) -> Any:
    """The only union of types that parameters have, a tensor operand."""
    if set(members) == set(typing.get_args(Operand)):
        return Operand
    raise TypeError(f"no argument can be converted to one of {members}")


def _itself(value: Any) -> Any:
    return value


def _integer(value: Any) -> int:
    found = integers(value)
    if len(found) != 1:
        raise OperatorError("torch/arguments", f"{value!r} is no integer")
    return found[0]  # pyright: ignore[reportReturnType]


def _integers(value: Any) -> tuple[int, ...]:
    return integers(value)  # pyright: ignore[reportReturnType]


def _flag(value: Any) -> bool:
    if isinstance(value, bool | int):
        return bool(value)
    raise OperatorError("torch/arguments", f"{value!r} is no boolean")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise OperatorError("torch/arguments", f"{value!r} is no text")


def _dtype(value: Any) -> DType:
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        return item_type(value)
    raise OperatorError("torch/arguments", f"{value!r} is no item type")


def _several(value: Any) -> tuple[Any, ...]:
    if isinstance(value, tuple):
        return value  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, int | float | SymInt):
        return (value,)
    raise OperatorError("torch/arguments", f"{value!r} is no list")


def _floats(value: Any) -> tuple[float, ...]:
    return tuple(map(scalar, _several(value)))


def _tensors(value: Any) -> Tensors:
    return tuple(map(operand, _several(value)))


def _optional_tensors(value: Any) -> OptionalTensors:
    return tuple(None if each is None else operand(each) for each in _several(value))
