"""The layers of a graph that quantization changes: products, and the operands that become codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nnefc.ir import DType, Graph, Op, Value
from nnefc.ops.core.arrays import widen
from nnefc.ops.core.known_items import known_items
from nnefc.ops.core.traits import Folding, ItemTypes
from nnefc.ops.tools.convolution import is_depthwise_deconvolution
from nnefc.ops.tools.reference import apply
from nnefc.ops.tools.table import operations, traits_of
from nnefc.passes.analysis.selections import MOVES
from nnefc.passes.op_queries import only_user
from nnefc.support.names import unused_name

Array = np.ndarray[Any, Any]

PRODUCTS: Final = ("conv", "deconv", "matmul", "linear")
"""Operations whose operands become codes."""
CHANNELS: Final = 1
"""The axis of the channels in the results of `conv`, `deconv` and `linear`."""
SUMS: Final = ("add", "concat", "avg_pool", "mean_reduce")
"""Operations between products that are computed on codes if their operands and result are."""
_CLAMPS: Final = ("relu", "clamp", "max_pool")
_REALS: Final = (DType.FLOAT32, DType.FLOAT64)


@dataclass(frozen=True, slots=True)
class Layer:
    """A product whose two operands may become codes."""

    op: Op
    activations: tuple[int, ...]
    """Operands that depend on the inputs of the graph."""
    weights: tuple[int, ...]
    """Operands that are known."""
    name: str
    """A name that no other layer has, see `layer_names`."""


def layers_of(graph: Graph) -> list[Layer]:
    """The layers in order, without those in bodies of loops and branches.

    Operands that are computed from codes already stay as they are, and so do products in other
    types than float32 and float64.
    """
    known: dict[Value, bool] = {}
    codes: dict[Value, bool] = {}
    layers: list[tuple[Op, tuple[int, ...], tuple[int, ...]]] = []
    for op in graph.ops:
        if op.name not in PRODUCTS or op.output.type.dtype not in _REALS:
            continue
        free = [i for i in (0, 1) if _may_change(op.inputs[i], codes)]
        weights = tuple(i for i in free if is_known(op.inputs[i], known))
        if free and len(weights) < 2:
            layers.append((op, tuple(i for i in free if i not in weights), weights))
    names = layer_names([op for op, _, _ in layers])
    return [Layer(*layer, name) for layer, name in zip(layers, names, strict=True)]


def layer_names(ops: Sequence[Op]) -> list[str]:
    """The names of the results of operations, or of the first named values that are computed from
    them alone; otherwise those of the operations.  Numbers tell equal names.
    """
    found = [op.output.name for op in ops]
    taken = set(found)
    for i, op in enumerate(ops):
        if not found[i]:
            found[i] = unused_name(_name_behind(op) or op.name, taken)
            taken.add(found[i])
    return found


def _name_behind(op: Op) -> str:
    """The name of the first named value that is computed from a result alone; "" if there is none,
    or if it is the result of a product.
    """
    value, graph = op.output, op.graph
    while not value.name:
        user = only_user(graph, value) if graph is not None else None
        if user is None or user.name in PRODUCTS or len(user.outputs) != 1:
            return ""
        value = user.output
    return value.name


def channel_axis(op: Op, operand: int) -> int | None:
    """The axis of a weight whose indices are channels of the result; None without such an axis.

    A channel of the result may then be scaled after the sum of its products.
    """
    weight = op.inputs[operand].type
    if op.name == "linear" and operand == 1:
        return 0
    if op.name == "conv" and operand == 1:
        return 0
    if op.name == "deconv" and operand == 1:
        return 0 if is_depthwise_deconvolution(op) else 1
    if op.name == "matmul" and weight.rank > 1:
        swapped = op.attributes["transposeB" if operand else "transposeA"]
        return weight.rank - (1 if bool(operand) != bool(swapped) else 2)
    return None


def known_bias(layer: Layer) -> Array | None:
    """The known bias of a layer, float64 [channels]; None without one, and for one per item."""
    op = layer.op
    if op.name == "matmul":
        return None
    items, channels = known_items(op.inputs[2]), op.output.type.dims[CHANNELS]
    if items is None or op.inputs[2].type.volume not in (1, channels):
        return None
    return np.broadcast_to(items.astype(np.float64).reshape(-1), (channels,))


def items_of(value: Value) -> Array:
    """The items of a value that does not depend on inputs, computed by the reference."""
    assert value.op is not None
    items = known_items(value)
    if items is None:
        operands = [widen(items_of(operand), operand.type.dtype) for operand in value.op.inputs]
        items = apply(value.op, operands)[value.index]
    return np.broadcast_to(items, value.type.dims).astype(value.type.dtype.numpy)


def _may_change(value: Value, codes: dict[Value, bool]) -> bool:
    """Whether an operand has items, which are not computed from codes."""
    return value.type.volume > 0 and not _comes_from_codes(value, codes)


def _comes_from_codes(value: Value, known: dict[Value, bool]) -> bool:
    """Whether a value has items of dequantized codes, perhaps in another shape or order.

    `known`: the answers so far.
    """
    if value not in known:
        op, spec = value.op, operations().get(value.op.name) if value.op is not None else None
        known[value] = False
        if op is not None and spec is not None and spec.traits.folding is Folding.NEVER:
            known[value] = True
        elif spec is not None and op is not None and _moves_items(op):
            sources = [each for each in op.inputs if each.type.dtype == value.type.dtype]
            known[value] = bool(sources) and all(_comes_from_codes(x, known) for x in sources)
    return known[value]


def _moves_items(op: Op) -> bool:
    """Whether an operation only moves items, or changes their shape."""
    traits = traits_of(op)
    is_plain = op.attributes.get("reduction", "none") == "none"
    return traits.view or (traits.item_types is ItemTypes.MOVED and is_plain)


def is_known(value: Value, known: dict[Value, bool]) -> bool:
    """Whether a value does not depend on inputs; `known`: the answers so far."""
    pending = [value]
    while pending:
        each = pending[-1]
        if each not in known:
            answer = _known_by(each, known)
            if answer is None:
                pending += _unanswered(each, known)
                continue
            known[each] = answer
        pending.pop()
    return known[value]


def _known_by(value: Value, known: dict[Value, bool]) -> bool | None:
    """Whether a value is known; None if the answers for its operands are needed."""
    op = value.op
    if known_items(value) is not None:
        return True
    spec = operations().get(op.name) if op is not None else None
    if op is None or spec is None or not spec.pure or not op.inputs or op.bodies:
        return False
    if spec.traits.folding is Folding.NEVER:
        return False
    return None if _unanswered(value, known) else all(known[each] for each in op.inputs)


def _unanswered(value: Value, known: dict[Value, bool]) -> list[Value]:
    assert value.op is not None
    return [each for each in value.op.inputs if each not in known]


def rounded_operands(layers: Sequence[Layer]) -> list[tuple[Op, int]]:
    """The operands that become codes at run time: operations and positions, in order of the graph.

    They are the activations of layers, and the operands of sums (`SUMS`) that become activations
    behind clamps and movements.  So both sides of a residual addition are codes, as
    onnxruntime.quantization has it, and the results of the layers before are rounded.
    """
    found: dict[tuple[Op, int], None] = {}
    known: dict[Value, bool] = {}
    codes: dict[Value, bool] = {}
    waiting = [(layer.op, i) for layer in layers for i in layer.activations]
    while waiting:
        op, i = place = waiting.pop()
        if place in found:
            continue
        found[place] = None
        source = _sum_before(op.inputs[i])
        if source is not None and not any(is_known(v, known) for v in source.inputs):
            operands = enumerate(source.inputs)
            waiting += [(source, j) for j, v in operands if _may_change(v, codes)]
    graph = layers[0].op.graph if layers else None
    numbers = {op: i for i, op in enumerate(graph.ops if graph is not None else ())}
    return sorted(found, key=lambda place: (numbers[place[0]], place[1]))


def _sum_before(value: Value) -> Op | None:
    """The sum that computes a value, perhaps behind clamps and movements; None for other values."""
    op = value.op
    while op is not None and op.graph is not None and op.name in (*_CLAMPS, *MOVES):
        inner = op.inputs[0]
        op = inner.op if only_user(op.graph, inner) is op else None
    if op is None or op.name not in SUMS or op.output.type.dtype not in _REALS:
        return None
    is_plain = op.name != "add" or all(v.type == op.output.type for v in op.inputs)
    return op if is_plain else None


def activations_of(layers: Sequence[Layer]) -> Iterator[Value]:
    """The values that become codes at run time, each once, in the order of their first use."""
    yield from dict.fromkeys(op.inputs[i] for op, i in rounded_operands(layers))


def comparable_results(graph: Graph) -> list[int]:
    """The numbers of the results with known extents, which can be compared item by item."""
    counted = {number for count in graph.counts for number in (count.of, count.output)}
    return [i for i in range(len(graph.outputs)) if i not in counted]
