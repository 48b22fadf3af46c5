"""The inputs of a model as a signature: named dimensions and deciding values are symbols."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from onnx import GraphProto, TensorShapeProto, TypeProto, ValueInfoProto

from nnefc.frontends.common.extents import NoValue, depth, extent_of, names_of
from nnefc.frontends.common.graph_states import KeptState
from nnefc.frontends.common.signature import Signature, SymbolicInput
from nnefc.frontends.common.values import SYMBOLIC_TYPES, KnownTensor, integer_array
from nnefc.frontends.onnx.model import OnnxModel, initializers_of
from nnefc.frontends.onnx.narrow_types import is_narrow
from nnefc.frontends.onnx.registry import MICROSOFT
from nnefc.frontends.onnx.tensors import dtype_of, type_name
from nnefc.ir import DType, Graph, Value
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.value_inputs import MAX_ITEMS, ValueInput
from nnefc.syntax import ast
from nnefc.syntax.parser import parse_expression

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SUM: Final = re.compile(r"[\w\s()+*/-]{1,200}", re.ASCII)
"""Texts that may be expressions of symbols, such as `past + 1`."""
_MAX_DEPTH: Final = 20
_HINT: Final = "inputs are tensors of numbers or booleans"


def inputs_of(model: OnnxModel) -> list[ValueInfoProto]:
    """The inputs that a call must give: those without an initializer."""
    given = initializers_of(model.graph)
    return [each for each in model.graph.input if each.name not in given]


def signature_of(model: OnnxModel, diagnostics: Diagnostics) -> Signature:
    """The inputs of a model; reports names that occur twice, and inputs that hold no numbers.

    An input without a shape is left out: its rank is that of the array of a call.
    """
    symbolic: list[SymbolicInput] = []
    names: set[str] = set()
    for each in inputs_of(model):
        if each.name in names:
            message = f"input '{each.name}' is declared twice"
            diagnostics.error("onnx/name", message, model.place)
            continue
        names.add(each.name)
        tensor = tensor_type_of(each)
        if tensor is None:
            kind = (each.type.WhichOneof("value") or "unknown").removesuffix("_type")
            is_list = kind in ("sequence", "optional")
            hint = "nnefc.onnx.InferenceSession and nnefc.onnx.backend take lists, or None"
            _refuse(model, each, f"is of type {kind}", diagnostics, hint if is_list else _HINT)
            continue
        dtype = interface_type(tensor.elem_type)
        if dtype is None:
            name = type_name(tensor.elem_type)
            _refuse(model, each, f"holds items of {name}", diagnostics, _HINT)
            continue
        if tensor.HasField("shape"):
            extents = tuple(
                _extent(each.name, axis, dim) for axis, dim in enumerate(tensor.shape.dim)
            )
            symbolic.append(SymbolicInput(each.name, model.place, extents, dtype))
    return Signature(tuple(symbolic))


def interface_type(elem_type: int) -> DType | None:
    """The item type of an input or a result: bytes for one that the IR lacks; None: refused."""
    return DType.UINT8 if is_narrow(elem_type) else dtype_of(elem_type)


def narrow_inputs(model: OnnxModel) -> set[str]:
    """The inputs that calls give as bytes."""
    types = ((each.name, tensor_type_of(each)) for each in inputs_of(model))
    return {name for name, type_ in types if type_ is not None and is_narrow(type_.elem_type)}


def tensor_type_of(each: ValueInfoProto) -> TypeProto.Tensor | None:
    """The tensor type of an input; None if it is no tensor.

    An optional tensor is a tensor: the inputs of a model are present in each call.
    """
    type_ = each.type
    if type_.WhichOneof("value") == "optional_type":
        type_ = type_.optional_type.elem_type
    return type_.tensor_type if type_.WhichOneof("value") == "tensor_type" else None


def _refuse(
    model: OnnxModel, each: ValueInfoProto, what: str, diagnostics: Diagnostics, hint: str
) -> None:
    message = f"input '{each.name}' {what}"
    diagnostics.error("onnx/unsupported", message, model.place, hint=hint)


def _extent(name: str, axis: int, dim: TensorShapeProto.Dimension) -> ast.Expression:
    """The extent of an axis: a number, a symbol, or an expression of symbols."""
    kind = dim.WhichOneof("value")
    if kind == "dim_value" and dim.dim_value >= 0:
        return ast.Literal_(0, dim.dim_value)
    if kind == "dim_param" and dim.dim_param:
        return _named_extent(dim.dim_param)
    return ast.Identifier(0, f"{name}_{axis}")  # anything goes: a symbol of its own


def _named_extent(text: str) -> ast.Expression:
    """The extent that a `dim_param` names.

    Exporters write expressions as well, such as `past_sequence_length + 1`; to ONNX they are names.
    """
    if not _NAME.fullmatch(text) and _SUM.fullmatch(text):
        try:
            tree = parse_expression(text.replace("//", "/"))
            if depth(tree) <= _MAX_DEPTH:
                extent_of(tree, dict.fromkeys(names_of([tree]), 1))
                return tree
        except (NnefError, NoValue):
            pass
    return ast.Identifier(0, text)


def kept_states(
    model: OnnxModel, inputs: Sequence[SymbolicInput], pairs: Mapping[str, str]
) -> dict[str, KeptState]:
    """The states of `pairs`, names of outputs by those of `inputs`."""
    return {
        each.name: KeptState(each, pairs[each.name], _growing_axis(model, each, pairs[each.name]))
        for each in inputs
        if each.name in pairs
    }


def _growing_axis(model: OnnxModel, each: SymbolicInput, output: str) -> int | None:
    """The axis along which the output is the input and new items; None for other outputs.

    That is the axis of a `Concat`, or that of positions in a cache of `GroupQueryAttention`.  Both
    may be in a branch of an `If`, as in decoders that have a branch for prompts.
    """
    return _axis_in(model.graph, len(each.extents), {each.name}, output)


def _axis_in(graph: GraphProto, rank: int, same: set[str], output: str) -> int | None:
    """`_growing_axis` in a graph; `same`: names of the input, which exporters copy."""
    same = set(same)
    for node in graph.node:
        is_concat = node.op_type == "Concat" and node.domain in ("", "ai.onnx")
        if output in node.output and is_concat and len(node.input) > 1:
            axes = [int(a.i) for a in node.attribute if a.name == "axis"]
            if node.input[0] in same and not same.intersection(node.input[1:]) and axes:
                return axes[0] % rank if rank else None
        elif (node.domain, node.op_type) == (MICROSOFT, "GroupQueryAttention"):
            pairs = zip(node.input[3:5], node.output[1:3], strict=False)
            if any(past in same and present == output for past, present in pairs):
                is_window = any(a.i for a in node.attribute if a.name == "sliding_window_cache")
                return 2 if rank == 4 and not is_window else None
        elif node.op_type == "If" and output in node.output:
            index = list(node.output).index(output)
            branches = [a.g for a in node.attribute if index < len(a.g.output)]
            axes = [_axis_in(g, rank, same, g.output[index].name) for g in branches]
            return next((axis for axis in axes if axis is not None), None)
        elif len(node.input) == 1 and node.input[0] in same:
            same.update(node.output if is_concat or node.op_type == "Identity" else ())
    return None


# -- inputs whose values decide shapes, such as the k of TopK
#
# An operator that must know the items of a tensor fails, and names the tensor.  Where this tensor
# is computed from small inputs alone, their values are needed.

_TYPES: Final = frozenset(DType) - {DType.STRING}
"""Item types of inputs whose values may decide shapes."""
_MAX_STEPS: Final = 10_000
"""Operations behind a tensor that are followed."""


def inputs_behind(
    value: Value, graph: Graph, captured: Mapping[Value, Value] | None = None
) -> set[str]:
    """The inputs of a graph that a tensor is computed from; empty if others are among them.

    Others are inputs of the body of a loop, variables, and inputs whose values cannot decide
    shapes.  `captured`: values of the graphs around a body that its inputs stand for.
    """
    outer = captured or {}
    found: set[str] = set()
    inputs, seen, pending = set(graph.inputs), {value}, [value]
    while pending:
        current = pending.pop()
        while current in outer:
            current = outer[current]
        if current in inputs and _may_decide(current.type.dtype, current.type.dims):
            found.add(current.name)
        elif current.op is None or len(seen) > _MAX_STEPS:
            return set()
        else:
            new = [x for x in current.op.inputs if x not in seen]
            seen.update(new)
            pending += new
    return found


def _may_decide(dtype: DType, dims: Sequence[int]) -> bool:
    return dtype in _TYPES and len(dims) <= 1 and all(n <= MAX_ITEMS for n in dims)


def candidates(signature: Signature) -> set[str]:
    """The inputs whose values may decide shapes, without those that are known to."""
    return {
        each.name
        for each in signature.inputs
        if each.values is None and each.dtype in _TYPES and len(each.extents) <= 1
    }


def value_inputs_of(signature: Signature, names: Iterable[str]) -> dict[str, ValueInput]:
    """The inputs whose values decide shapes, and these."""
    found = signature.value_inputs.copy()
    for each in signature.inputs:
        if each.name in names:
            others = [other for other in signature.inputs if other.name != each.name]
            taken = {symbol for other in others for symbol in names_of(other.extents)}
            taken |= {symbol for other in found.values() for symbol in other.symbols(MAX_ITEMS)}
            found[each.name] = _value_input(each, taken)
    return found


def with_value_inputs(signature: Signature, inputs: Mapping[str, ValueInput]) -> Signature:
    """A signature in which the values of these inputs decide shapes."""
    return replace(
        signature,
        inputs=tuple(
            replace(each, extents=_items(inputs[each.name]), values=inputs[each.name])
            if each.name in inputs
            else each
            for each in signature.inputs
        ),
    )


def _items(each: ValueInput) -> tuple[ast.Expression, ...]:
    """The items as symbols; none for a list of any length."""
    count = each.length if each.rank else 1
    return tuple(ast.Identifier(0, name) for name in each.symbols(count or 0))


def _value_input(each: SymbolicInput, taken: set[str]) -> ValueInput:
    """The items of an input; their symbols differ from those `taken`."""
    rank, length = len(each.extents), None
    match each.extents:
        case (ast.Literal_(value=int(extent)),):
            length = int(extent)
        case _:
            pass
    new = ValueInput(each.name, rank, length, each.dtype.value)
    while taken.intersection(new.symbols(MAX_ITEMS)):
        new = new._replace(symbol=f"{new.symbol}_value")
    return new


def known_tensor(each: ValueInput, items: Sequence[int], dtype: DType) -> KnownTensor:
    """The tensor with this key, whose items may be symbolic."""
    shape = each.shape(items)
    if dtype in SYMBOLIC_TYPES:
        array = integer_array(items)
        array = array if array.dtype == object else array.astype(dtype.numpy)
    elif dtype is DType.BOOL:
        array = np.array([item != 0 for item in items], np.bool_)
    else:
        array = np.array(each.items([int(item) for item in items]), dtype.numpy)
    return KnownTensor(array.reshape(shape), dtype)
