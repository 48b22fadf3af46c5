"""ONNX files of networks of the zoo, quantized with `onnxruntime.quantization`.

Weights are int8 with a scale per channel, activations uint8 with the range of three inputs.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
# (onnx and onnxruntime are not typed)

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from benchmarks.artifacts import ONNX, Network, require

Array = np.ndarray[Any, Any]

SAMPLES: Final = 3
"""Inputs that are observed to choose the ranges of activations."""


class Method(StrEnum):
    """What is quantized."""

    STATIC = "static"
    """All operations that onnxruntime can quantize, between QuantizeLinear and DequantizeLinear.

    The exception is a softmax at the end: most of its thousand results would be the same code.
    """
    PRODUCTS = "products"
    """Convolutions and products of matrices, with ranges that are known as in `static`."""
    DYNAMIC = "dynamic"
    """Products of matrices; each run finds the ranges of their left operands."""


def quantized(network: Network, method: Method) -> Network:
    """The network with codes; the file is written unless it exists."""
    folder = network.folder / method
    path = folder / ONNX
    if not path.exists():
        folder.mkdir(exist_ok=True)
        with TemporaryDirectory(dir=network.folder) as temporary:
            plain, made = Path(temporary, "plain.onnx"), Path(temporary, ONNX)
            _write_plain(require(network, ONNX), plain)
            _quantize(network, plain, made, method)
            made.replace(path)
    title = f"{network.title}, {method}"
    return dataclasses.replace(
        network, title=title, folder=folder, archive=path, reals=network.folder
    )


def _write_plain(source: Path, path: Path) -> None:
    """Write the file as exporters do: right matrices have rank 2, constants are folded."""
    import onnx
    import onnxruntime

    model = onnx.load(source)
    for weights in model.graph.initializer:
        users = [node for node in model.graph.node if weights.name in node.input]
        right = all(node.op_type == "MatMul" and node.input[1] == weights.name for node in users)
        if users and right and len(weights.dims) > 2 and set(weights.dims[:-2]) == {1}:
            matrix = list(weights.dims[-2:])
            del weights.dims[:]
            weights.dims.extend(matrix)
    onnx.save(model, path)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(model.SerializeToString(), options)


def _quantize(network: Network, plain: Path, path: Path, method: Method) -> None:
    from onnxruntime import quantization as tools

    if method is Method.DYNAMIC:
        tools.quantize_dynamic(plain, path)
        return

    class Samples(tools.CalibrationDataReader):
        def __init__(self) -> None:
            self._left: Iterator[dict[str, Array]] = map(network.arrays, range(2, 2 + SAMPLES))

        def get_next(self) -> Any:
            return next(self._left, None)

    tools.quantize_static(
        plain,
        path,
        Samples(),
        quant_format=tools.QuantFormat.QDQ,
        per_channel=True,
        activation_type=tools.QuantType.QUInt8,
        weight_type=tools.QuantType.QInt8,
        op_types_to_quantize=["Conv", "MatMul", "Gemm"] if method is Method.PRODUCTS else None,
        nodes_to_exclude=_last_softmax(plain),
    )


def _last_softmax(path: Path) -> list[str]:
    """Names of softmax nodes whose result is one of the network."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    results = {each.name for each in graph.output}
    return [n.name for n in graph.node if n.op_type == "Softmax" and n.output[0] in results]
