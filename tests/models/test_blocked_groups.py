"""Groups of channels that share blocks: random cases, and groups that must not mix."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch is typed in part)

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.ir import DType, Expression, Graph, TensorType
from nnefc.ir.convolution_algorithm import Direct
from nnefc.kernels.target.isa import host
from nnefc.ops.tools.build import build
from tests.helpers.examples import examples
from tests.helpers.kernels import blocked_op
from tests.helpers.kernels.blocked_convolutions import Case, cases, compare, random, variable
from tests.helpers.kernels.blocked_op import BlockedGraph, halo


@examples(0.6)
@given(case=cases(), data=st.data())
def test_random_groups_of_half_blocks(case: Case, data: st.DataObject) -> None:
    some = min(host().float32_lanes, 8)  # vectors of 16 have half blocks
    inputs = some * data.draw(st.integers(2, 7))
    outputs = some * data.draw(st.integers(1, 7))
    groups = data.draw(st.integers(2, 4))
    case = replace(case, inputs=inputs * groups, outputs=outputs * groups, groups=groups)
    compare(case, threads=data.draw(st.integers(1, 2)), accuracy="strict")


def test_groups_in_one_block_do_not_mix() -> None:
    """An infinity in one group does not reach groups in adjacent lanes of a block."""
    x, w = random(1, 1, 72, 5, 5), random(2, 72, 24, 3, 3)
    x[0, 30] = np.inf
    graph = Graph("groups")
    value = graph.add_input(TensorType(DType.FLOAT32, x.shape), "x")
    operands = [value, variable(graph, "w", w), variable(graph, "b", random(3, 1, 72))]
    graph.add_output(build(graph, "conv", operands, {"groups": 3}).output, "y")
    y = nnefc.compile(graph, threads=1)(x)
    found = np.isfinite(y).all((0, 2, 3))
    np.testing.assert_array_equal(found, [*[True] * 24, *[False] * 24, *[True] * 24])


def test_lanes_beyond_the_last_group_are_not_read() -> None:
    """The last block of 120 channels is not full; the graph puts NaN into its padding."""
    x, w, v = random(1, 1, 120, 5, 5), random(2, 120, 24, 3, 3), random(3, 20, 120, 3, 3)
    g = BlockedGraph(host().float32_lanes)
    last = g.input(x, halo(4, 1))
    for filter_, groups in ((w, 5), (v, 1)):
        outputs = len(filter_)
        (last,) = g.op(
            "fused_conv",
            [last, *(blocked_op.constant(g.graph, a) for a in (filter_, random(4, 1, outputs)))],
            (1, outputs, 5, 5),
            halo_=halo(4, 1),
            border="constant",
            padding=((1, 1), (1, 1)),
            stride=(1, 1),
            dilation=(1, 1),
            groups=groups,
            expression=Expression((DType.FLOAT32,), (), (0,)),
            algorithm=Direct(),
        )
    (found,) = g.run(last)
    wide = [torch.from_numpy(a).double() for a in (x, w, v, random(4, 120), random(4, 20))]
    x_, w_, v_, b, c = wide
    between = torch.conv2d(x_, w_, b, padding=1, groups=5)
    expected = torch.conv2d(between, v_, c, padding=1).numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * abs(expected).max())


@examples(0.4)
@given(case=cases(), data=st.data())
def test_random_small_groups(case: Case, data: st.DataObject) -> None:
    """Transposed convolutions also get longer filters; padding leaves every dimension an extent."""
    lanes = host().float32_lanes
    inputs = data.draw(st.sampled_from([n for n in (1, 1, 2, 4, 8) if n < lanes]))
    outputs = data.draw(st.sampled_from([n * inputs for n in (1, 2, 4) if n * inputs <= lanes]))
    groups = data.draw(st.integers(2, 40 // inputs))
    case = replace(case, inputs=inputs * groups, outputs=outputs * groups, groups=groups)
    if case.deconv:
        sizes = st.tuples(*[st.integers(1, 6)] * case.rank)
        padding = tuple((data.draw(st.integers(0, 1)), 0) for _ in case.spatial)
        case = replace(case, kernel=data.draw(sizes), padding=padding)
    compare(case, threads=data.draw(st.integers(1, 2)), accuracy="strict")


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (1, 2), (2, 2), (2, 4)])
@pytest.mark.parametrize(("size", "stride"), [(4, 2), (3, 2), (2, 3), (3, 1)])
def test_transposed_groups_write_only_their_window_and_group(
    number: float, inputs: int, outputs: int, size: int, stride: int
) -> None:
    """A special value reaches only its group, and only pixels that the filter covers."""
    graph = Graph("convolution")
    x = random(1, 1, 10 * inputs, 5, 5)
    x[0, 3 * inputs, 2, 3] = number
    w, b = np.abs(random(2, 10 * inputs, outputs, size, size)) + 1, random(3, 1, 10 * outputs)
    value = graph.add_input(TensorType(DType.FLOAT32, x.shape), "x")
    attributes = {
        "border": "constant",
        "padding": ((0, 0),) * 2,
        "stride": (stride,) * 2,
        "dilation": (1, 1),
        "groups": 10,
    }
    operands = [value, variable(graph, "w", w), variable(graph, "b", b)]
    graph.add_output(build(graph, "deconv", operands, attributes).output, "y")
    got = nnefc.compile(graph, threads=1)(x)
    met = np.zeros(got.shape, np.bool_)
    rows, columns = (slice(stride * i, stride * i + size) for i in (2, 3))
    met[0, 3 * outputs : 4 * outputs, rows, columns] = True
    assert np.array_equal(~np.isfinite(got), met)
