"""Operands of blocked operations: states, infinities, padding channels, large halos and offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.ir import DType, Graph, Op, TensorType, Value, Variable
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.passes.fuse.fuse_convolution_epilogue import FuseConvolutionEpilogue
from nnefc.passes.machine.assign_layouts import AssignLayouts

Array = np.ndarray[Any, Any]


class Network:
    """Builds a graph, and compares its compiled results with the reference."""

    def __init__(self, *, positive: bool = False) -> None:
        """`positive`: filters have no negative items, so an infinity never becomes NaN in a sum."""
        self.graph = Graph("test")
        self._positive = positive

    def input(self, *shape: int) -> Value:
        type_ = TensorType(DType.FLOAT32, shape)
        return self.graph.add_input(type_, f"x{len(self.graph.inputs)}")

    def variable(self, items: Any) -> Value:
        data = np.asarray(items, np.float32)
        label, type_ = f"v{len(self.graph.variables)}", TensorType(DType.FLOAT32, data.shape)
        self.graph.variables[label] = Variable(label, type_, data)
        attributes = {"shape": data.shape, "label": label}
        return self.graph.insert(Op("variable", (), attributes, [type_])).output

    def number(self, item: float) -> Value:
        type_ = TensorType(DType.FLOAT32, ())
        attributes = {"shape": (), "value": (item,)}
        return self.graph.insert(Op("constant", (), attributes, [type_])).output

    def op(self, name: str, *operands: Value | float, **attributes: Any) -> Value:
        values = [x if isinstance(x, Value) else self.number(x) for x in operands]
        return build(self.graph, name, values, attributes).output

    def conv(
        self, x: Value, outputs: int, kernel: int = 3, name: str = "conv", **attributes: Any
    ) -> Value:
        """A convolution; its default padding preserves the extents."""
        random = np.random.default_rng(len(self.graph.variables))
        inputs = x.type.dims[1] // (attributes.get("groups", 1) or x.type.dims[1])
        filter_ = random.standard_normal((outputs, inputs, kernel, kernel)) / kernel
        bias = random.standard_normal((1, outputs))
        if self._positive:
            filter_ = np.abs(filter_)
        around: dict[str, Any] = {
            "border": "constant",
            "padding": ((kernel // 2, kernel // 2),) * 2,
            "stride": (1, 1),
            "dilation": (1, 1),
            "groups": 1,
        }
        operands = (self.variable(filter_), self.variable(bias))
        return self.op(name, x, *operands, **{**around, **attributes})

    def check(
        self, *outputs: Value, kernel: str = "convolution_direct", infinite: bool = False
    ) -> None:
        """Compare a run with the reference; some kernel has a name that starts with `kernel`.

        `infinite`: the first item of each input is infinite.
        """
        for i, value in enumerate(outputs):
            self.graph.add_output(value, f"y{i}")
        random = np.random.default_rng(1)
        inputs: dict[str, Array] = {
            v.name: random.standard_normal(v.type.dims).astype(np.float32)
            for v in self.graph.inputs
        }
        if infinite:
            for x in inputs.values():
                x[(0,) * x.ndim] = np.inf
        wanted = evaluate(self.graph, inputs)
        model = nnefc.compile(self.graph, threads=1, accuracy="strict")
        assert any(launch.kernel.startswith(kernel) for launch in model.launches)
        found = model.run(inputs)
        for name, items in wanted.outputs.items():
            np.testing.assert_allclose(found[name], items, 1e-5, 1e-4)
        for label in model.variables:
            np.testing.assert_allclose(model.variables[label], wanted.variables[label], 1e-5, 1e-4)


@pytest.mark.parametrize("shape", [(1, 5, 1, 1), (1, 16, 1, 1), (1, 1, 1, 1), (1, 16, 6, 6)])
def test_a_state_is_not_folded_like_a_parameter(shape: tuple[int, ...]) -> None:
    net = Network()
    x = net.input(1, max(shape[1], 5), 6, 6)
    state = net.variable(np.full(shape, 0.5))
    y = net.op("sigmoid", net.op("mul", net.conv(x, x.type.dims[1]), state))
    kept = tuple(axis for axis in range(4) if shape[axis] == 1)
    net.op("update", state, net.op("mean_reduce", y, axes=kept))
    net.check(y)


def test_a_state_is_read_before_it_changes() -> None:
    net = Network()
    x, state = net.input(1, 16, 6, 6), net.variable(np.ones((1, 16, 6, 6)))
    y = net.conv(state, 16)
    net.op("update", state, net.op("relu", net.op("add", y, x)))
    net.check(y, state, x)


LARGE = {"sqrt": (2.0, 1.0), "asin": (0.3, 1.4), "exp": (-100.0, -200.0), "log": (2.0, 3.0)}
"""By function: the factor of a sum that is about 3 or 5, and the term subtracted from the product.

In padding channels the sum is 0, where the function is infinite or NaN.
"""


@pytest.mark.parametrize("alone", [False, True], ids=["fused", "alone"])
@pytest.mark.parametrize("name", LARGE)
def test_padding_channels_stay_finite(name: str, alone: bool) -> None:
    factor, term = LARGE[name]
    net = Network()
    x = net.input(2, 3, 6, 6)
    y = net.op("tanh", net.conv(x, 3))
    if alone:
        y = net.op("max_pool", y, **POOL)
    # a single number would be a literal, which padding channels get too
    sums = net.op("add", y, net.variable([[4.0, 4.25, 4.5]]))
    net.check(net.conv(net.op(name, net.op("sub", net.op("mul", sums, factor), term)), 5))


def _joined(net: Network, y: Value) -> Value:
    return build(net.graph, "concat", [net.conv(y, 3, 1), y], {"axis": 1}).output


def _first(net: Network, y: Value) -> Value:
    half = (y.type.dims[1] + 1) // 2
    twice = net.conv(y, 2 * half, 1)
    return build(net.graph, "split", [twice], {"axis": 1, "ratios": (1, 1)}).outputs[0]


def _sliced(net: Network, y: Value) -> Value:
    twice = net.conv(y, y.type.dims[1] + 16, 1)
    ends = {"begin": (0,), "end": (y.type.dims[1],), "stride": (1,)}
    return net.op("slice", twice, axes=(1,), **ends)


BETWEEN: dict[str, Callable[[Network, Value], Value]] = {
    "nothing": lambda net, y: y,
    "relu": lambda net, y: net.op("relu", y),
    "silu": lambda net, y: net.op("mul", y, net.op("sigmoid", y)),
    "softplus": lambda net, y: net.op("softplus", net.op("max_pool", y, **POOL)),
    "pool": lambda net, y: net.op("max_pool", y, **POOL),
    "average": lambda net, y: net.op("box", y, **POOL, normalize=True),
    "nearest": lambda net, y: net.op("nearest_upsample", y, factor=(2, 2)),
    "depthwise": lambda net, y: net.conv(y, y.type.dims[1], groups=0),
    "clamped": lambda net, y: net.op("clamp", net.conv(y, y.type.dims[1], groups=0), 0.5, 2.0),
    "residual": lambda net, y: net.op("add", net.conv(y, y.type.dims[1]), y),
    "concat": _joined,
    "split": _first,
    "slice": _sliced,
}
"""Operations between two convolutions; the second one reads the padding channels of the result."""


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("channels", [3, 5, 12, 20, 24])
def test_infinities_stay_in_their_channels(channels: int, kernel: int) -> None:
    net = Network(positive=True)
    x = net.input(2, 7, 8, 8)
    net.check(net.conv(net.conv(x, channels, kernel), 5, kernel), infinite=True)


@pytest.mark.parametrize("channels", [3, 20])
@pytest.mark.parametrize("between", BETWEEN)
def test_infinities_pass_through_operations_between_convolutions(
    between: str, channels: int
) -> None:
    net = Network(positive=True)
    y = net.conv(net.input(1, 3, 8, 8), channels, 1)
    net.check(net.conv(BETWEEN[between](net, y), 5), infinite=True)


@pytest.mark.parametrize("channels", [3, 16, 20])
def test_plain_sums_write_zeros_into_padding_channels(channels: int) -> None:
    """No further launch clears the padding of a result that another convolution reads."""
    net = Network()
    y = net.conv(net.input(1, 16, 8, 8), channels)
    y = net.conv(net.conv(net.op("relu", y), 20), 3)
    net.graph.add_output(y, "y")
    launches = nnefc.compile(net.graph, threads=1, accuracy="strict").launches
    assert not any("runs_expression" in launch.kernel for launch in launches)


POOL: dict[str, Any] = {
    "size": (1, 1, 2, 2),
    "border": "ignore",
    "padding": ((0, 0),) * 4,
    "stride": (1, 1, 1, 1),
    "dilation": (1, 1, 1, 1),
}


def test_windows_with_huge_halos_are_row_major() -> None:
    net = Network()
    x = net.input(1, 16, 8, 8)
    far = net.conv(x, 16, padding=((300, 300),) * 2, dilation=(300, 300))
    net.check(far, kernel="convolution_row_major")


FAR: dict[str, dict[str, Any]] = {
    axis: {"padding": tuple((f, f) for f in far), "dilation": far}
    for axis, far in {"down": (3500, 1), "across": (1, 3500)}.items()
}
"""Windows with halos of thousands of pixels; an int32 cannot address both halos together."""


@pytest.mark.parametrize("computed", [False, True])
def test_users_with_large_halos_in_different_dimensions(computed: bool) -> None:
    net = Network()
    x = net.input(1, 16, 8, 8)
    y = net.conv(x, 16, 1) if computed else x
    net.check(*(net.conv(y, 5, **attributes) for attributes in FAR.values()), net.conv(y, 4))


def test_operands_of_concat_with_large_halos_in_different_dimensions() -> None:
    net = Network()
    x = net.input(1, 16, 8, 8)
    y, z = net.conv(x, 16, 1), net.conv(x, 16, 1)
    joined = build(net.graph, "concat", [y, z], {"axis": 1}).output
    net.check(net.conv(y, 5, **FAR["down"]), net.conv(z, 5, **FAR["across"]), net.conv(joined, 4))


@pytest.mark.parametrize(
    ("channels", "extent", "taken"), [(16, 2300, True), (128, 2300, False), (16, 4200, False)]
)
def test_convolutions_beyond_int32_offsets_are_not_fused(
    channels: int, extent: int, taken: bool
) -> None:
    net = Network()
    net.graph.add_output(net.conv(net.input(1, channels, extent, extent), 16), "y")
    FuseConvolutionEpilogue(block=16).run(net.graph)
    assert any(op.name == "fused_conv" for op in net.graph.ops) == taken


@pytest.mark.parametrize(("extent", "blocked"), [(2300, True), (4200, False)])
def test_scaled_planes_beyond_int32_offsets_are_not_blocked(extent: int, blocked: bool) -> None:
    net = Network()
    scale = net.conv(net.input(1, 16, 4, 4), 16, stride=(3, 3), padding=((0, 0),) * 2)
    scaled = net.op("mul", net.input(1, 16, extent, extent), scale)
    net.graph.add_output(net.op("relu", scaled), "y")
    FuseConvolutionEpilogue(block=16).run(net.graph)
    AssignLayouts(block=16).run(net.graph)
    assert (scaled.type.layout is not None) == blocked


@pytest.mark.parametrize(("extent", "blocked"), [(100, True), (400, False)])
def test_pooling_alone_is_blocked_if_its_tensors_fit_into_the_caches(
    extent: int, blocked: bool
) -> None:
    net = Network()
    net.graph.add_output(net.op("max_pool", net.input(1, 16, extent, extent), **POOL), "y")
    AssignLayouts(block=16).run(net.graph)
    assert any(op.name == "layout" for op in net.graph.ops) == blocked


def test_deconvolution_outputs_without_taps_are_the_bias() -> None:
    net = Network()
    x = net.input(1, 8, 5, 5)
    net.check(net.conv(x, 8, 2, name="deconv", stride=(3, 3), padding=((0, 0),) * 2), infinite=True)
