"""Changes of layout: every item is moved to its position, and halos are not written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import Blocked, DType, Graph, TensorType
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower import lower
from tests.helpers.examples import examples
from tests.helpers.kernels.blocked_op import BlockedGraph, constant, halo, layout
from tests.helpers.kernels.one_op import normal

SETTINGS = examples(0.4)
BLOCKS = (4, 8, 16)


@SETTINGS
@given(st.data())
def test_items_survive_changes_of_layout_and_halo(data: st.DataObject) -> None:
    block = data.draw(st.sampled_from((1, *BLOCKS)))
    spatial = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    x = normal(1, data.draw(st.integers(1, 2)), data.draw(st.integers(1, 35)), *spatial)
    edge = st.tuples(st.integers(0, 2), st.integers(0, 2))
    halos = [tuple(data.draw(edge) for _ in spatial) for _ in range(3)]
    g = BlockedGraph(block)
    y = g.input(x, halos[0])
    for again in halos[1:]:
        y = layout(g.graph, y, g.blocked(x.ndim, again))
    (got,) = g.run(y, at_end=data.draw(st.booleans()))
    np.testing.assert_array_equal(got, x)


@SETTINGS
@given(st.data())
def test_codes_have_a_halo_of_their_zero_point(data: st.DataObject) -> None:
    dtype, fills = data.draw(st.sampled_from([(np.uint8, (0, 1, 255)), (np.int8, (-128, -1, 7))]))
    spatial = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    shape = (data.draw(st.integers(1, 2)), data.draw(st.integers(1, 35)), *spatial)
    x = np.random.default_rng(1).integers(0, 256, shape).astype(dtype)
    g = BlockedGraph(data.draw(st.sampled_from(BLOCKS)))
    y = constant(g.graph, x) if data.draw(st.booleans()) else g.input(x, halo(x.ndim))
    edge, fill = st.tuples(st.integers(0, 2), st.integers(0, 2)), st.sampled_from(fills)
    for _ in range(2):
        around = tuple(data.draw(edge) for _ in spatial)
        y = layout(g.graph, y, g.blocked(x.ndim, around, 1, data.draw(fill)))
    (got,) = g.run(y, at_end=data.draw(st.booleans()))
    np.testing.assert_array_equal(got, x)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("block", BLOCKS)
def test_items_of_large_maps_survive_with_threads(block: int, threads: int) -> None:
    x = normal(1, 2, 37, 61, 67)
    g = BlockedGraph(block)
    (got,) = g.run(g.input(x, halo(4, 1)), threads=threads)
    np.testing.assert_array_equal(got, x)


def test_from_blocks_to_other_blocks() -> None:
    x = normal(1, 2, 21, 5, 6)
    g = BlockedGraph(4)
    for block in (16, 1, 8, 4):
        y = layout(g.graph, g.input(x, halo(4, 1)), Blocked(block, halo(4, 2, 1)))
        (got,) = g.run(y)
        np.testing.assert_array_equal(got, x)
        g = BlockedGraph(block)


def test_coinciding_layouts_are_views() -> None:
    lanes = lanes_of("float32")
    for shape, block, views in [
        ((2, 2 * lanes, 1, 1), lanes, True),
        ((2, 2 * lanes + 1, 1, 1), lanes, False),
        ((2, 2 * lanes, 2, 1), lanes, False),
        ((2, 5, 7, 7), 1, True),
    ]:
        graph = Graph("test")
        value = graph.add_input(TensorType(DType.FLOAT32, shape), "x")
        blocked = layout(graph, value, Blocked(block, halo(4)))
        graph.add_output(layout(graph, blocked, None), "y")
        launches = lower(graph).launches
        # an input that is also an output is copied
        assert (len(launches) == 1) == views, shape


@pytest.mark.parametrize("block", [1, 8])
def test_known_data_is_arranged_when_lowering(block: int) -> None:
    x = normal(1, 2, 11, 3, 4)
    g = BlockedGraph(block)
    known = layout(g.graph, constant(g.graph, x), g.blocked(4, ((1, 0), (2, 1))))
    names = [launch.kernel.family for launch in lower(g.graph).launches]
    assert not names
    (got,) = g.run(known)
    np.testing.assert_array_equal(got, x)
