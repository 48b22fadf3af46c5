"""What converters wrote out, recognised again, so that every engine gets its best form.

`simplify` rewrites a copy of an imported graph: attributes of windows are completed, and
operations that NNEF does not have take the place of their primitive form:

    layer_normalization(x, scale, offset) {axis, epsilon}    over the trailing dimensions
    gelu_tanh(x)                                             the approximation with tanh
    silu(x)
    attention(query, key, value) {scale}                     [batch, heads, tokens, width]
    dense(x, filter, bias)                                   [.., K] x [1.., K, N] + [1.., 1, N]

The last one is made of any product with a constant matrix, followed by a sum or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nnefc.ir import Graph, Op, Value
from nnefc.ops.core.window_arithmetic import convolution_window, pooling_window
from nnefc.passes.base import replace, splat

Rule = Callable[[Graph, Op], bool]


def simplify(graph: Graph) -> Graph:
    """A copy with complete attributes and recognised patterns."""
    graph = graph.clone()
    for op in graph.ops:
        _complete(op)
    for rule in (_layer_norm, _gelu_tanh, _silu, _attention, _dense, _dense_bias):
        for op in graph.ops:
            rule(graph, op)
        _drop_unused(graph)
    return graph


def is_stored(value: Value) -> bool:
    """Whether the items of a value are known: a variable (that nobody updates) or a constant."""
    return value.op is not None and value.op.name in ("variable", "constant")


def _complete(op: Op) -> None:
    """Fill in paddings, strides and dilations that are left to be deduced."""
    attributes = op.attributes
    if op.name in ("conv", "deconv"):
        shape, kernel = op.inputs[0].type.dims, op.inputs[1].type.dims
        window = convolution_window(shape, kernel, attributes, reverse=op.name == "deconv")
        if op.name == "deconv":
            attributes["output_shape"] = op.output.type.dims
    elif "pool" in op.name:
        window = pooling_window(op.inputs[0].type.dims, attributes)
    else:
        return
    for name in ("padding", "stride", "dilation"):
        attributes[name] = tuple(getattr(window, name))


def _drop_unused(graph: Graph) -> None:
    for op in graph.reversed_ops:
        if op.name != "update" and not any(v.users or graph.is_output(v) for v in op.outputs):
            graph.erase(op)


# -- matching


def _made_by(value: Value, *names: str) -> Op | None:
    return value.op if value.op is not None and value.op.name in names else None


def _orders(op: Op | None) -> Iterator[tuple[Value, Value]]:
    """The operands of a commutative operation, both ways."""
    if op is not None and len(op.inputs) == 2:
        a, b = op.inputs
        yield a, b
        yield b, a


def _with_number(value: Value, name: str) -> tuple[Value, float] | None:
    """The other operand and the number of `name`(other, number)."""
    for x, y in _orders(_made_by(value, name)):
        number = splat(y)
        if number is not None:
            return x, float(number)
    return None


def _scaled(value: Value, factor: float) -> Value | None:
    """What is multiplied by about that factor."""
    found = _with_number(value, "mul")
    return found[0] if found and math.isclose(found[1], factor, rel_tol=1e-4) else None


def _power(value: Value, exponent: int) -> Value | None:
    """What is raised to that power."""
    op = _made_by(value, "pow", "sqr", "mul")
    if op is None:
        return None
    if op.name == "pow":
        return op.inputs[0] if splat(op.inputs[1]) == exponent else None
    same = op.name == "sqr" or op.inputs[0] is op.inputs[1]
    return op.inputs[0] if exponent == 2 and same else None


def _mean(value: Value) -> tuple[Value, tuple[int, ...]] | None:
    """(what is averaged, axes)"""
    op = _made_by(value, "mean_reduce")
    return (op.inputs[0], tuple(op.attributes["axes"])) if op else None


def _put(graph: Graph, op: Op, name: str, inputs: Sequence[Value], **attributes: Any) -> bool:
    """Let an operation that NNEF does not have take the place of `op`."""
    new = Op(name, inputs, attributes, [op.output.type], [op.output.name])
    graph.insert(new, op)
    replace(graph, op, [new.output])
    return True


# -- rules


def _normalised(value: Value) -> tuple[Value, int, float] | None:
    """(x, first axis, epsilon) of (x - mean) / sqrt(variance + epsilon)"""
    division = _made_by(value, "div")
    root = _made_by(division.inputs[1], "sqrt") if division else None
    difference = _made_by(division.inputs[0], "sub") if division else None
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
        for inner, scale in _orders(_made_by(product, "mul")):
            found = _normalised(inner)
            if found is None or not (is_stored(scale) and is_stored(offset)):
                continue
            x, axis, epsilon = found
            if scale.type.volume == offset.type.volume == math.prod(x.type.dims[axis:]):
                inputs = (x, scale, offset)
                return _put(graph, op, "layer_normalization", inputs, axis=axis, epsilon=epsilon)
    return False


def _gelu_tanh(graph: Graph, op: Op) -> bool:
    if op.name != "mul":
        return False
    for half, gate in _orders(op):
        x = _scaled(half, 0.5)
        shifted = _with_number(gate, "add")
        tanh = _made_by(shifted[0], "tanh") if shifted and shifted[1] == 1 else None
        inner = _scaled(tanh.inputs[0], math.sqrt(2 / math.pi)) if tanh else None
        if x is None or inner is None:
            continue
        for first, second in _orders(_made_by(inner, "add")):
            cube = _scaled(second, 0.044715)
            if first is x and cube is not None and _power(cube, 3) is x:
                return _put(graph, op, "gelu_tanh", (x,))
    return False


def _silu(graph: Graph, op: Op) -> bool:
    if op.name != "mul":
        return False
    for x, gate in _orders(op):
        sigmoid = _made_by(gate, "sigmoid")
        if sigmoid and sigmoid.inputs[0] is x and len(gate.users) == 1:
            return _put(graph, op, "silu", (x,))
    return False


def _attention(graph: Graph, op: Op) -> bool:
    """softmax(query key^T scale) value; where the key comes transposed, it is turned back."""
    softmax = _made_by(op.inputs[0], "softmax") if op.name == "matmul" else None
    if softmax is None or op.attributes["transposeA"] or op.attributes["transposeB"]:
        return False
    if op.output.type.rank != 4 or tuple(softmax.attributes["axes"]) != (3,):
        return False
    scaled = _with_number(softmax.inputs[0], "mul")
    product = _made_by(scaled[0], "matmul") if scaled else None
    if scaled is None or product is None or product.attributes["transposeA"]:
        return False
    query, key = product.inputs
    if not product.attributes["transposeB"]:
        turned = _turned(graph, key)
        if turned is None:
            return False
        key = turned
    return _put(graph, op, "attention", (query, key, op.inputs[1]), scale=scaled[1])


def _turned(graph: Graph, key: Value) -> Value | None:
    """The key with its last two dimensions exchanged, by another transposition than it had."""
    op = _made_by(key, "transpose")
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
    return _put(graph, op, "dense", (x, matrix))


def _dense_bias(graph: Graph, op: Op) -> bool:
    if op.name != "add":
        return False
    for product, bias in _orders(op):
        dense = _made_by(product, "dense")
        if dense is None or len(dense.inputs) != 2 or len(product.users) != 1:
            continue
        if is_stored(bias) and bias.type.volume == bias.type.dims[-1] == product.type.dims[-1]:
            return _put(graph, op, "dense", (*dense.inputs, bias))
    return False
