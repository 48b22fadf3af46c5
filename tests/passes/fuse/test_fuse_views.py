"""Slices, element-wise operations and a concatenation become one launch; against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Graph, TensorType, Value
from nnefc.lower import lower
from nnefc.ops.internal.fused_views import NAME
from nnefc.ops.tools.build import build
from nnefc.passes.pipeline import run_pipeline, verify_hook
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.examples import examples
from tests.helpers.kernels.one_op import guarded, normal

Array = np.ndarray[Any, Any]


def emit(graph: Graph, name: str, *inputs: Value, **attributes: Any) -> Value:
    return build(graph, name, inputs, attributes).output


def cut(graph: Graph, x: Value, parts: int) -> list[Value]:
    """Equal slices along the last dimension."""
    axis = x.type.rank - 1
    size = x.type.dims[axis] // parts
    return [
        emit(graph, "slice", x, axes=(axis,), begin=(i * size,), end=((i + 1) * size,))
        for i in range(parts)
    ]


def run(graph: Graph, *arrays: Array, threads: int) -> Array:
    """Compile a graph, assert that one operation is left, and run it."""
    run_pipeline(graph, hook=verify_hook)
    assert [op.name for op in graph.ops] == [NAME]
    model = CompiledModel.of(lower(graph), graph, threads=threads)
    inputs = [guarded(x.shape, x.dtype) for x in arrays]
    for mine, x in zip(inputs, arrays, strict=True):
        mine[...] = x
    (spec,) = model.outputs
    out = guarded(spec.shape, spec.dtype)
    model(*inputs, out=out)
    return out.copy()


@st.composite
def rotations(draw: st.DrawFn) -> tuple[list[int], list[int], bool, bool]:
    """Extents [batch, heads, tokens, items]; those of cosines; whether heads are turned, halves
    are joined at the end.
    """
    extent = st.integers(1, 40)
    shape = [draw(st.integers(1, 3)), draw(st.integers(1, 5)), draw(extent), 2 * draw(extent) + 2]
    angles = [*(draw(st.sampled_from([1, n])) for n in shape[:3]), shape[3]]
    return shape, angles, draw(st.booleans()), draw(st.booleans())


@given(rotations(), st.integers(1, 2))
@examples(0.5)
def test_rotary_positions_are_one_operation(
    case: tuple[list[int], list[int], bool, bool], threads: int
) -> None:
    (b, h, n, d), angles, turned, late = case
    x = normal(1, b, n, h * d) if turned else normal(1, b, h, n, d)
    cosine, sine = normal(2, *angles), normal(3, *angles)
    graph = Graph("g")
    value, c, s = (
        graph.add_input(TensorType(DType.FLOAT32, array.shape), name)
        for name, array in zip("xcs", (x, cosine, sine), strict=True)
    )
    whole = x.astype(np.float64)
    if turned:
        value = emit(graph, "reshape", value, shape=(b, n, h, d))
        value = emit(graph, "transpose", value, axes=(0, 2, 1, 3))
        whole = whole.reshape(b, n, h, d).transpose(0, 2, 1, 3)
    first, second = cut(graph, value, 2)
    if late:
        cs, ss = cut(graph, c, 2), cut(graph, s, 2)
        low = emit(graph, "mul", first, cs[0]), emit(graph, "mul", second, ss[0])
        high = emit(graph, "mul", second, cs[1]), emit(graph, "mul", first, ss[1])
        y = emit(graph, "concat", emit(graph, "sub", *low), emit(graph, "add", *high), axis=3)
    else:
        other = emit(graph, "concat", emit(graph, "neg", second), first, axis=3)
        y = emit(graph, "add", emit(graph, "mul", value, c), emit(graph, "mul", other, s))
    graph.add_output(y, "y")
    got = run(graph, x, cosine, sine, threads=threads)
    rotated = np.concatenate([-whole[..., d // 2 :], whole[..., : d // 2]], -1)
    np.testing.assert_allclose(got, whole * cosine + rotated * sine, rtol=1e-5, atol=1e-5)


@given(st.integers(2, 4), st.integers(2, 20), st.permutations(range(4)), st.booleans())
@examples(0.3)
def test_reordered_slices_are_one_operation(
    count: int, size: int, order: list[int], compare: bool
) -> None:
    """Some slices are changed first; an operation on the whole result may change the item type."""
    order = [i for i in order if i < count]
    x = normal(1, 3, 2, count * size)
    graph = Graph("g")
    value = graph.add_input(TensorType(DType.FLOAT32, x.shape), "x")
    parts, want_parts = cut(graph, value, count), np.split(x, count, 2)
    moved = [parts[i] if i % 2 else emit(graph, "abs", parts[i]) for i in order]
    y = emit(graph, "concat", *moved, axis=2)
    want = np.concatenate([want_parts[i] if i % 2 else abs(want_parts[i]) for i in order], 2)
    if compare:
        y, want = emit(graph, "gt", y, value), want > x
    graph.add_output(y, "y")
    assert np.array_equal(run(graph, x, threads=1), want)
