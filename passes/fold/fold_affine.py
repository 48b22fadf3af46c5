"""Fold constant factors and terms into the weights of convolutions and matrix products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nnefc.ir import Graph, Op, Shape, TensorType, Value
from nnefc.ops.core.window_arithmetic import convolution_groups
from nnefc.ops.tools.convolution import is_plain_convolution, is_reversed, window_of
from nnefc.passes.analysis.affine_maps import Affine, chain_after, chain_before, per_channel
from nnefc.passes.analysis.known_data import KnownValues, constant_op
from nnefc.passes.op_queries import only_user, replace

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class FoldAffine:
    """Fold affine maps by constants, such as batch normalisation, into constant weights.

        %1: float32[1,8,9,9] = conv(%x, %filter, %bias) {...}
        %2: float32[1,8,9,9] = sub(%1, %mean)
        %3: float32[1,8,9,9] = mul(%scale, %2)
        %4: float32[1,8,9,9] = div(%3, %deviation)
        %y: float32[1,8,9,9] = add(%offset, %4)

    becomes, with new constants, computed in float64 and rounded once,

        %y: float32[1,8,9,9] = conv(%x, %filter', %bias') {...}

    The map may vary by channel.  After conv and deconv, factors and terms are folded; after a
    concatenation of convolutions along the channels, each convolution gets its slice of the map.
    Before conv, terms are folded only if no tap reads a border of zeros; before deconv, only
    factors are.  After matmul with a constant operand, factors that vary by column (by row for a
    constant first operand) are folded, and the terms become one `add`.  Values with other users,
    and maps or weights that are not finite, are not folded; nor is a term that cancels those before
    it, as in (x + 12582912) - 12582912, which rounds x.
    """

    name: ClassVar[str] = "fold_affine"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        known = KnownValues(graph)
        # a list, because folding erases operations behind the current one
        candidates = [
            op for op in graph.ops if is_plain_convolution(op) or op.name in ("concat", "matmul")
        ]
        with np.errstate(all="ignore"):
            return sum(_fold(graph, op, known) for op in candidates) > 0


def _fold(graph: Graph, op: Op, known: KnownValues) -> bool:
    """Fold the maps around one operation; returns whether anything changed."""
    if any(v.type.shape is None for v in (*op.inputs, *op.outputs)):
        return False
    if op.name == "matmul":
        return _fold_after_matmul(graph, op, known)
    if op.name == "concat":
        return _fold_after(graph, op, known)
    if not _has_weights(op, known):
        return False
    convolution = _fold_before(graph, op, known)
    return _fold_after(graph, convolution, known) or convolution is not op


def _has_weights(op: Op, known: KnownValues) -> bool:
    """Whether `op` is a convolution with known filter and bias."""
    return is_plain_convolution(op) and op.inputs[1] in known and op.inputs[2] in known


# -- after convolutions


def _fold_after(graph: Graph, op: Op, known: KnownValues) -> bool:
    """Fold the chain after a convolution, or after a concatenation of convolutions."""
    if not (_has_weights(op, known) or _joins_convolutions(graph, op, known)):
        return False
    bias = _along(_joined_bias(op, known), 1, op.output.type.rank)
    chain = list(chain_after(graph, op.output, known, per_channel, bias))
    if not chain:
        return False
    result, total = chain[-1][0].output, chain[-1][1]
    convolutions = _distribute(op, total)
    weights = [_scaled_outputs(each, map_, known) for each, map_ in convolutions]
    if not all(w.fits(op) for w in weights):
        return False
    if result.name:
        op.output.name = result.name
    for (each, _), new in zip(convolutions, weights):
        rebuilt = _rebuild(graph, each, each.inputs[0], new)
        op = rebuilt if each is op else op
    graph.replace_value(result, op.output)
    for step, _ in reversed(chain):
        graph.erase(step)
    return True


def _joins_convolutions(graph: Graph, op: Op, known: KnownValues) -> bool:
    """Whether `op` concatenates channels of convolutions with known weights and no other users."""
    if op.name != "concat" or op.attributes["axis"] != 1:
        return False
    for value in op.inputs:
        inner = value.op
        if inner is None or only_user(graph, value) is not op:
            return False
        if not (_has_weights(inner, known) or _joins_convolutions(graph, inner, known)):
            return False
    return True


def _joined_bias(op: Op, known: KnownValues) -> Array:
    """The bias of a convolution, or of those that `op` concatenates; an item for each channel."""
    if op.name != "concat":
        return np.broadcast_to(_bias(op, known), (op.output.type.dims[1],))
    return np.concatenate([_joined_bias(x.op, known) for x in op.inputs if x.op is not None])


def _distribute(op: Op, map_: Affine) -> list[tuple[Op, Affine]]:
    """The convolutions that compute the output of `op`, each with its channels of `map_`."""
    if op.name != "concat":
        return [(op, map_)]
    distributed: list[tuple[Op, Affine]] = []
    start = 0
    for value in op.inputs:
        stop = start + value.type.dims[1]
        scale, shift = (
            a if a.shape[1] == 1 else a[:, start:stop] for a in (map_.scale, map_.shift)
        )
        assert value.op is not None
        distributed += _distribute(value.op, Affine(scale, shift))
        start = stop
    return distributed


def _scaled_outputs(op: Op, map_: Affine, known: KnownValues) -> _Weights:
    """The weights with which the convolution `op` computes `map_` of its output."""
    scale = map_.scale.reshape(-1)
    bias = scale * _bias(op, known) + map_.shift.reshape(-1)
    if not map_.scales:
        return _Weights(None, bias)
    filter_ = _filter(op, known)
    if not is_reversed(op):
        return _Weights(_product(filter_, _along(scale, 0, filter_.ndim), op), bias)
    groups = convolution_groups(op.inputs[0].type.dims, op.attributes)
    grouped = filter_.reshape(groups, filter_.shape[0] // groups, filter_.shape[1], -1)
    factors = scale if scale.size == 1 else scale.reshape(groups, 1, -1, 1)
    return _Weights(_product(grouped, factors, op).reshape(filter_.shape), bias)


# -- before convolutions


def _fold_before(graph: Graph, op: Op, known: KnownValues) -> Op:
    """Fold the chain before a convolution; returns the convolution that replaces it, or `op`."""
    chain = chain_before(graph, op.inputs[0], known, per_channel)
    while chain and chain[-1][2].shifts and _reads_zeros(op):
        chain.pop()
    if not chain:
        return op
    _, value, map_ = chain[-1]
    weights = _scaled_inputs(op, map_, known)
    if not weights.fits(op):
        return op
    rebuilt = _rebuild(graph, op, value, weights)
    for step, _, _ in chain:
        graph.erase(step)
    return rebuilt


def _reads_zeros(op: Op) -> bool:
    """Whether taps read a border of zeros; true for deconv, where taps may read no item."""
    if is_reversed(op):
        return True
    if op.attributes["border"] != "constant":
        return False
    window = window_of(op)
    return any(
        p > 0 or (down - 1) * s + f - p > up
        for (p, _), down, s, f, up in zip(
            window.padding, window.down, window.stride, window.dilated, window.up, strict=True
        )
    )


def _scaled_inputs(op: Op, map_: Affine, known: KnownValues) -> _Weights:
    """The weights with which the convolution `op` computes for x its output for `map_` of x."""
    filter_, bias = _filter(op, known), _bias(op, known)
    scale, shift = map_.scale.reshape(-1), map_.shift.reshape(-1)
    if is_reversed(op):
        return _Weights(_product(filter_, _along(scale, 0, filter_.ndim), op), bias)
    groups = convolution_groups(op.inputs[0].type.dims, op.attributes)
    outputs, inputs = filter_.shape[:2]
    grouped = filter_.reshape(groups, outputs // groups, inputs, -1)
    scale, shift = (a if a.size == 1 else a.reshape(groups, 1, inputs, 1) for a in (scale, shift))
    if map_.shifts:
        bias = bias + (grouped * shift).sum((2, 3)).reshape(-1)
    if not map_.scales:
        return _Weights(None, bias)
    return _Weights(_product(grouped, scale, op).reshape(filter_.shape), bias)


# -- weights


@dataclass(frozen=True, eq=False)
class _Weights:
    """New weights of a convolution.

    `filter`: in the type of the operation; None: unchanged.  `bias`: float64, [channels] or [1].
    """

    filter: Array | None
    bias: Array

    def fits(self, op: Op) -> bool:
        """Whether all items are finite in the type of the result of `op`."""
        return _is_finite(self.bias, op) and (self.filter is None or _is_finite(self.filter, op))


def _is_finite(items: Array, op: Op) -> bool:
    """Whether all items are finite in the type of the result of `op`."""
    return bool(np.isfinite(items.astype(op.output.type.dtype.numpy, copy=False)).all())


def _filter(op: Op, known: KnownValues) -> Array:
    items = known.items(op.inputs[1])
    assert items is not None
    return items


def _product(items: Array, factors: Array, op: Op) -> Array:
    """Products in float64, rounded to the type of the result of `op`, without a float64 copy."""
    rounded = np.empty(items.shape, op.output.type.dtype.numpy)
    return np.multiply(items, factors, out=rounded, dtype=np.float64, casting="unsafe")


def _bias(op: Op, known: KnownValues) -> Array:
    items = known.items(op.inputs[2])
    assert items is not None
    return items.astype(np.float64).reshape(-1)


def _along(items: Array, axis: int, rank: int) -> Array:
    """A vector (or one item) as an array of rank `rank` that extends along `axis`."""
    return items.reshape([-1 if d == axis else 1 for d in range(rank)])


def _rebuild(graph: Graph, op: Op, input_: Value, new: _Weights) -> Op:
    """Replace `op` by a convolution with another input and new weights."""
    filter_ = op.inputs[1]
    if new.filter is not None:
        filter_ = graph.insert(constant_op(new.filter, filter_.type, op.location), op).output
    type_ = TensorType(op.output.type.dtype, (1, new.bias.size) if new.bias.size > 1 else ())
    bias = graph.insert(constant_op(new.bias.reshape(type_.dims), type_, op.location), op).output
    new_op = Op(op.name, [input_, filter_, bias], op.attributes, [op.output.type], (), op.location)
    graph.insert(new_op, op)
    replace(graph, op, [new_op.output])
    return new_op


# -- matrix products


def _fold_after_matmul(graph: Graph, op: Op, known: KnownValues) -> bool:
    """Fold factors into the constant operand of a matmul, and add all terms at once."""
    index = next((i for i in (1, 0) if op.inputs[i] in known), None)
    if index is None:
        return False
    weights = op.inputs[index]
    batch = weights.type.dims[:-2]

    def fits(shape: Shape) -> bool:
        """Whether a factor is constant along the dimension that the other operand has."""
        grows = any(e not in (1, b) for e, b in zip(shape[:-2], batch, strict=True))
        return shape[-2 if index else -1] == 1 and not grows

    chain = list(chain_after(graph, op.output, known, fits))
    items = known.items(weights)
    if not chain or items is None:
        return False
    last, map_ = chain[-1]
    if not map_.scales and len(chain) == 1:
        return False
    transposed = op.attributes["transposeB" if index else "transposeA"]
    scaled = _product(items, map_.scale.swapaxes(-1, -2) if transposed else map_.scale, op)
    if not _is_finite(scaled, op) or not _is_finite(map_.shift, op):
        return False
    if map_.scales:
        op.set_input(index, graph.insert(constant_op(scaled, weights.type, op.location), op).output)
    result = op.output
    if map_.shifts:
        type_ = TensorType(result.type.dtype, map_.shift.shape)
        term = graph.insert(constant_op(map_.shift, type_, last.location), last).output
        sum_ = Op("add", [result, term], {}, [result.type], location=last.location)
        result = graph.insert(sum_, last).output
    graph.replace_value(last.output, result)
    for step, _ in reversed(chain):
        graph.erase(step)
    return True
