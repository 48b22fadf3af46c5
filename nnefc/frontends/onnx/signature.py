"""The inputs of a model as a signature: named dimensions are symbols."""

from __future__ import annotations

import re
from typing import Final

from onnx import TensorShapeProto, TypeProto, ValueInfoProto

from nnefc.frontends.common.extents import NoValue, depth, extent_of, names_of
from nnefc.frontends.common.signature import Signature, SymbolicInput
from nnefc.frontends.onnx.model import OnnxModel
from nnefc.frontends.onnx.narrow_types import is_narrow
from nnefc.frontends.onnx.tensors import dtype_of, type_name
from nnefc.ir import DType
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.syntax import ast
from nnefc.syntax.parser import parse_expression

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SUM: Final = re.compile(r"[\w\s()+*/-]{1,200}", re.ASCII)
"""Texts that may be expressions of symbols, such as `past + 1`."""
_MAX_DEPTH: Final = 20
_HINT: Final = "inputs are tensors of numbers or booleans"


def inputs_of(model: OnnxModel) -> list[ValueInfoProto]:
    """The inputs that a call must give: those without an initializer."""
    given = {tensor.name for tensor in model.graph.initializer}
    return [each for each in model.graph.input if each.name not in given]


def signature_of(model: OnnxModel, diagnostics: Diagnostics) -> Signature:
    """The inputs of a model; reports inputs that are no tensors of numbers.

    An input without a shape is left out: its rank is that of the array of a call.
    """
    symbolic: list[SymbolicInput] = []
    for each in inputs_of(model):
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
            _refuse(model, each, f"holds items of type {name}", diagnostics, _HINT)
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
