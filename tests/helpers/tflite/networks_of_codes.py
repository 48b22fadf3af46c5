"""Small networks of codes."""

from __future__ import annotations

import numpy as np

from tests.helpers.tflite.operators_on_codes import scaled
from tests.helpers.tflite.write import model, operator, operator_code, subgraph, tensor, write


def several() -> bytes:
    """Weights that two layers share, two results of an operator, and reals among codes."""
    rng = np.random.default_rng(5)
    weights = rng.integers(-127, 128, (8, 10)).astype(np.int8)
    bias = rng.integers(-(2**31), 2**31, 8).astype(np.int32)
    like_y = scaled(20000.0, zero=-3)
    tensors = [
        tensor((3, 10), "INT8", "x", quantization=scaled(0.03, zero=4)),
        tensor((8, 10), "INT8", "w", 1, quantization=scaled(0.01)),
        tensor((8,), "INT32", "b", 2, quantization=scaled(0.0003)),
        tensor((3, 8), "INT8", "y", quantization=like_y),
        tensor((3, 8), "INT8", "z", quantization=scaled(0.09, zero=5)),
        tensor((), "INT32", "axis", 3),
        tensor((3, 4), "INT8", "left", quantization=like_y),
        tensor((3, 4), "INT8", "right", quantization=like_y),
        tensor((3, 8), "FLOAT32", "reals"),
        tensor((3, 8), "FLOAT32", "doubled"),
        tensor((3, 8), "INT8", "again", quantization=scaled(0.05, zero=-20)),
        tensor((3, 4), "INT8", "sum", quantization=scaled(30000.0, zero=1)),
        tensor((3, 8), "INT8", "product", quantization=scaled(1e5)),
    ]
    names = ("FULLY_CONNECTED", "SPLIT", "DEQUANTIZE", "ADD", "QUANTIZE", "MUL")
    versions = (4, 2, 2, 2, 1, 2)
    operators = [
        operator(0, (0, 1, 2), (3,), "FullyConnectedOptions"),
        operator(0, (0, 1, -1), (4,), "FullyConnectedOptions"),
        operator(1, (5, 3), (6, 7), "SplitOptions", num_splits=2),
        operator(2, (4,), (8,), "DequantizeOptions"),
        operator(3, (8, 8), (9,), "AddOptions"),
        operator(4, (9,), (10,), "QuantizeOptions"),
        operator(3, (6, 7), (11,), "AddOptions"),
        operator(5, (10, 3), (12,), "MulOptions"),
    ]
    graph = subgraph(tensors, operators, (0,), (4, 11, 12, 9))
    buffers = [weights.tobytes(), bias.tobytes(), np.array(1, np.int32).tobytes()]
    each = zip(names, versions, strict=True)
    return write(model([operator_code(*code) for code in each], [graph], buffers))


def requantized() -> bytes:
    """An input, and what is computed of it, that are only rounded to other codes."""
    scales = (0.03, 0.07, 0.04, 0.004, 0.02)
    tensors = [
        tensor((3, 10), "INT8", f"t{i}", quantization=scaled(each, zero=i))
        for i, each in enumerate(scales)
    ]
    operators = [
        operator(0, (0,), (1,), "QuantizeOptions"),
        operator(0, (1,), (2,), "QuantizeOptions"),
        operator(1, (2,), (3,)),
        operator(0, (3,), (4,), "QuantizeOptions"),
    ]
    codes = [operator_code("QUANTIZE"), operator_code("RELU")]
    return write(model(codes, [subgraph(tensors, operators, (0,), (4,))]))


def codes_of_16_bits() -> bytes:
    """A convolution with biases of 64 bits, a sum with a constant, and a table."""
    rng = np.random.default_rng(6)
    scales = (0.004, 0.007, 0.011, 0.003, 0.02)
    weights = rng.integers(-127, 128, (5, 3, 2, 4)).astype(np.int8)
    bias = rng.integers(-30000, 30000, 5)
    addend = rng.integers(-32768, 32768, (1, 9, 8, 5)).astype(np.int16)
    tensors = [
        tensor((1, 9, 8, 4), "INT16", "x", quantization=scaled(0.0003)),
        tensor(weights.shape, "INT8", "w", 1, quantization=scaled(*scales)),
        tensor((5,), "INT64", "b", 2, quantization=scaled(*(0.0003 * each for each in scales))),
        tensor((1, 9, 8, 5), "INT16", "y", quantization=scaled(0.0005)),
        tensor((1, 9, 8, 5), "INT16", "addend", 3, quantization=scaled(0.0002)),
        tensor((1, 9, 8, 5), "INT16", "sum", quantization=scaled(0.0005)),
        tensor((1, 9, 8, 5), "INT16", "table", quantization=scaled(1 / 32768)),
    ]
    operators = [
        operator(0, (0, 1, 2), (3,), "Conv2DOptions", stride_w=1, stride_h=1),
        operator(1, (3, 4), (5,), "AddOptions"),
        operator(2, (5,), (6,)),
    ]
    names = [operator_code("CONV_2D", 4), operator_code("ADD", 3), operator_code("LOGISTIC", 3)]
    buffers = [weights.tobytes(), bias.tobytes(), addend.tobytes()]
    return write(model(names, [subgraph(tensors, operators, (0,), (5, 6))], buffers))
