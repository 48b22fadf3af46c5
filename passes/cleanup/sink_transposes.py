"""Move transposes towards the outputs, so that inverse transposes meet and cancel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Attribute, Graph, Op, Shape, TensorType, Value
from nnefc.ops.standard.reshape_transpose import permutation
from nnefc.ops.tools.table import traits_of
from nnefc.passes.analysis.known_data import KnownValues, constant_op
from nnefc.passes.canonicalise.canonicalise import Canonicalise
from nnefc.passes.cleanup.eliminate_dead_code import EliminateDeadCode
from nnefc.passes.op_queries import is_elementwise, only_user, producer, replace, splat, splat_op
from nnefc.symbolic.integers import hint


@dataclass(frozen=True)
class SinkTransposes:
    """Transpose results instead of operands if that leaves fewer bytes to transpose.

        %1: float32[1,9,9,8] = transpose(%x) {axes = [0, 2, 3, 1]}
        %2: float32[1,9,9,8] = mul(%1, %scale)
        %3: float32[1,9,9,8] = relu(%2)
        %y: float32[1,8,9,9] = transpose(%3) {axes = [0, 3, 1, 2]}

    becomes, after `canonicalise` and without dead operations,

        %2: float32[1,8,9,9] = mul(%x, %scale')
        %y: float32[1,8,9,9] = relu(%2)

    Transposes move behind operations with a permute rule (`Traits.permuted`): element-wise ones,
    concatenations, reductions, softmax, padding and slices.  All operands must be transposed in the
    same way, or known, or vectors of an element-wise operation: known ones are transposed at
    compile time, and vectors, such as factors of channels, are reshaped.
    """

    name: ClassVar[str] = "sink_transposes"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        if not any(op.name == "transpose" for op in graph.ops):
            return False
        best: tuple[int, bool] | None = None
        for shared in (False, True):
            trial = graph.clone()
            if not _sink(trial, shared=shared):
                continue
            nbytes = _transposed_bytes(trial)
            if nbytes < (best[0] if best else _transposed_bytes(graph.clone())):
                best = nbytes, shared
        return best is not None and _sink(graph, shared=best[1])


def _transposed_bytes(graph: Graph) -> int:
    """Bytes that transposes write after canonicalisation, which rewrites `graph`."""
    Canonicalise().run(graph)
    EliminateDeadCode().run(graph)
    return sum(hint(op.output.type.nbytes) for op in graph.ops if op.name == "transpose")


def _sink(graph: Graph, *, shared: bool) -> bool:
    """Move all transposes; returns whether anything changed.

    `shared`: also move transposes with several users; each user then gets its own.
    """
    known = KnownValues(graph)
    changed = False
    for op in graph.ops:
        if all(v.type.shape is not None for v in (*op.inputs, *op.outputs)):
            changed |= (
                _join(graph, op) if op.name == "transpose" else _move(graph, op, known, shared)
            )
    return changed


def _join(graph: Graph, op: Op) -> bool:
    """Merge a transpose with the transpose before it, or remove both."""
    inner = producer(op.inputs[0], "transpose")
    if inner is None:
        return False
    first = _axes(inner)
    axes = tuple(first[axis] for axis in _axes(op))
    if axes == tuple(range(len(axes))):
        replace(graph, op, inner.inputs)
    else:
        both = Op("transpose", inner.inputs, {"axes": axes}, [op.output.type], (), op.location)
        graph.insert(both, op)
        replace(graph, op, both.outputs)
    _erase_unused(graph, inner.output)
    return True


def _move(graph: Graph, op: Op, known: KnownValues, shared: bool) -> bool:
    """Transpose the result of `op` instead of its operands; returns whether that was possible."""
    if not shared and any(_order(v) and only_user(graph, v) is None for v in op.inputs):
        return False
    order = _common_order(op)
    if order is None or not all(_is_movable(v, op, order, known) for v in op.inputs):
        return False
    operands = [_moved(graph, v, op, order, known) for v in op.inputs]
    dims = dict(zip(order, op.output.type.dims, strict=True))
    type_ = op.output.type.with_shape(tuple(dims[axis] for axis in range(len(order))))
    attributes = _moved_attributes(op, order)
    moved = graph.insert(Op(op.name, operands, attributes, [type_], (), op.location), op)
    last = Op("transpose", moved.outputs, {"axes": order}, [op.output.type], (), op.location)
    graph.insert(last, op)
    transposes = [v for v in dict.fromkeys(op.inputs) if _order(v) == order]
    replace(graph, op, last.outputs)
    for value in transposes:
        _erase_unused(graph, value)
    return True


def _erase_unused(graph: Graph, value: Value) -> None:
    if value.op is not None and not value.users and not graph.is_output(value):
        graph.erase(value.op)


def _axes(op: Op) -> tuple[int, ...]:
    return permutation(op.attributes["axes"], op.output.type.rank)


def _order(value: Value) -> tuple[int, ...] | None:
    """The axes of the transpose that computes `value`; None for other values."""
    transpose = producer(value, "transpose")
    return None if transpose is None else _axes(transpose)


def _common_order(op: Op) -> tuple[int, ...] | None:
    """The axes that all transposed operands of `op` share; None if they differ or none exists."""
    if traits_of(op).permuted is None or len(op.outputs) != 1:
        return None
    orders = {_order(v) for v in op.inputs} - {None}
    order = orders.pop() if len(orders) == 1 else None
    return order if order is not None and len(order) == op.output.type.rank else None


def _moved_attributes(op: Op, order: tuple[int, ...]) -> dict[str, Attribute]:
    """The attributes of `op` for operands before the transpose by `order`."""
    rule = traits_of(op).permuted
    assert rule is not None
    return rule(op, order)


def _is_movable(value: Value, op: Op, order: tuple[int, ...], known: KnownValues) -> bool:
    """Whether `value` is available before the transpose by `order` without computing anything."""
    if _order(value) == order:
        return True
    return is_elementwise(op) and (
        value.type.rank == 0 or value in known or _is_reshape(value.type.dims, order)
    )


def _is_reshape(dims: Shape, order: tuple[int, ...]) -> bool:
    """Whether undoing the transpose by `order` moves extents of 1 only, and no items."""
    padded = dims + (1,) * (len(order) - len(dims))
    large = [axis for axis in _inverse(order) if padded[axis] != 1]
    return large == sorted(large)


def _inverse(order: tuple[int, ...]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def _moved(graph: Graph, value: Value, op: Op, order: tuple[int, ...], known: KnownValues) -> Value:
    """`value` before the transpose by `order`; constants and reshapes are inserted before `op`."""
    if _order(value) == order:
        assert value.op is not None
        return value.op.inputs[0]
    if value.type.rank == 0:
        return value
    dims = value.type.dims + (1,) * (len(order) - value.type.rank)
    extents = dict(zip(order, dims))
    type_ = TensorType(value.type.dtype, tuple(extents[axis] for axis in range(len(order))))
    number = splat(value)
    if number is not None:
        return graph.insert(splat_op(type_, number, op.location), op).output
    items = known.items(value)
    if items is None:
        attributes: dict[str, Attribute] = {"axis_start": 0, "axis_count": -1, "shape": type_.dims}
        reshape = Op("reshape", [value], attributes, [type_], (), op.location)
        return graph.insert(reshape, op).output
    moved = items.reshape(dims).transpose(_inverse(order))
    return graph.insert(constant_op(moved, type_, op.location), op).output
