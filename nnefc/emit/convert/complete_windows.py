"""Windows with all their attributes, as formats need them that do not deduce them."""

from __future__ import annotations

from nnefc.ir import Graph, Op
from nnefc.ops.core.window_arithmetic import convolution_window, pooling_window


def complete_windows(graph: Graph) -> None:
    """Set the paddings, strides and dilations that a document leaves to be deduced."""
    for op in graph.ops:
        _complete(op)


def _complete(op: Op) -> None:
    """Set the paddings, strides and dilations that the document leaves to be deduced."""
    attributes = op.attributes
    if op.name in ("conv", "deconv"):
        shape, kernel = op.inputs[0].type.dims, op.inputs[1].type.dims
        window = convolution_window(shape, kernel, attributes, reverse=op.name == "deconv")
        if op.name == "deconv":
            attributes["output_shape"] = op.output.type.dims
    elif ("pool" in op.name or op.name == "box") and "size" in attributes:  # not those of regions
        window = pooling_window(op.inputs[0].type.dims, attributes)
    else:
        return
    for name in ("padding", "stride", "dilation"):
        attributes[name] = tuple(getattr(window, name))
