"""Channels of blocked tensors: concatenated, split, sliced, shuffled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Graph, Op, TensorType
from nnefc.lower import lower
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.examples import examples
from tests.helpers.kernels.blocked_op import BlockedGraph, halo
from tests.helpers.kernels.one_op import normal

SETTINGS = examples(0.25)


@SETTINGS
@given(st.data())
def test_concatenated_channels_match_numpy(data: st.DataObject) -> None:
    spatial = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    batch = data.draw(st.integers(1, 2))
    channels = data.draw(st.lists(st.integers(1, 21), min_size=1, max_size=4))
    g = BlockedGraph(8)
    xs = [normal(i, batch, c, *spatial) for i, c in enumerate(channels)]
    around = st.integers(0, 1)
    rank = len(spatial) + 2
    values = [g.input(x, halo(rank, data.draw(around))) for x in xs]
    shape = (batch, sum(channels), *spatial)
    (y,) = g.op("concat", values, shape, halo_=halo(rank, data.draw(around)), axis=1)
    (got,) = g.run(y, threads=data.draw(st.integers(1, 2)))
    np.testing.assert_array_equal(got, np.concatenate(xs, 1))


@SETTINGS
@given(st.data())
def test_split_and_slice(data: st.DataObject) -> None:
    ratios = tuple(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)))
    unit = data.draw(st.sampled_from([1, 5, 8]))
    x = normal(1, data.draw(st.integers(1, 2)), unit * sum(ratios), 3, 4)
    around = [halo(4, data.draw(st.integers(0, 1))) for _ in range(3)]
    g = BlockedGraph(8)
    source = g.input(x, around[0])
    shapes = [(x.shape[0], unit * r, 3, 4) for r in ratios]
    parts = g.op("split", [source], *shapes, halo_=around[1], axis=1, ratios=ratios)
    begin = data.draw(st.integers(0, x.shape[1] - 1))
    step = data.draw(st.integers(1, 3))
    want = x[:, begin::step]
    (taken,) = g.op(
        "slice", [source], want.shape, halo_=around[2],
        axes=(1,), begin=(begin,), end=(x.shape[1],), stride=(step,),
    )  # fmt: skip
    *chunks, got = g.run(*parts, taken)
    np.testing.assert_array_equal(got, want)
    for chunk, want in zip(chunks, np.split(x, np.cumsum(ratios)[:-1] * unit, 1), strict=True):
        np.testing.assert_array_equal(chunk, want)


@pytest.mark.parametrize("begin", [0, 1])
def test_one_channel_by_a_long_stride(begin: int) -> None:
    """The channel behind it is no padding."""
    x = normal(1, 1, 2, 3, 4)
    g = BlockedGraph(8)
    source = g.input(x, halo(4, 0))
    ranges = {"axes": (1,), "begin": (begin,), "end": (2,), "stride": (2,)}
    (y,) = g.op("slice", [source], (1, 1, 3, 4), halo_=halo(4, 0), **ranges)
    (got,) = g.run(y)
    np.testing.assert_array_equal(got, x[:, begin::2])


@pytest.mark.parametrize("block", [4, 8, 16])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("order", ["groups", "two", "any"])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.UINT8], ids=str)
def test_shuffled_channels_match_numpy(dtype: DType, block: int, threads: int, order: str) -> None:
    xs = [(99 * normal(i, 2, 58, 14, 14)).astype(np.int32).astype(dtype.numpy) for i in (1, 2)]
    if order == "any":
        source = np.random.default_rng(3).permutation(116)
    else:
        # the first channels of all groups, then the second ones
        source = np.arange(116).reshape(-1, 58 if order == "two" else 29).T.ravel()
    g = BlockedGraph(block)
    values = [g.input(x, halo(4, i)) for i, x in enumerate(xs)]
    type_ = TensorType(dtype, (2, 116, 14, 14), g.blocked(4, itemsize=dtype.itemsize))
    attributes = {"source": tuple(source.tolist())}
    y = g.graph.insert(Op("shuffle_channels", values, attributes, [type_])).output
    (got,) = g.run(y, threads=threads)
    np.testing.assert_array_equal(got, np.concatenate(xs, 1)[:, source])


def test_whole_blocks_are_copied_or_views() -> None:
    g = BlockedGraph(8)
    x = g.input(normal(1, 1, 32, 5, 5))
    parts = g.op("split", [x], (1, 16, 5, 5), (1, 16, 5, 5), axis=1, ratios=(1, 1))
    back = g.op("concat", parts[::-1], (1, 32, 5, 5), axis=1)
    g.graph.add_output(back[0], "y")
    names = [launch.kernel.family for launch in lower(g.graph).launches]
    assert names == ["movement.layout.block", "movement.strided.copy", "movement.strided.copy"]


def test_results_computed_in_place_are_not_copied() -> None:
    xs = [normal(i, 1, c, 5, 5) for i, c in enumerate((16, 24, 5))]
    g = BlockedGraph(8)
    around = halo(4, 1)
    parts = [
        g.op(
            "max_pool", [g.input(x)], x.shape, halo_=around, border="ignore", size=(1,) * 4,
            stride=(1,) * 4, dilation=(1,) * 4, padding=((0, 0),) * 4,
        )[0]
        for x in xs
    ]  # fmt: skip
    (y,) = g.op("concat", parts, (1, 45, 5, 5), halo_=around, axis=1)
    names = [launch.kernel.family for launch in lower(g.graph).launches]
    assert not any(name.startswith(("movement.channels", "movement.strided")) for name in names)
    (got,) = g.run(y)
    np.testing.assert_array_equal(got, np.concatenate(xs, 1))


def test_shuffle_of_row_major_tensors() -> None:
    xs = [normal(1, 2, 5, 3, 70), normal(2, 2, 4, 3, 70)]
    source = (8, 0, 3, 3, 5, 1)
    graph = Graph("test")
    values = [
        graph.add_input(TensorType(DType.FLOAT32, x.shape), f"x{i}") for i, x in enumerate(xs)
    ]
    type_ = TensorType(DType.FLOAT32, (2, 6, 3, 70))
    y = graph.insert(Op("shuffle_channels", values, {"source": source}, [type_])).output
    graph.add_output(y, "y")
    got = CompiledModel.of(lower(graph), graph, threads=1)(*xs)
    np.testing.assert_array_equal(got, np.concatenate(xs, 1)[:, source])
