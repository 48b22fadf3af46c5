"""Recognise operations that converters decompose, so that each engine can use its fused kernels.

`simplify` rewrites a copy of an imported graph: it completes the attributes of windows, and
replaces these patterns by operations that NNEF does not have:

    layer_normalization(x, scale, offset) {axis, epsilon}    over the trailing dimensions
    gelu_tanh(x)                                             tanh approximation
    silu(x)
    attention(query, key, value) {scale}                     [batch, heads, tokens, width]
    dense(x, filter, bias)                                   [.., K] x [1.., K, N] + [1.., 1, N]

The last pattern is a product with a constant matrix, with or without a sum after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nnefc.emit.convert.complete_windows import complete_windows
from nnefc.emit.convert.onnx.writer import is_stored
from nnefc.ir import Graph, Op, Value
from nnefc.passes.op_queries import replace, splat

Rule = Callable[[Graph, Op], bool]


def simplify(graph: Graph) -> Graph:
    """A copy of a graph with complete attributes and recognised patterns."""
    graph = graph.clone()
    complete_windows(graph)
    for rule in (_layer_norm, _gelu_tanh, _silu, _attention, _dense, _dense_bias):
        for op in graph.ops:
            rule(graph, op)
        _drop_unused(graph)
    return graph


def _drop_unused(graph: Graph) -> None:
    for op in graph.reversed_ops:
        if op.name != "update" and not any(v.users or graph.is_output(v) for v in op.outputs):
            graph.erase(op)


# -- matching


def _producer(value: Value, *names: str) -> Op | None:
    return value.op if value.op is not None and value.op.name in names else None


def _orders(op: Op | None) -> Iterator[tuple[Value, Value]]:
    """The operands of a commutative operation in both orders."""
    if op is not None and len(op.inputs) == 2:
        a, b = op.inputs
        yield a, b
        yield b, a


def _with_number(value: Value, name: str) -> tuple[Value, float] | None:
    """(other operand, number) of `name`(other, number)."""
    for x, y in _orders(_producer(value, name)):
        number = splat(y)
        if number is not None:
            return x, float(number)
    return None


def _scaled(value: Value, factor: float) -> Value | None:
    """The value that is multiplied by about `factor`."""
    product = _with_number(value, "mul")
    return product[0] if product and math.isclose(product[1], factor, rel_tol=1e-4) else None


def _power(value: Value, exponent: int) -> Value | None:
    """The value that is raised to the power `exponent`."""
    op = _producer(value, "pow", "sqr", "mul")
    if op is None:
        return None
    if op.name == "pow":
        return op.inputs[0] if splat(op.inputs[1]) == exponent else None
    same = op.name == "sqr" or op.inputs[0] is op.inputs[1]
    return op.inputs[0] if exponent == 2 and same else None


def _mean(value: Value) -> tuple[Value, tuple[int, ...]] | None:
    """(averaged value, axes) of a mean."""
    op = _producer(value, "mean_reduce")
    return (op.inputs[0], tuple(op.attributes["axes"])) if op else None


def _replace_by(
    graph: Graph, op: Op, name: str, inputs: Sequence[Value], **attributes: Any
) -> bool:
    """Replace `op` by an operation `name`."""
    new = Op(name, inputs, attributes, [op.output.type], [op.output.name])
    graph.insert(new, op)
    replace(graph, op, [new.output])
    return True


# -- rules


def _normalised(value: Value) -> tuple[Value, int, float] | None:
    """(x, first axis, epsilon) of (x - mean) / sqrt(variance + epsilon)."""
    division = _producer(value, "div")
    root = _producer(division.inputs[1], "sqrt") if division else None
    difference = _producer(division.inputs[0], "sub") if division else None
    if division is None or root is None or difference is None:
        return None
    shifted = _with_number(root.inputs[0], "add")
    variance = _mean(shifted[0]) if shifted else None
    mean = _mean(difference.inputs[1])
    if shifted is None or variance is None or mean is None:
        return None
    x, axes = mean
    rank = x.type.rank
    fits = (
        _power(variance[0], 2) is difference.output
        and difference.inputs[0] is x
        and variance[1] == axes == tuple(range(rank - len(axes), rank))
    )
    return (x, axes[0], shifted[1]) if fits else None


def _layer_norm(graph: Graph, op: Op) -> bool:
    if op.name != "add":
        return False
    for product, offset in _orders(op):
        for inner, scale in _orders(_producer(product, "mul")):
            normalised = _normalised(inner)
            if normalised is None or not (is_stored(scale) and is_stored(offset)):
                continue
            x, axis, epsilon = normalised
            if scale.type.volume == offset.type.volume == math.prod(x.type.dims[axis:]):
                inputs = (x, scale, offset)
                return _replace_by(
                    graph, op, "layer_normalization", inputs, axis=axis, epsilon=epsilon
                )
    return False


def _gelu_tanh(graph: Graph, op: Op) -> bool:
    if op.name != "mul":
        return False
    for half, gate in _orders(op):
        x = _scaled(half, 0.5)
        shifted = _with_number(gate, "add")
        tanh = _producer(shifted[0], "tanh") if shifted and shifted[1] == 1 else None
        inner = _scaled(tanh.inputs[0], math.sqrt(2 / math.pi)) if tanh else None
        if x is None or inner is None:
            continue
        for first, second in _orders(_producer(inner, "add")):
            cube = _scaled(second, 0.044715)
            if first is x and cube is not None and _power(cube, 3) is x:
                return _replace_by(graph, op, "gelu_tanh", (x,))
    return False


def _silu(graph: Graph, op: Op) -> bool:
    if op.name != "mul":
        return False
    for x, gate in _orders(op):
        sigmoid = _producer(gate, "sigmoid")
        if sigmoid and sigmoid.inputs[0] is x and len(gate.users) == 1:
            return _replace_by(graph, op, "silu", (x,))
    return False


def _attention(graph: Graph, op: Op) -> bool:
    """softmax(query key^T scale) value; a transposed key is transposed back."""
    softmax = _producer(op.inputs[0], "softmax") if op.name == "matmul" else None
    if softmax is None or op.attributes["transposeA"] or op.attributes["transposeB"]:
        return False
    if op.output.type.rank != 4 or tuple(softmax.attributes["axes"]) != (3,):
        return False
    scaled = _with_number(softmax.inputs[0], "mul")
    product = _producer(scaled[0], "matmul") if scaled else None
    if scaled is None or product is None or product.attributes["transposeA"]:
        return False
    query, key = product.inputs
    if not product.attributes["transposeB"]:
        transposed = _transposed_back(graph, key)
        if transposed is None:
            return False
        key = transposed
    return _replace_by(graph, op, "attention", (query, key, op.inputs[1]), scale=scaled[1])


def _transposed_back(graph: Graph, key: Value) -> Value | None:
    """The key with its last two dimensions exchanged; changes the axes of its transpose."""
    op = _producer(key, "transpose")
    if op is None or len(op.attributes["axes"]) != 4:
        return None
    first, second, third, fourth = op.attributes["axes"]
    axes: tuple[int, ...] = (first, second, fourth, third)
    dims = tuple(key.type.dims[a] for a in (0, 1, 3, 2))
    new = Op("transpose", op.inputs, {"axes": axes}, [op.output.type.with_shape(dims)])
    return graph.insert(new, op).output


def _dense(graph: Graph, op: Op) -> bool:
    if op.name != "matmul" or not is_stored(op.inputs[1]) or op.attributes["transposeA"]:
        return False
    x, matrix = op.inputs
    if x.type.rank < 3 or math.prod(matrix.type.dims[:-2]) != 1 or op.attributes["transposeB"]:
        return False
    return _replace_by(graph, op, "dense", (x, matrix))


def _dense_bias(graph: Graph, op: Op) -> bool:
    if op.name != "add":
        return False
    for product, bias in _orders(op):
        dense = _producer(product, "dense")
        if dense is None or len(dense.inputs) != 2 or len(product.users) != 1:
            continue
        if is_stored(bias) and bias.type.volume == bias.type.dims[-1] == product.type.dims[-1]:
            return _replace_by(graph, op, "dense", (*dense.inputs, bias))
    return False
