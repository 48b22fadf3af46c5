"""Quantized ONNX files as .tflite: the same codes of weights, channels last.

Values that LiteRT wants in one scale get the widest one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.quantized.onnx_codes import Node, fixed_codes, read
from benchmarks.quantized.tflite_values import Converter

SAME, VALID = 0, 1
"""Paddings."""
RELU = 1
"""The activation function that is a rectifier."""


def convert(source: Path, path: Path) -> None:
    """Write `path` from the quantized ONNX file `source`."""
    made = Converter(read(source))
    for node in made.graph.nodes:
        emit = _EMIT.get(node.kind)
        if emit is None:
            raise ValueError(f"{node.kind} is not translated for LiteRT")
        emit(made, node)
    graph = made.graph
    inputs = [made.made[name, made.layout[name], False] for name in graph.inputs]
    outputs = [made.get(name, made.layout[name], coded=False) for name in graph.outputs]
    made.file.write(path, inputs, outputs)


def _filter(made: Converter, name: str, order: Sequence[int], axis: int, coded: bool) -> int:
    """A tensor of a filter; `order` of its axes, and `axis` of the scales there."""
    weights = made.graph.weights[name]
    array = weights.codes if coded else weights.reals
    array = np.transpose(array, order)
    if not coded:
        return made.file.constant(array, "float32")
    scales = [float(scale) for scale in weights.scales.reshape(-1)]
    return made.file.tensor(array.shape, "int8", scales, 0, axis, data=array)


def _bias(made: Converter, node: Node, name: str, count: int, coded: bool) -> int:
    """A tensor of biases, in codes with the scales of the sums."""
    reals = made.reals(name).reshape(-1) if name else np.zeros(count, np.float32)
    if not coded:
        return made.file.constant(reals, "float32")
    filters = made.graph.weights[node.inputs[1]].scales.reshape(-1).astype(np.float64)
    scales = made.graph.codes[node.inputs[0]].scale * filters
    limits = np.iinfo(np.int32)
    codes = np.clip(np.rint(reals / scales), limits.min, limits.max).astype(np.int32)
    return made.file.tensor(codes.shape, "int32", list(map(float, scales)), 0, 0, data=codes)


def _padded(
    made: Converter, node: Node, x: int, coded: bool, kernel: Sequence[int]
) -> tuple[int, int]:
    """(tensor, padding) of a window operation; borders that LiteRT has not are written."""
    attributes = node.attributes
    pads = attributes.get("pads", [0, 0, 0, 0])
    strides = attributes.get("strides", [1, 1])
    dilations = attributes.get("dilations", [1, 1])
    extents = made.graph.shapes[node.inputs[0]][2:]
    if not any(pads):
        return x, VALID
    same: list[int] = []
    for extent, stride, size, dilation in zip(extents, strides, kernel, dilations):
        total = max((-(-extent // stride) - 1) * stride + (size - 1) * dilation + 1 - extent, 0)
        same += [total // 2, total - total // 2]
    if same == [pads[0], pads[2], pads[1], pads[3]] and node.kind != "AveragePool":
        return x, SAME
    n, c, h, w = made.graph.shapes[node.inputs[0]]
    codes = made.graph.codes[node.inputs[0]] if coded else None
    shape = [n, h + pads[0] + pads[2], w + pads[1] + pads[3], c]
    result = made.scratch(shape, codes)
    border = made.file.constant([[0, 0], [pads[0], pads[2]], [pads[1], pads[3]], [0, 0]])
    if node.kind == "MaxPool" and not (codes and codes.zero == -128):
        data = np.array([-128 if coded else -np.inf], "int8" if coded else "float32")
        scale = [codes.scale] if codes else []
        least = made.file.tensor([1], str(data.dtype), scale, codes.zero if codes else 0, data=data)
        made.file.operator("PADV2", [x, border, least], [result], "PadV2Options")
    else:
        made.file.operator("PAD", [x, border], [result], "PadOptions")
    return result, VALID


def _rectifier(made: Converter, node: Node, coded: bool) -> dict[str, Any]:
    """The option that computes a rectifier, which onnxruntime leaves to the range of codes."""
    return (
        {"fusedActivationFunction": RELU}
        if coded and node.outputs[0] in made.graph.rectified
        else {}
    )


def _conv(made: Converter, node: Node) -> None:
    coded = made.in_codes(node)
    x = made.get(node.inputs[0], True, coded=coded)
    filters = made.graph.weights[node.inputs[1]].codes
    count, _, *kernel = filters.shape
    groups = node.attributes.get("group", 1)
    depthwise = groups > 1 and groups == made.graph.shapes[node.inputs[0]][1]
    x, padding = _padded(made, node, x, coded, kernel)
    order, axis = ((1, 2, 3, 0), 3) if depthwise else ((0, 2, 3, 1), 0)
    w = _filter(made, node.inputs[1], order, axis, coded)
    b = _bias(made, node, node.inputs[2] if len(node.inputs) > 2 else "", count, coded)
    rows, columns = node.attributes.get("strides", [1, 1])
    high, wide = node.attributes.get("dilations", [1, 1])
    options: dict[str, Any] = {"padding": padding, "strideH": rows, "strideW": columns}
    options |= {"dilationHFactor": high, "dilationWFactor": wide, **_rectifier(made, node, coded)}
    kind = "Conv2DOptions"
    if depthwise:
        kind, options["depthMultiplier"] = "DepthwiseConv2DOptions", count // groups
    y = made.new(node.outputs[0], True, coded=coded)
    name = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    made.file.operator(name, [x, w, b], [y], kind, **options)


def _deconv(made: Converter, node: Node) -> None:
    coded = made.in_codes(node)
    x = made.get(node.inputs[0], True, coded=coded)
    w = _filter(made, node.inputs[1], (1, 2, 3, 0), 0, coded)
    count = made.graph.shapes[node.outputs[0]][1]
    b = _bias(made, node, node.inputs[2] if len(node.inputs) > 2 else "", count, coded)
    y = made.new(node.outputs[0], True, coded=coded)
    rows, columns = node.attributes["strides"]
    shape = made.file.constant(made.stored(node.outputs[0], True))
    options = {"padding": VALID, "strideH": rows, "strideW": columns}
    options |= _rectifier(made, node, coded)
    made.file.operator("TRANSPOSE_CONV", [shape, w, x, b], [y], "TransposeConvOptions", **options)


def _pool(made: Converter, node: Node) -> None:
    coded = _moves_codes(made, node)
    x = made.get(node.inputs[0], True, coded=coded)
    kernel = node.attributes["kernel_shape"]
    x, padding = _padded(made, node, x, coded, kernel)
    y = made.new(node.outputs[0], True, coded=coded)
    rows, columns = node.attributes.get("strides", [1, 1])
    options = {"padding": padding, "strideH": rows, "strideW": columns}
    options |= {"filterHeight": kernel[0], "filterWidth": kernel[1]}
    name = "MAX_POOL_2D" if node.kind == "MaxPool" else "AVERAGE_POOL_2D"
    made.file.operator(name, [x], [y], "Pool2DOptions", **options)


def _moves_codes(made: Converter, node: Node) -> bool:
    """Whether an operation that computes no codes moves them; its results have the same ones."""
    name = node.inputs[0]
    coded = node.coded[0] or made.has_codes(name)
    if coded:
        for result in node.outputs:
            made.graph.codes[result] = made.graph.codes[name]
    return coded


def _mean(made: Converter, node: Node) -> None:
    coded = made.in_codes(node)
    x = made.get(node.inputs[0], True, coded=coded)
    y = made.new(node.outputs[0], True, coded=coded)
    axes = made.file.constant([1, 2])
    made.file.operator("MEAN", [x, axes], [y], "ReducerOptions", keepDims=True)


def _resize(made: Converter, node: Node) -> None:
    coded = _moves_codes(made, node)
    x = made.get(node.inputs[0], True, coded=coded)
    y = made.new(node.outputs[0], True, coded=coded)
    extents = made.file.constant(made.graph.shapes[node.outputs[0]][2:])
    kind = "ResizeNearestNeighborOptions"
    made.file.operator("RESIZE_NEAREST_NEIGHBOR", [x, extents], [y], kind)


def _product(made: Converter, node: Node) -> None:
    if made.is_constant(node.inputs[1]):
        _linear(made, node)
        return
    coded = made.in_codes(node)
    inputs = [made.get(name, False, coded=coded) for name in node.inputs]
    y = made.new(node.outputs[0], False, coded=coded)
    made.file.operator("BATCH_MATMUL", inputs, [y], "BatchMatMulOptions")


def _linear(made: Converter, node: Node) -> None:
    """Weights stay codes if the rows are reals: LiteRT then quantizes them in each run."""
    coded = made.in_codes(node)
    x = made.get(node.inputs[0], False, coded=coded)
    order = (0, 1) if node.attributes.get("transB") else (1, 0)
    w = _filter(made, node.inputs[1], order, 0, coded=True)
    name = node.inputs[2] if len(node.inputs) > 2 else ""
    b = [_bias(made, node, name, 0, coded)] if name else [-1]
    y = made.new(node.outputs[0], False, coded=coded)
    options: dict[str, Any] = {"keepNumDims": len(made.graph.shapes[node.inputs[0]]) > 2}
    options |= _rectifier(made, node, coded)
    made.file.operator("FULLY_CONNECTED", [x, w, *b], [y], "FullyConnectedOptions", **options)


_BINARY: Final = {"Add": "ADD", "Mul": "MUL"}


def _binary(made: Converter, node: Node) -> None:
    coded = made.in_codes(node)
    values = [name for name in node.inputs if not made.is_constant(name)]
    last = any(made.layout[name] for name in values)
    inputs = [made.get(name, last, coded=coded) for name in node.inputs]
    y = made.new(node.outputs[0], last, coded=coded)
    options = _rectifier(made, node, coded)
    made.file.operator(_BINARY[node.kind], inputs, [y], f"{node.kind}Options", **options)


_UNARY: Final[dict[str, tuple[str, str, dict[str, Any]]]] = {
    "Sigmoid": ("LOGISTIC", "", {}),
    "Tanh": ("TANH", "", {}),
    "Softmax": ("SOFTMAX", "SoftmaxOptions", {"beta": 1.0}),
    "Gelu": ("GELU", "GeluOptions", {"approximate": True}),
}


def _unary(made: Converter, node: Node) -> None:
    coded = made.in_codes(node)
    (x,), (y,) = node.inputs, node.outputs
    last = made.layout[x] and node.kind != "Softmax"
    name, kind, options = _UNARY[node.kind]
    source = made.get(x, last, coded=coded)
    fixed = fixed_codes(node.kind)
    if coded and fixed and fixed != made.graph.codes[y]:
        between = made.scratch(made.stored(y, last), fixed)
        made.file.operator(name, [source], [between], kind, **options)
        made.file.operator("QUANTIZE", [between], [made.new(y, last, coded=True)])
    else:
        result = made.new(y, last, coded=coded)
        made.file.operator(name, [source], [result], kind, **options)


def _normalize(made: Converter, node: Node) -> None:
    """Layer normalisation of reals in the operators that LiteRT has."""
    x, result = made.get(node.inputs[0], False, coded=False), node.outputs[0]
    shape = made.stored(node.inputs[0], False)
    axis, rows = made.file.constant([len(shape) - 1]), [*shape[:-1], 1]

    def step(
        name: str, inputs: Sequence[int], dims: Sequence[int], kind: str = "", **more: Any
    ) -> int:
        made_here = made.scratch(dims, None)
        made.file.operator(name, inputs, [made_here], kind, **more)
        return made_here

    mean = step("MEAN", [x, axis], rows, "ReducerOptions", keepDims=True)
    centred = step("SUB", [x, mean], shape, "SubOptions")
    squares = step("MUL", [centred, centred], shape, "MulOptions")
    variance = step("MEAN", [squares, axis], rows, "ReducerOptions", keepDims=True)
    epsilon = made.file.constant(node.attributes.get("epsilon", 1e-5), "float32")
    factor = step("RSQRT", [step("ADD", [variance, epsilon], rows, "AddOptions")], rows)
    normal = step("MUL", [centred, factor], shape, "MulOptions")
    scale, offset = (made.get(name, False, coded=False) for name in node.inputs[1:3])
    scaled = step("MUL", [normal, scale], shape, "MulOptions")
    y = made.new(result, False, coded=False)
    made.file.operator("ADD", [scaled, offset], [y], "AddOptions")


def _concat(made: Converter, node: Node) -> None:
    coded = made.in_codes(node)
    y = node.outputs[0]
    values = [name for name in node.inputs if not made.is_constant(name)]
    last = any(made.layout[name] for name in values)
    inputs: list[int] = []
    for name in node.inputs:
        x = made.get(name, last, coded=coded)
        if (coded and made.is_constant(name)) or (
            coded and made.graph.codes[name] != made.graph.codes[y]
        ):
            between = made.scratch(made.stored(name, last), made.graph.codes[y])
            made.file.operator("QUANTIZE", [x], [between])
            x = between
        inputs.append(x)
    result = made.new(y, last, coded=coded)
    axis = made.axis(y, node.attributes["axis"])
    made.file.operator("CONCATENATION", inputs, [result], "ConcatenationOptions", axis=axis)


def _split(made: Converter, node: Node) -> None:
    coded = _moves_codes(made, node)
    name = node.inputs[0]
    last = made.layout[name]
    x = made.get(name, last, coded=coded)
    results = [made.new(each, last, coded=coded) for each in node.outputs]
    along: int = node.attributes["axis"]
    sizes = [made.graph.shapes[each][along] for each in node.outputs]
    axis = made.file.constant(made.axis(name, along))
    count = len(results)
    inputs = [x, made.file.constant(sizes), axis]
    made.file.operator("SPLIT_V", inputs, results, "SplitVOptions", numSplits=count)


def _slice(made: Converter, node: Node) -> None:
    coded = _moves_codes(made, node)
    name, y = node.inputs[0], node.outputs[0]
    starts, _, axes = (made.graph.constants[each] for each in node.inputs[1:4])
    first = [0] * len(made.graph.shapes[name])
    for start, axis in zip(starts, axes):
        first[axis] = int(start)
    x = made.get(name, False, coded=coded)
    inputs = [x, made.file.constant(first), made.file.constant(made.graph.shapes[y])]
    made.file.operator("SLICE", inputs, [made.new(y, False, coded=coded)], "SliceOptions")


def _reshape(made: Converter, node: Node) -> None:
    """Groups of channels are made with channels last; other shapes need them first."""
    coded = _moves_codes(made, node)
    name, y = node.inputs[0], node.outputs[0]
    before, after = made.graph.shapes[name], made.graph.shapes[y]
    last = made.layout[name]
    keep = last and {len(before), len(after)} == {4, 5} and before[-2:] == after[-2:]
    pixel = last and before[-2:] == (1, 1)
    x = made.get(name, last and (keep or pixel), coded=coded)
    result = made.new(y, keep, coded=coded)
    shape = made.file.constant(made.stored(y, keep))
    made.file.operator("RESHAPE", [x, shape], [result], "ReshapeOptions")


def _transpose(made: Converter, node: Node) -> None:
    coded = _moves_codes(made, node)
    name, y = node.inputs[0], node.outputs[0]
    order = list(node.attributes["perm"])
    rank = len(order)
    last = made.layout[name] and order[-2:] == [rank - 2, rank - 1] and order[0] == 0
    if last:
        order = [0, 1, 2, *(axis + 2 for axis in order[1:-2])]
    x = made.get(name, last, coded=coded)
    result = made.new(y, last, coded=coded)
    inputs = [x, made.file.constant(order)]
    made.file.operator("TRANSPOSE", inputs, [result], "TransposeOptions")


_EMIT: Final[dict[str, Callable[[Converter, Node], None]]] = {
    "Conv": _conv,
    "ConvTranspose": _deconv,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "GlobalAveragePool": _mean,
    "Resize": _resize,
    "MatMul": _product,
    "Gemm": _linear,
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_UNARY, _unary),
    "LayerNormalization": _normalize,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Reshape": _reshape,
    "Transpose": _transpose,
}
