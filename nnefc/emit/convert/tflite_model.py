"""Convert TensorFlow Lite models: their operators on codes are written on reals (QDQ form)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nnefc.emit.convert.extents import Extents
from nnefc.emit.convert.nnef_model import NnefModel
from nnefc.emit.convert.nnef_quantized import document_of_codes
from nnefc.emit.convert.onnx.model import OnnxModel, onnx_model
from nnefc.emit.convert.tflite_records import add_records, with_records
from nnefc.emit.convert.tract_model import To, document_for
from nnefc.frontends.common.graph_source import Shapes
from nnefc.frontends.tflite.source import TfliteSource
from nnefc.ir import Graph, Op, TensorType, Value
from nnefc.ir.graph import Variable, walk
from nnefc.ops.core.known_items import known_items
from nnefc.passes.analysis.known_data import constant_op
from nnefc.passes.op_queries import replace
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError, Place

Array = np.ndarray[Any, Any]

_CONVERSIONS: Final = ("quantize", "dequantize")


def tflite_document(
    source: TfliteSource, shapes: Shapes, diagnostics: Diagnostics, to: To = "auto"
) -> NnefModel:
    """The document of a model: with a quantization file if it has codes, and in standard NNEF with
    records of the operators of the file.

    `to`: "nnef" and "tract" choose a language.  Raises NnefError with all that cannot be written.
    """
    graph = _real_form(source, shapes, diagnostics)
    if any(op.name in _CONVERSIONS for op in walk(graph)):
        document = document_of_codes(graph, Extents(), to, of_tflite=True)
        return document if document.quantization is None else with_records(document, source)
    return document_for(graph, Extents(), to)


def tflite_onnx_model(source: TfliteSource, shapes: Shapes, diagnostics: Diagnostics) -> OnnxModel:
    """The ONNX model in QDQ form, with records of the operators of the file.

    Raises NnefError with all that cannot be written.
    """
    model = onnx_model(_real_form(source, shapes, diagnostics))
    add_records(model, source)
    return model


def _real_form(source: TfliteSource, shapes: Shapes, diagnostics: Diagnostics) -> Graph:
    _require_no_states(source)
    graph = source.real_form().graph(shapes, diagnostics)
    for op in list(graph.ops):
        if op.name in ("transpose", "reshape"):
            _turn_codes(graph, op)
    return graph


def _require_no_states(source: TfliteSource) -> None:
    """Raise NnefError `flatten/state` for all tensors that operators keep from call to call."""
    model = source.model
    problems = [
        Diagnostic(
            "flatten/state",
            f"{subgraph}, {operator}: {subgraph.tensors[index]} is kept from call to call, which "
            "the written model cannot say",
            Place(model.file, node=str(operator)),
        )
        for subgraph in model.subgraphs
        for operator in subgraph.operators
        for index in operator.inputs
        if index >= 0 and subgraph.tensors[index].is_variable
    ]
    if problems:
        raise NnefError(problems)


def _turn_codes(graph: Graph, op: Op) -> None:
    """Turn known codes instead of their reals, if nothing else reads these.

    So dequantizations stand directly in front of products, where other readers look for them.
    """
    source = op.inputs[0].op
    if source is None or source.name != "dequantize" or list(source.output.users) != [op]:
        return
    known = source.inputs[0].op
    if known is None or known.name not in ("variable", "constant"):
        return
    if list(known.output.users) != [source] or graph.is_output(source.output):
        return
    turned = [_turned(op, value) for value in source.inputs]
    if any(items is None for items in turned):
        return
    operands = [
        _inserted(graph, value, items, op)
        for value, items in zip(source.inputs, turned, strict=True)
        if items is not None
    ]
    names = [source.output.name]
    new = Op("dequantize", operands, source.attributes, [op.output.type], names, source.location)
    replace(graph, op, [graph.insert(new, op).output])
    graph.erase(source)
    graph.erase(known)


def _turned(op: Op, value: Value) -> Array | None:
    """The items of codes or of a parameter, turned as `op` turns the codes; None if they cannot be.

    Parameters with an item per index of an axis can be transposed, and reshaped with vectors.
    """
    items = known_items(value)
    if items is None or value.type.rank == 0:
        return items
    stored = np.broadcast_to(items, value.type.dims)
    rank = op.inputs[0].type.rank
    if op.name == "transpose":
        axes = (*op.attributes["axes"], *range(len(op.attributes["axes"]), rank))
        return stored.transpose(axes) if value.type.rank == rank else None
    is_whole = value.type.dims == op.inputs[0].type.dims
    return stored.reshape(op.output.type.dims) if is_whole else None


def _inserted(graph: Graph, value: Value, items: Array, before: Op) -> Value:
    """A constant, or a variable of the same label, with other items in front of an operation."""
    type_ = TensorType(value.type.dtype, items.shape)
    op = value.op
    assert op is not None
    if op.name != "variable":
        new = constant_op(items, type_, op.location)
    else:
        label = str(op.attributes["label"])
        graph.variables[label.lower()] = Variable(label, type_, np.ascontiguousarray(items))
        attributes = {"shape": type_.dims, "label": label}
        new = Op("variable", (), attributes, [type_], (), op.location)
    result = graph.insert(new, before).output
    result.name = value.name
    return result
