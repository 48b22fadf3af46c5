"""ONNX files of matrix products in a row."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

NAME: Final = "model.onnx"
PRODUCTS: Final = 100


def write_products(
    folder: Path, megabytes: int, data: str | None, batch: int | str, products: int = PRODUCTS
) -> Path:
    """Write the model unless it exists; returns its path.

    `megabytes`: of the weights; `data`: the name of their file, None: the model's own.
    """
    path = folder / NAME
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    width = round((megabytes * 1e6 / (products * 4)) ** 0.5)
    random = np.random.default_rng(0)
    weights = {
        f"w{i}": random.standard_normal((width, width)).astype(np.float32) / np.float32(width**0.5)
        for i in range(products)
    }
    nodes = [
        helper.make_node("MatMul", [f"x{i}", name], [f"x{i + 1}"]) for i, name in enumerate(weights)
    ]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [batch, width])
        for name in ("x0", f"x{products}")
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "products", ends[:1], ends[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=data is not None, location=data)
    return path
