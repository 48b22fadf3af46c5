"""Borders of codes before convolutions, as part of their padding, and borders of other items."""

from __future__ import annotations

from collections.abc import Mapping

from nnefc.ir import Attribute, Graph, Op, Value
from nnefc.ops.extended.integer_products import without_width
from nnefc.ops.tools.build import build
from nnefc.ops.tools.convolution import window_of
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.op_queries import producer
from nnefc.symbolic.integers import is_symbolic

Source = tuple[Value, Mapping[str, Attribute]]
"""The codes that a convolution reads, and its attributes."""


def with_padding_of_zero(graph: Graph, op: Op, known: KnownValues) -> Source:
    """The codes that an `integer_conv` or `integer_deconv` reads, and its attributes.

    A border of the zero point before it becomes its padding, and its own border of other items an
    operation before it.
    """
    window, border = window_of(op), op.attributes["border"]
    if border == "constant" or not any(map(any, window.padding)):
        return _without_border(graph, op, known)
    attributes = {**without_width(op), "border": "constant"}
    around, strides = window.padding, window.stride
    attributes["padding"] = ((0, 0),) * window.rank
    if window.reverse:
        around = window.reach()
        attributes["output_shape"] = op.output.type.dims
        attributes["padding"] = tuple(
            (p + before * stride, q + after * stride)
            for (p, q), (before, after), stride in zip(window.padding, around, strides, strict=True)
        )
    padding = ((0, 0), (0, 0), *around)
    padded = build(graph, "pad", op.inputs[:1], {"padding": padding, "border": border}, before=op)
    return padded.output, attributes


def _without_border(graph: Graph, op: Op, known: KnownValues) -> Source:
    """The codes that an `integer_conv` reads, and its attributes, without a border before it.

    The border has the zero point and is narrower than the window.  It may be transposed: documents
    with channels last pad before they transpose.
    """
    x, attributes = op.inputs[0], without_width(op)
    unchanged = x, attributes
    turn = producer(x, "transpose")
    border = producer(x if turn is None else turn.inputs[0], "pad")
    point = known.items(op.inputs[2])
    if op.name != "integer_conv" or border is None or point is None or point.size != 1:
        return unchanged
    is_zero_point = border.attributes["value"] == point.item()
    if border.attributes["border"] != "constant" or not is_zero_point:
        return unchanged
    around = border.attributes["padding"]
    if turn is not None:
        axes = turn.attributes["axes"]
        around = [around[axis] for axis in (*axes, *range(len(axes), x.type.rank))]
    (batch, channels, *spatial), window = around, window_of(op)
    both = [(*a, *b) for a, b in zip(spatial, window.padding, strict=True)]
    if is_symbolic([n for each in both for n in each]) or batch != (0, 0) or channels != (0, 0):
        return unchanged
    padding = tuple((before + p, after + q) for before, after, p, q in both)
    fits = all(max(p) < size for p, size in zip(padding, window.dilated, strict=True))
    if min(map(min, spatial)) < 0 or not fits:
        return unchanged
    source = border.inputs[0]
    if turn is not None:
        source = build(graph, "transpose", [source], turn.attributes, before=op).output
    return source, {**attributes, "border": "constant", "padding": padding}
