"""Strided views of chains of operations, against NumPy's views."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Graph, TensorType
from nnefc.ops.core.strided_rules import reshaped
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.passes.analysis.strided_views import strided_source
from tests.helpers.examples import examples


@examples(3)
@given(st.data())
def test_reshape_of_a_transpose(data: st.DataObject) -> None:
    """NumPy reshapes without a copy exactly when there are strides."""
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    order = data.draw(st.permutations(range(len(shape))))
    x = np.arange(math.prod(shape)).reshape(shape).transpose(order)
    after = data.draw(st.permutations([*x.shape, 1]))
    if data.draw(st.booleans()) and len(after) > 1:
        after = [*after[:-2], after[-2] * after[-1]]
    found = reshaped(x.shape, tuple(s // x.itemsize for s in x.strides), tuple(after))
    y = x.reshape(after)
    assert (found is not None) == (y.size == 1 or np.shares_memory(x, y))
    if found is not None:
        view = np.lib.stride_tricks.as_strided(x, after, [s * x.itemsize for s in found])
        assert np.array_equal(view, y)


@examples(2)
@given(st.data())
def test_chains_of_views(data: st.DataObject) -> None:
    """Following a chain of operations up gives the items that the reference computes."""
    graph = Graph("g")
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=4)))
    value = graph.add_input(TensorType(DType.FLOAT64, shape), "x")
    for _ in range(data.draw(st.integers(1, 5))):
        dims = value.type.dims
        axis = data.draw(st.integers(0, len(dims) - 1))
        kind = data.draw(st.sampled_from(["transpose", "split", "slice", "unsqueeze", "reshape"]))
        attributes: dict[str, object] = {"axes": (axis,)}
        if kind == "transpose":
            attributes = {"axes": tuple(data.draw(st.permutations(range(len(dims)))))}
        elif kind == "split":
            attributes = {"axis": axis, "ratios": (1,) * dims[axis]}
        elif kind == "slice":
            begin = data.draw(st.integers(0, dims[axis] - 1))
            negative = begin - dims[axis] if data.draw(st.booleans()) else begin
            attributes |= {"begin": (negative,), "end": (dims[axis],)}
            attributes |= {"stride": (data.draw(st.integers(1, 2)),)}
        elif kind == "reshape":
            attributes = {"shape": (*dims[:axis], -1)}
        elif len(dims) > 5:
            continue
        outputs = build(graph, kind, [value], attributes).outputs
        value = data.draw(st.sampled_from(outputs))
    graph.add_output(value, "y")
    x = np.arange(math.prod(shape), dtype=np.float64).reshape(shape)
    evaluation = evaluate(graph, {"x": x}, keep="all")
    found = strided_source(value)
    flat = evaluation.values[found.source].copy().reshape(-1)[found.offset :]
    strides = [s * flat.itemsize for s in found.strides]
    got = np.lib.stride_tricks.as_strided(flat, value.type.dims, strides)
    assert np.array_equal(got, evaluation.outputs["y"])
