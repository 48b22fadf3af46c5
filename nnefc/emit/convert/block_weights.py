"""Block-quantized weights as real numbers, for formats without such blocks."""

from __future__ import annotations

import numpy as np

from nnefc.ir import Graph, Op
from nnefc.ir.graph import Variable
from nnefc.ops.extended.block_quantized import dequantize_blocks
from nnefc.passes.op_queries import replace
from nnefc.support.names import unused_name


def unpack_blocks(graph: Graph) -> None:
    """Replace variables of blocks in `graph` by variables of their float32 values.

    A value is a code of at most 8 bits times a float16, which float32 holds exactly.
    """
    for op in graph.ops:
        source = op.inputs[0].op if op.name == "dequantize_blocks" else None
        if source is None or source.name != "variable":
            continue
        variable = graph.variables[source.attributes["label"].lower()]
        if variable.data is None:
            continue
        values = dequantize_blocks(variable.data, **op.attributes).astype(np.float32)
        label = unused_name(f"{variable.label}_values", graph.variables, ignore_case=True)
        graph.variables[label.lower()] = Variable(label, op.output.type, values)
        attributes = {"shape": op.output.type.dims, "label": label}
        names = [op.output.name or variable.label]
        new = Op("variable", (), attributes, [op.output.type], names, op.location)
        replace(graph, op, graph.insert(new, op).outputs)
