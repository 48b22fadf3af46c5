"""Move reshapes of products behind the element-wise operations that read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Graph, Op, Shape, TensorType, Value
from nnefc.ops.internal import code_matmul
from nnefc.passes.canonicalise.views import reshaped_operand
from nnefc.passes.op_queries import is_elementwise, is_view, splat, splat_op
from nnefc.symbolic.integers import is_symbolic


@dataclass(frozen=True)
class SinkReshapes:
    """Compute element-wise operations on products in the shape of the product.

        %0: float32[6,4] = matmul(%x, %w)
        %1: float32[2,3,4] = reshape(%0) {shape = [2,3,4]}
        %y: float32[2,3,4] = add(%1, %z)

    becomes an addition in [6,4] of %z in that shape, and a reshape behind it.  So the operation can
    be fused with the product: exporters of PyTorch reshape `Gemm`, whose operands are matrices.
    The last dimension must stay; extents must be known.
    """

    name: ClassVar[str] = "sink_reshapes"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        changed = False
        while self._sweep(graph):  # views behind views come into reach
            changed = True
        return changed

    def _sweep(self, graph: Graph) -> bool:
        """Move each operation at most once; returns whether one moved."""
        reached = set[Value]()
        """Products, and results of element-wise operations in their shape."""
        changed = False
        for op in list(graph.ops):
            if op.name in ("matmul", code_matmul.NAME):
                reached.add(op.output)
            elif is_elementwise(op) and len(op.outputs) == 1 and op.output.type.shape is not None:
                moved = _moved(graph, op, reached)
                changed |= moved is not op
                shape = moved.output.type.shape
                if any(v in reached and v.type.shape == shape for v in moved.inputs):
                    reached.add(moved.output)
        return changed


def _moved(graph: Graph, op: Op, reached: set[Value]) -> Op:
    """The operation in the shape of a product that it reads behind a reshape, or itself.

    It stays where it reads a product in its own shape.  So it moves once: between two products it
    would move without end.
    """
    dims = op.output.type.dims
    if any(v in reached and v.type.dims == dims for v in op.inputs):
        return op
    for value in op.inputs:
        source = _source(value)
        if source is value or source not in reached or value.type.dims != dims:
            continue
        wanted = source.type.dims
        if is_symbolic([*dims, *wanted]) or dims[-1:] != wanted[-1:]:
            continue
        shapes = [reshaped_operand(v.type.dims, dims, wanted) for v in op.inputs]
        known = [shape for shape in shapes if shape is not None]
        if len(known) == len(shapes):
            pairs = zip(op.inputs, known, strict=True)
            return _replaced(graph, op, [_in_shape(graph, op, *pair) for pair in pairs], wanted)
    return op


def _source(value: Value) -> Value:
    """What a view shows, through one view; the value itself if it is none."""
    return value.op.inputs[0] if value.op is not None and is_view(value.op) else value


def _in_shape(graph: Graph, op: Op, value: Value, shape: Shape) -> Value:
    """The value in a shape that broadcasts as `shape` does, before `op`."""
    if value.type.volume == 1 and value.type.rank <= len(shape):
        return value
    if (number := splat(value)) is not None:
        constant = splat_op(TensorType(value.type.dtype, shape), number, op.location)
        return graph.insert(constant, op).output
    for same in (value, _source(value)):
        if same.type.dims == shape:
            return same
    return _reshape(graph, op, value, shape).output


def _reshape(graph: Graph, op: Op, value: Value, shape: Shape) -> Op:
    attributes = {"axis_start": 0, "axis_count": -1, "shape": shape}
    types = [TensorType(value.type.dtype, shape)]
    return graph.insert(Op("reshape", [value], attributes, types, (), op.location), op)


def _replaced(graph: Graph, op: Op, operands: list[Value], shape: Shape) -> Op:
    """Compute `op` from other operands in another shape, and reshape its result."""
    type_ = TensorType(op.output.type.dtype, shape)
    moved = graph.insert(Op(op.name, operands, op.attributes, [type_], (), op.location), op)
    last = _reshape(graph, op, moved.output, op.output.type.dims)
    before = dict.fromkeys(op.inputs)
    last.output.name = op.output.name
    graph.replace_value(op.output, last.output)
    graph.erase(op)
    for value in before:
        if (
            value.op is not None
            and is_view(value.op)
            and not value.users
            and not graph.is_output(value)
        ):
            graph.erase(value.op)
    return moved
