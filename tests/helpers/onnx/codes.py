"""ONNX models between `DequantizeLinear` and `QuantizeLinear`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from nnefc.program.program import Program

Array = np.ndarray[Any, Any]


def model_of_codes(
    nodes: Sequence[NodeProto],
    names: Sequence[str],
    x: Array,
    zero: int,
    constants: Mapping[str, Array] | None = None,
) -> ModelProto:
    """x -> dequantize -> r -> nodes; `names`, their results, are quantized as x, to NAME_y.

    The parameters are s and z.
    """
    make = helper.make_node
    codes = helper.np_dtype_to_tensor_dtype(x.dtype)
    ends = [make("QuantizeLinear", [name, "s", "z"], [f"{name}_y"]) for name in names]
    every = [make("DequantizeLinear", ["x", "s", "z"], ["r"]), *nodes, *ends]
    known = {**(constants or {}), "s": np.array(0.037, "f4"), "z": np.array(zero, x.dtype)}
    graph = helper.make_graph(
        every,
        "g",
        [helper.make_tensor_value_info("x", codes, x.shape)],
        [helper.make_tensor_value_info(f"{name}_y", codes, None) for name in names],
        [numpy_helper.from_array(items, name) for name, items in known.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


def kernels_of(program: Program) -> list[str]:
    """The kernels of a program, as calls of their families."""
    every = (kernel for launch in program.launches for kernel in launch.kernels)
    return [f"{kernel.family}{kernel.arguments}" for kernel in every]
