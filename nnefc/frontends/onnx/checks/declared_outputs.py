"""Outputs as a model declares them, and the errors of those that are something else."""

from __future__ import annotations

from typing import Any

from onnx import TypeProto, ValueInfoProto

from nnefc.frontends.common.graph_source import DECLARED_RULE, DeclaredOutput
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.signature import Signature
from nnefc.frontends.common.values import KnownTensor
from nnefc.frontends.onnx.model import OnnxModel
from nnefc.frontends.onnx.narrow_types import NarrowTensor
from nnefc.frontends.onnx.node import Scope
from nnefc.frontends.onnx.signature import inputs_of, interface_type, tensor_type_of
from nnefc.frontends.onnx.tensors import StorageTensor, dtype_of, type_name
from nnefc.ir import Value
from nnefc.support.errors import Diagnostics

_HINT = "correct the output of the model, or insert a Cast"


def declared_output(model: OnnxModel, each: ValueInfoProto) -> DeclaredOutput | None:
    """An output as the model declares it; None without a type or a rank."""
    tensor = tensor_type_of(each)
    dtype = None if tensor is None else interface_type(tensor.elem_type)
    if tensor is None or dtype is None or not tensor.HasField("shape"):
        return None
    return DeclaredOutput(each.name, dtype, _extents(tensor), _node_of(model, each.name))


def check_declared_outputs(
    model: OnnxModel, signature: Signature, make: OpBuilder, scope: Scope, diagnostics: Diagnostics
) -> None:
    """Report outputs whose declared type, rank or extents are not those of their values.

    Wrong types are errors, wrong shapes warnings, as in onnxruntime: models whose batch was changed
    often declare the old one.  Extents are compared where no symbol and no count of a run can
    change them.
    """
    fixed = not signature.free_symbols and len(signature.inputs) == len(inputs_of(model))
    for each in model.graph.output:
        tensor, value = tensor_type_of(each), scope.find(each.name)
        actual = _type_of(value)
        if tensor is None or actual is None:
            continue
        name, dims = actual
        counted = make.counted[value][0] if value in make.counted else None
        computed = [str(n) if fixed and axis != counted else None for axis, n in enumerate(dims)]
        if tensor.elem_type and (declared := _type_name(tensor.elem_type)) != name:
            if tensor.HasField("shape"):
                declared += f"[{','.join(_extents(tensor))}]"
            shape = ",".join(each or "?" for each in computed)
            by = _node_of(model, each.name)
            what = f"output '{each.name}'" + (f" of {by}" if by else "")
            message = f"{what} is declared as {declared}, but is {name}[{shape}]"
            diagnostics.error(DECLARED_RULE, message, model.place, hint=_HINT)
        elif (output := declared_output(model, each)) and (
            wrong := output.mismatch(computed, model.place)
        ):
            diagnostics.add(wrong)


def _type_of(value: Any) -> tuple[str, tuple[int, ...]] | None:
    """(name of the item type, shape) of a value; None for one that is no tensor of numbers."""
    if isinstance(value, Value | KnownTensor):
        return str(value.type.dtype), value.type.dims
    if isinstance(value, NarrowTensor):
        return type_name(value.elem_type).lower(), value.items.type.dims
    if isinstance(value, StorageTensor):
        return type_name(value.elem_type).lower(), value.array.shape
    return None


def _type_name(elem_type: int) -> str:
    """The name of an item type, as in the IR if it has the type."""
    dtype = dtype_of(elem_type)
    return type_name(elem_type).lower() if dtype is None else str(dtype)


def _extents(tensor: TypeProto.Tensor) -> tuple[str, ...]:
    return tuple(str(d.dim_value) if d.HasField("dim_value") else "?" for d in tensor.shape.dim)


def _node_of(model: OnnxModel, name: str) -> str:
    """The node that computes a value, for messages; empty if none does."""
    for node in model.graph.node:
        if name in node.output:
            return f"{node.op_type} '{node.name}'" if node.name else node.op_type
    return ""
