"""Softmax, normalisation and attention of reals have the same bits for all instruction sets.

Quantized networks keep them between products of codes, so that a difference would become one of
codes.  Rows without fused multiply-adds round more often; they are left out.
"""

from __future__ import annotations

from functools import cache

import pytest

from nnefc.kernels.target.isa import TABLE, executable
from tests.helpers.artifacts.saved import python

PROGRAM = """
from hashlib import md5
import numpy as np
from onnx import TensorProto, helper
from nnefc.driver.compile import compile_graph
from nnefc.options.compile_config import CompileConfig
from tests.helpers.onnx.evaluate import graph_for

def digest(nodes, threads, **arrays):
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape)
             for n, x in arrays.items()]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node(*each[:3], **each[3]) for each in nodes],
                              "g", ports, [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    inputs = list(arrays.values())
    result = compile_graph(graph_for(model, inputs), CompileConfig(threads))(*inputs)
    print(md5(np.asarray(result).tobytes()).hexdigest())

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
    nodes = [("MatMul", ["q", "k"], ["s"], {}), ("Softmax", ["s"], ["p"], last),
             ("MatMul", ["p", "v"], ["y"], {})]
    digest(nodes, threads, q=items(3, 50, 32), k=items(3, 32, 70), v=items(3, 70, 32))
"""


@cache
def digests(row: str) -> list[str]:
    return python(PROGRAM, NNEFC_ISA=row).split()


HOST, *OTHERS = [isa.name for isa in executable() if isa.fma]


@pytest.mark.slow
@pytest.mark.parametrize("row", OTHERS)
def test_other_rows_compute_the_same_bits(row: str) -> None:
    assert TABLE[row].fma
    found = digests(row)
    assert found == digests(HOST)
    assert len(found) == 14 and len(set(found)) == 14
