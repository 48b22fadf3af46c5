"""Compiled convolutions on channel-blocked tensors, against PyTorch in float64."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch is typed in part)

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.ir import DType, Expression, Graph, Op, TensorType, Value, Variable
from nnefc.ir.convolution_algorithm import Direct
from nnefc.kernels.convolution import direct
from nnefc.kernels.target.isa import host
from nnefc.ops.tools.build import build
from tests.helpers.examples import examples
from tests.helpers.kernels import blocked_op
from tests.helpers.kernels.blocked_op import BlockedGraph, halo, halves

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A convolution, its residual sum and its activation."""

    inputs: int
    outputs: int
    spatial: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    groups: int = 1
    batch: int = 1
    deconv: bool = False
    residual: bool = False
    activation: str = ""

    @property
    def rank(self) -> int:
        return len(self.spatial)


def square(
    inputs: int, outputs: int, size: int, kernel: int, stride: int = 1, pad: int = 0, **rest: Any
) -> Case:
    two: dict[str, Any] = {
        "stride": (stride, stride),
        "padding": ((pad, pad),) * 2,
        "dilation": (1, 1),
    }
    return Case(inputs, outputs, (size, size), (kernel, kernel), **{**two, **rest})


def expected(case: Case, x: Array, w: Array, b: Array, r: Array | None) -> Array:
    """The result of PyTorch in float64."""
    tx, tw = (torch.from_numpy(a).double() for a in (x, w))
    if case.deconv:
        function = getattr(torch.nn.functional, f"conv_transpose{case.rank}d")
        y = function(tx, tw, None, case.stride, 0, 0, case.groups, case.dilation)
        for axis, (before, after) in enumerate(case.padding, 2):
            y = y.narrow(axis, before, y.shape[axis] - before - after)
    else:
        pads = [n for pair in reversed(case.padding) for n in pair]
        tx = torch.nn.functional.pad(tx, pads)
        function = getattr(torch.nn.functional, f"conv{case.rank}d")
        y = function(tx, tw, None, case.stride, 0, case.dilation, case.groups)
    y = y.numpy() + b.astype(np.float64).reshape(1, -1, *[1] * case.rank)
    if r is not None:
        y = y + r
    match case.activation:
        case "relu":
            return np.maximum(y, 0)
        case "relu6":
            return np.clip(y, 0, 6)
        case "silu":
            return y / (1 + np.exp(-y))
        case _:
            return y


def random(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def variable(graph: Graph, label: str, data: Array) -> Value:
    type_ = TensorType(DType.FLOAT32, data.shape)
    graph.variables[label] = Variable(label, type_, data)
    return graph.insert(Op("variable", (), {"shape": data.shape, "label": label}, [type_])).output


def compare(case: Case, **options: Any) -> nnefc.Model:
    inside = case.inputs // case.groups, case.outputs // case.groups
    shape = (case.inputs, inside[1]) if case.deconv else (case.outputs, inside[0])
    x = random(1, case.batch, case.inputs, *case.spatial)
    w, b = random(2, *shape, *case.kernel), random(3, 1, case.outputs)
    sums = expected(replace(case, activation=""), x, w, b, None)
    r = random(4, *sums.shape) if case.residual else None
    wanted = expected(case, x, w, b, r)
    graph = Graph("convolution")
    arrays = [x] if r is None else [x, r]
    values = [
        graph.add_input(TensorType(DType.FLOAT32, a.shape), f"x{i}") for i, a in enumerate(arrays)
    ]
    attributes: dict[str, Any] = {
        "border": "constant",
        "padding": case.padding,
        "stride": case.stride,
        "dilation": case.dilation,
        "groups": case.groups,
    }
    operands = [values[0], variable(graph, "w", w), variable(graph, "b", b)]
    y = build(graph, "deconv" if case.deconv else "conv", operands, attributes).output
    if r is not None:
        y = build(graph, "add", [values[1], y], {}).output
    if case.activation == "relu":
        y = build(graph, "relu", [y], {}).output
    elif case.activation == "relu6":
        bounds = [constant(graph, bound) for bound in (0.0, 6.0)]
        y = build(graph, "clamp", [y, *bounds], {}).output
    elif case.activation == "silu":
        y = build(graph, "mul", [y, build(graph, "sigmoid", [y], {}).output], {}).output
    graph.add_output(y, "y")
    model = nnefc.compile(graph, **options)
    methods = (
        ("convolution_depthwise",)
        if case.groups > 1 and inside[0] < host().float32_lanes
        else ("convolution_direct",)
    )
    if sums[0, 0].size == 1:  # a filter over the whole image becomes a matrix product
        methods = (*methods, "product_matmul")
    assert any(launch.kernel.startswith(methods) for launch in model.launches)
    for _ in range(2):  # the second run starts with the memory of the first
        got = model(*arrays)
        # the tolerance is relative to the sums, which are rounded before they are clamped
        np.testing.assert_allclose(got, wanted, rtol=0, atol=4e-6 * np.abs(sums).max())
    return model


def constant(graph: Graph, number: float) -> Value:
    type_ = TensorType(DType.FLOAT32, ())
    return graph.insert(Op("constant", (), {"shape": (), "value": (number,)}, [type_])).output


CASES = {
    "first": square(3, 24, 30, 7, 2, 3, activation="relu"),
    "pointwise": square(40, 72, 14, 1, residual=True, activation="relu"),
    "silu": square(12, 20, 9, 3, pad=1, batch=2, activation="silu"),
    "depthwise-silu": square(24, 24, 9, 3, pad=1, groups=24, residual=True, activation="silu"),
    "one-channel": square(1, 1, 9, 3, pad=1),
    "blocks-of-three": square(16, 48, 7, 3, pad=1, batch=3),
    "strided-pointwise": square(32, 64, 15, 1, 2),
    "deep": square(512, 16, 5, 3, pad=1),
    "deep-strided": square(400, 24, 14, 3, 2, 1, batch=2, residual=True, activation="silu"),
    "one-pixel": square(130, 70, 2, 1, 2, activation="relu6"),
    "one-pixel-out": square(20, 33, 7, 6, 2),
    "groups": square(64, 96, 8, 3, pad=1, groups=2, batch=2),
    "groups-of-two": square(20, 20, 9, 3, 1, 1, groups=10, residual=True, activation="silu"),
    "groups-of-four": square(40, 40, 16, 3, 2, 1, groups=10, batch=2, activation="relu"),
    "groups-that-widen": square(20, 40, 9, 3, 1, 1, groups=10, residual=True, activation="silu"),
    "groups-that-share-blocks": square(
        120, 120, 9, 3, 1, 1, groups=5, batch=2, residual=True, activation="relu6"
    ),
    "groups-that-share-blocks-silu": square(80, 80, 9, 3, 2, 1, groups=2, activation="silu"),
    "groups-in-several-panels": square(168, 168, 5, 3, 1, 1, groups=3, residual=True),
    "groups-that-share-outputs": square(64, 48, 7, 3, 1, 1, groups=2, activation="relu"),
    "groups-that-share-inputs": square(120, 160, 7, 1, groups=5),
    "multiplier": square(9, 36, 8, 5, 1, 2, groups=9, batch=2, activation="relu6"),
    "depthwise": square(24, 24, 15, 3, 2, 1, groups=24, batch=2, activation="relu6"),
    "depthwise-dilated": square(20, 20, 9, 3, pad=2, dilation=(2, 2), groups=20, residual=True),
    "wide-border": square(8, 8, 4, 3, pad=5),
    "asymmetric": square(8, 16, 9, 3, 2, padding=((0, 1), (2, 0))),
    "dilated": square(20, 20, 17, 3, pad=2, dilation=(2, 3)),
    "dilated-far": square(330, 40, 14, 3, pad=9, dilation=(9, 9), residual=True, activation="silu"),
    "dilated-beyond": square(32, 40, 9, 3, pad=12, dilation=(12, 12), activation="relu"),
    "line": Case(12, 20, (37,), (5,), (2,), (1,), ((2, 2),), residual=True),
    "volume": Case(5, 9, (6, 7, 8), (3, 1, 2), (1, 2, 1), (1, 1, 2), ((1, 1), (0, 0), (2, 0))),
    "deconv": square(20, 12, 7, 2, 2, deconv=True, activation="relu"),
    "deconv-overlap": square(12, 20, 7, 4, 2, 1, deconv=True, batch=2, residual=True),
    "deconv-gaps": square(8, 8, 5, 2, 3, deconv=True),
    "deconv-dilated": square(8, 8, 6, 3, 2, dilation=(3, 2), deconv=True),
    "deconv-groups": square(32, 64, 5, 3, 2, 1, groups=2, deconv=True),
    "deconv-depthwise": square(24, 24, 9, 4, 2, 1, groups=24, deconv=True, residual=True),
    "deconv-depthwise-uneven": square(
        20, 20, 19, 3, 2, 1, groups=20, batch=2, deconv=True, residual=True, activation="silu"
    ),
    "deconv-depthwise-gaps": square(5, 5, 6, 2, 3, 1, groups=5, deconv=True, activation="relu6"),
    "deconv-depthwise-wide": square(3, 3, 4, 16, 8, 4, groups=3, deconv=True, activation="silu"),
    "deconv-groups-that-share-blocks": square(
        72, 120, 5, 3, 2, 1, groups=3, deconv=True, residual=True
    ),
    "deconv-groups-of-four": square(20, 20, 9, 4, 2, 1, groups=5, deconv=True, residual=True),
    "deconv-groups-that-widen": square(6, 12, 9, 3, 2, 1, groups=3, deconv=True, batch=2),
    "deconv-depthwise-line": Case(
        17, 17, (300,), (9,), (1,), (2,), ((3, 5),), groups=17, deconv=True
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_convolutions_match_pytorch(case: Case) -> None:
    compare(case, threads=1, accuracy="strict")


@pytest.mark.parametrize(
    "name", ["pointwise", "groups", "groups-that-share-blocks", "deconv-overlap"]
)
def test_two_threads_match_pytorch(name: str) -> None:
    compare(CASES[name], threads=2, accuracy="strict")


@pytest.mark.parametrize("outputs", range(1, 41))
def test_half_vectors_are_used_for_few_channels_in_the_last_block(outputs: int) -> None:
    """The reduction has several pieces; each piece continues the sums of the one before."""
    case = square(330, outputs, 5, 1, residual=True, activation="relu")
    with halves():
        model = compare(case, threads=1, accuracy="strict")
    lanes = host().float32_lanes
    kernels = {launch.kernel.split("+")[0] for launch in model.launches}
    made = {
        direct.convolution("float32", "float32", n, min(lanes, 8), half="filled").symbol
        for n in (1, 2, 3)
    }
    found = {f"nnefc_{kernel}" for kernel in kernels} & made
    assert bool(found) == (0 < outputs % lanes <= lanes // 2)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 3))
    each = st.tuples(*[st.integers(1, 3)] * rank)
    kernel, dilation = draw(each), draw(st.tuples(*[st.integers(1, 2)] * rank))
    stride = draw(each)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    deconv = draw(st.booleans())
    spatial = tuple(draw(st.integers(max(r, 2), 11)) for r in reach)
    pads = [draw(st.integers(0, (r - 1) // (2 if deconv else 1))) for r in reach]
    return Case(
        draw(st.integers(1, 40)),
        draw(st.integers(1, 40)),
        spatial,
        kernel,
        stride,
        dilation,
        tuple((p, p) for p in pads),
        batch=draw(st.integers(1, 2)),
        deconv=deconv,
        residual=draw(st.booleans()),
        activation=draw(st.sampled_from(["", "relu", "relu6", "silu"])),
    )


@examples(0.6)
@given(case=cases())
def test_random_convolutions(case: Case) -> None:
    with halves():
        compare(case, threads=1, accuracy="strict")


@st.composite
def wide_cases(draw: st.DrawFn) -> Case:
    """Many taps lie in the border; some do for every output."""
    rank = draw(st.integers(1, 3))
    kernel = draw(st.tuples(*[st.integers(1, 4)] * rank))
    dilation = draw(st.tuples(*[st.integers(1, 12)] * rank))
    spatial = draw(st.tuples(*[st.integers(1, (40, 16, 7)[rank - 1])] * rank))
    span = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    before = [draw(st.integers(0, n + 2)) for n in span]
    groups = draw(st.sampled_from([1, 1, 2]))
    return Case(
        groups * draw(st.sampled_from([16, 32] if groups > 1 else [3, 16, 37])),
        groups * draw(st.sampled_from([16, 48] if groups > 1 else [5, 16, 40])),
        spatial,
        kernel,
        draw(st.tuples(*[st.integers(1, 3)] * rank)),
        dilation,
        tuple((p, max(n - p, n + 1 - x - p, 0)) for p, n, x in zip(before, span, spatial)),
        groups=groups,
        batch=draw(st.integers(1, 2)),
        residual=draw(st.booleans()),
        activation=draw(st.sampled_from(["", "relu", "silu"])),
    )


@examples(0.6)
@given(case=wide_cases(), threads=st.integers(1, 2))
def test_taps_in_the_border_are_left_out(case: Case, threads: int) -> None:
    compare(case, threads=threads, accuracy="strict")


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


@pytest.mark.parametrize("ending", ["clamp(h, -1e39, 1e39)", "min(h, 1e39)", "max(h, -1e39)"])
def test_bounds_beyond_float32_have_no_effect(ending: str, tmp_path: Path) -> None:
    text = """version 1.0;
graph g( x ) -> ( y )
{
    x = external(shape = [1, 8, 5, 5]);
    f = variable(shape = [8, 8, 3, 3], label = 'f');
    h = conv(x, f, 0.0, padding = [(1,1), (1,1)], border = 'constant');
    y = ENDING;
}
"""
    x = np.random.default_rng(0).standard_normal((1, 8, 5, 5)).astype(np.float32)
    results: list[Array] = []
    for name, last in (("bounded", ending), ("plain", "copy(h)")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "graph.nnef").write_text(text.replace("ENDING", last))
        results.append(nnefc.compile(tmp_path / name, random_weights=1)(x))
    assert np.array_equal(results[0], results[1])
