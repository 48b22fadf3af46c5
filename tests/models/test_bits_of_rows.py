"""Softmax, normalisation and attention of reals have the same bits for all instruction sets.

Quantized networks keep them between products of codes, so that a difference would become one of
codes.  Rows without fused multiply-adds compute them in float64 for graphs with codes.
"""

from __future__ import annotations

from functools import cache

import pytest

from nnefc.kernels.target.isa import executable
from tests.helpers.artifacts.saved import python

PROGRAM = """
from hashlib import md5
import numpy as np
from onnx import TensorProto, helper, numpy_helper
from nnefc.driver.compile import compile_graph
from nnefc.options.compile_config import CompileConfig
from tests.helpers.onnx.evaluate import graph_for

def digest(nodes, threads, **arrays):
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape)
             for n, x in arrays.items()]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
               helper.make_tensor_value_info("c", TensorProto.INT32, None)]
    weights = numpy_helper.from_array(np.ones((arrays["x"].shape[-1], 4), np.int8), "weights")
    nodes = [*nodes, ("QuantizeLinear", ["x", "one"], ["codes"], {}),
             ("MatMulInteger", ["codes", "weights"], ["c"], {})]
    graph = helper.make_graph([helper.make_node(*each[:3], **each[3]) for each in nodes],
                              "g", ports, results, [ONE, weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    inputs = list(arrays.values())
    result, _ = compile_graph(graph_for(model, inputs), CompileConfig(threads))(*inputs)
    print(md5(np.asarray(result).tobytes()).hexdigest())

ONE = numpy_helper.from_array(np.float32(1), "one")

random = np.random.default_rng(3)
def items(*shape):
    return random.normal(0, 3, shape).astype(np.float32)

last = {"axis": -1}
for threads in (1, 2):
    for width in (7, 128, 197):
        digest([("Softmax", ["x"], ["y"], last)], threads, x=items(40, width))
    for width in (21, 384, 1000):
        digest([("LayerNormalization", ["x", "w", "b"], ["y"], last)], threads,
               x=items(30, width), w=items(width), b=items(width))
    nodes = [("MatMul", ["x", "k"], ["s"], {}), ("Softmax", ["s"], ["p"], last),
             ("MatMul", ["p", "v"], ["y"], {})]
    digest(nodes, threads, x=items(3, 50, 32), k=items(3, 32, 70), v=items(3, 70, 32))
    whole = [np.rint(items(*shape)) for shape in ((70, 20), (20, 90), (90, 37))]
    digest(nodes, threads, **dict(zip("xkv", whole)))
    tiny = [whole[0] * 2.0**-70, whole[1] * 2.0**69, items(90, 37) * np.float32(2.0**-124)]
    digest(nodes, threads, **dict(zip("xkv", tiny)))
    digest(nodes, threads, x=items(9, 32), k=items(32, 1024), v=items(1024, 8))
    for name in ("Erf", "Exp", "Log", "Sigmoid", "Sin", "Softplus", "Tanh"):
        digest([(name, ["x"], ["y"], {})], threads, x=items(50, 50))
"""


@cache
def digests(row: str) -> list[str]:
    return python(PROGRAM, NNEFC_ISA=row).split()


HOST, *OTHERS = [isa.name for isa in executable()]


@pytest.mark.slow
@pytest.mark.parametrize("row", OTHERS)
def test_other_rows_compute_the_same_bits(row: str) -> None:
    found = digests(row)
    assert found == digests(HOST)
    assert len(found) == 34 and len(set(found)) == 34
