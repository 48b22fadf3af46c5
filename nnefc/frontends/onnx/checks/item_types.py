"""Item types of the inputs of nodes: those that the schema of the operator allows.

Schemas are those of the package `onnx`, in the version of the node, and of onnxruntime's page of
its operators.  Inputs whose schema names one type parameter must have one type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from onnx.defs import OpSchema

from nnefc.frontends.common.values import ComplexTensor, KnownTensor, OperatorError, StringTensor
from nnefc.frontends.onnx.checks.contributed_types import CONTRIBUTED
from nnefc.frontends.onnx.narrow_types import NarrowTensor
from nnefc.frontends.onnx.node import Node
from nnefc.frontends.onnx.registry import MICROSOFT, STANDARD
from nnefc.frontends.onnx.standard_functions import schema_of
from nnefc.frontends.onnx.tensors import StorageTensor, type_name
from nnefc.ir import Value

_NAMES: Final = {"float": "float32", "double": "float64"}
_MIXED_LISTS: Final = ("QLinearConcat",)
"""Operators of onnxruntime that take any number of inputs, of different types."""
_HINT: Final = "Cast converts them"


class _Input(NamedTuple):
    """The types of an input; `parameter`: the type parameter, "" without one."""

    name: str
    parameter: str
    allowed: frozenset[str]


class _Inputs(NamedTuple):
    """The inputs of an operator; more than these have the types of the last one."""

    inputs: tuple[_Input, ...]
    is_variadic: bool


def check_item_types(node: Node, values: Sequence[Any]) -> None:
    """Raise OperatorError for an input with items that the operator does not take.

    `values`: the inputs; None for absent ones.
    """
    types = _types_of(node.domain, node.op_type, node.version)
    if types is None:
        return
    bound: dict[str, tuple[str, str]] = {}
    for i, value in enumerate(values):
        if i >= len(types.inputs) and not types.is_variadic:
            return
        each = types.inputs[min(i, len(types.inputs) - 1)]
        type_ = _item_type(value)
        if type_ is None or not each.allowed:
            continue
        if type_ not in each.allowed:
            allowed = ", ".join(sorted(each.allowed))
            message = f"{each.name} has items of {type_}; version {node.version} takes {allowed}"
            raise OperatorError("onnx/type", message, _HINT)
        if each.parameter:
            name, other = bound.setdefault(each.parameter, (each.name, type_))
            if other != type_:
                message = f"the operands have different item types: {name} {other}, "
                raise OperatorError("onnx/type", f"{message}{each.name} {type_}", _HINT)


def _item_type(value: Any) -> str | None:
    """The name of the item type of a tensor; None for other values."""
    if isinstance(value, Value | KnownTensor):
        return value.type.dtype.value
    if isinstance(value, NarrowTensor | StorageTensor):
        return type_name(value.elem_type).lower()
    if isinstance(value, StringTensor):
        return "string"
    if isinstance(value, ComplexTensor):
        return "complex128" if value.parts.type.dtype.itemsize == 8 else "complex64"
    return None


@cache
def _types_of(domain: str, name: str, version: int) -> _Inputs | None:
    """The types of the inputs of an operator; None if they are not known, or if it has none."""
    if domain == MICROSOFT:
        types = _contributed(name)
        return _Inputs(types, is_variadic=name in _MIXED_LISTS) if types else None
    schema = schema_of(domain, name, version) if domain == STANDARD else None
    if schema is None or not schema.inputs:
        return None
    parameters = {each.type_param_str for each in schema.type_constraints}
    last = schema.inputs[-1]
    is_variadic = last.option == OpSchema.FormalParameterOption.Variadic
    inputs = tuple(
        _Input(
            each.name,
            each.type_str if each.type_str in parameters and each.is_homogeneous else "",
            _tensors_among(each.types),
        )
        for each in schema.inputs
    )
    return _Inputs(inputs, is_variadic)


def _contributed(name: str) -> tuple[_Input, ...]:
    """The inputs of an operator of onnxruntime; empty if it is not known."""
    known = CONTRIBUTED.get(name)
    if known is None:
        return ()
    pairs = [text.split(":") for text in known.inputs.split()]
    return tuple(
        _Input(
            each,
            type_ if type_ in known.types and name not in _MIXED_LISTS else "",
            frozenset(known.types.get(type_, type_).split()),
        )
        for each, type_ in pairs
    )


def _tensors_among(types: Iterable[str]) -> frozenset[str]:
    """The item types of `tensor(float)` and the like; those of sequences are left out."""
    found: set[str] = set()
    for each in types:
        inner = each.removeprefix("optional(").rstrip(")")
        if inner.startswith("tensor("):
            plain = inner.removeprefix("tensor(")
            found.add(_NAMES.get(plain, plain))
    return frozenset(found)
