"""Models that interpreters of TensorFlow Lite run: small ones with signatures, codes and states."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.helpers.tflite.one_operator import Case, Constant, Variable, content_of
from tests.helpers.tflite.write import model, operator, operator_code, subgraph, tensor, write

W = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
CODES = np.random.default_rng(1).integers(-127, 128, (4, 6)).astype(np.int8)


def random(*shape: int, seed: int = 2) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def dense(*, batch: int = -1) -> bytes:
    """y = |x| W', and its negative; signatures of two subgraphs.

    `batch`: as the shape signature has it.
    """
    tensors = [
        tensor((1, 6), "FLOAT32", "x", shape_signature=(batch, 6)),
        tensor((4, 6), "FLOAT32", "w", buffer=1),
        tensor((1, 6), "FLOAT32", "magnitude"),
        tensor((1, 4), "FLOAT32", "y"),
        tensor((1, 4), "FLOAT32", "n"),
    ]
    main = subgraph(
        tensors,
        [
            operator(1, (0,), (2,), "AbsOptions"),
            operator(0, (2, 1, -1), (3,), "FullyConnectedOptions"),
            operator(2, (3,), (4,), "NegOptions"),
        ],
        (0,),
        (3, 4),
    )
    pair = [tensor((3,), "FLOAT32", "p"), tensor((3,), "FLOAT32", "q")]
    other = subgraph(pair, [operator(2, (0,), (1,), "NegOptions")], (0,), (1,), "other")

    def signature(key: str, index: int, inputs: list[Any], outputs: list[Any]) -> dict[str, Any]:
        def maps(each: list[Any]) -> tuple[Any, ...]:
            return tuple({"name": name, "tensor_index": number} for name, number in each)

        return {
            "inputs": maps(inputs),
            "outputs": maps(outputs),
            "signature_key": key,
            "subgraph_index": index,
        }

    names = [
        signature("serve", 0, [("image", 0)], [("scores", 3), ("costs", 4)]),
        signature("negate", 1, [("v", 0)], [("minus", 1)]),
    ]
    codes = [operator_code(each) for each in ("FULLY_CONNECTED", "ABS", "NEG")]
    made = model(codes, [main, other], [W.tobytes()], signature_defs=tuple(names))
    return write(made)


def quantized() -> bytes:
    """A product of int8 codes whose weights have a scale for each row."""
    rows = {"scale": (0.01, 0.02, 0.03, 0.04), "zero_point": (0,) * 4, "quantized_dimension": 0}
    case = Case(
        "FULLY_CONNECTED",
        [np.zeros((2, 6), np.int8), Constant(CODES), None],
        [((2, 4), "INT8")],
        "FullyConnectedOptions",
        version=4,
        codes={
            0: {"scale": (0.5,), "zero_point": (3,)},
            1: rows,
            2: {"scale": (1.5,), "zero_point": (-7,)},
        },
    )
    return content_of(case)


def recurrent() -> bytes:
    given = [random(2, 3), Constant(random(8, 3)), Constant(random(8, 5)), None, Variable((2, 40))]
    options = {"rank": 2, "fused_activation_function": 1}
    return content_of(Case("SVDF", given, [((2, 4), "FLOAT32")], "SVDFOptions", options))


def in_blocks() -> bytes:
    """Weights of 4 bits with a scale, and one of them with a zero point, for each block."""

    def blocks(zeros: int) -> dict[str, Any]:
        table = {"scales": 4, "zero_points": zeros, "block_size": 32}
        return {"details": ("BlockwiseQuantization", table), "quantized_dimension": 1}

    tensors = [
        tensor((1, 64), "FLOAT32", "x"),
        tensor((4, 64), "INT4", "v", 1, quantization=blocks(-1)),
        tensor((4, 64), "INT4", "w", 1, quantization=blocks(5)),
        tensor((1, 4), "FLOAT32", "y"),
        tensor((4, 2), "FLOAT16", "scales", 2),
        tensor((4, 2), "INT32", "zeros", 3),
    ]
    node = operator(0, (0, 2, -1), (3,), "FullyConnectedOptions")
    items = [bytes(128), (np.arange(8) / 8).astype(np.float16).tobytes()]
    graph = subgraph(tensors, [node], (0,), (3,))
    codes = [operator_code("FULLY_CONNECTED", 14)]
    return write(model(codes, [graph], [*items, np.arange(8, dtype=np.int32).tobytes()]))
