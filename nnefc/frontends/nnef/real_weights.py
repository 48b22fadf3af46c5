"""Weights of reals instead of dequantized codes, for documents without such an operation."""

from __future__ import annotations

import numpy as np

from nnefc.frontends.nnef.stored_codes import CODES, single_variables
from nnefc.ir import Graph, Op, TensorType
from nnefc.ir.graph import Variable
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.known_items import known_items
from nnefc.ops.extended.quantized import code_limits, dequantize
from nnefc.ops.tools.build import build


def with_real_weights(graph: Graph) -> Graph:
    """A copy of a graph in which variables of codes that are only dequantized are reals.

    Documents of NNEF have no operation `dequantize`.  The reals are those of a range, so that
    whoever reads the document finds the codes again.
    """
    copy = graph.clone()
    single = single_variables(copy)
    for op in list(copy.ops):
        source = op.inputs[0].op if op.name == "dequantize" else None
        if source is None or source not in single or list(source.output.users) != [op]:
            continue
        if source.output.type.dtype not in CODES or copy.is_output(source.output):
            continue
        key = source.attributes["label"].lower()
        data = copy.variables[key].data
        scale, zero = (known_items(x) for x in op.inputs[1:])
        if data is not None and scale is not None and zero is not None:
            _store(copy, op, str(source.attributes["label"]), (data, scale, zero))
    return copy


def _store(graph: Graph, op: Op, label: str, known: tuple[Array, Array, Array]) -> None:
    """Replace a dequantization by a variable of reals, with the label of that of codes."""
    type_, codes = op.output.type, op.inputs[0].type.dtype
    data, scale, zero = (np.asarray(x, np.float64) for x in known)
    reals = np.broadcast_to(dequantize(data, scale, zero), type_.dims)
    reals = np.ascontiguousarray(reals, type_.dtype.numpy)
    graph.variables[label.lower()] = Variable(label, type_, reals)
    attributes = {"shape": type_.dims, "label": label}
    names = [op.inputs[0].name]
    operands = [
        graph.insert(Op("variable", (), attributes, [type_], names, op.location), op).output
    ]
    for code in code_limits(codes):
        end = dequantize(np.full((), float(code)), scale, zero)
        numbers = {"shape": end.shape, "value": tuple(end.reshape(-1).tolist())}
        made = Op("constant", (), numbers, [TensorType(type_.dtype, end.shape)], (), op.location)
        operands.append(graph.insert(made, op).output)
    before = [value.op for value in op.inputs]
    bits = {"bits": 8 * codes.itemsize}
    ranged = build(graph, "linear_quantize", operands, bits, before=op, location=op.location)
    graph.replace_value(op.output, ranged.output)
    graph.erase(op)
    for operand in dict.fromkeys(before):
        if operand is not None and not any(value.users for value in operand.outputs):
            graph.erase(operand)
