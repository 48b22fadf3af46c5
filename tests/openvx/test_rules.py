"""Violated rules name node, parameter and values; all of them are reported at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnefc import openvx as vx
from nnefc.support.errors import NnefError

SATURATE: dict[str, Any] = {
    "overflow_policy": vx.ConvertPolicy.SATURATE,
    "rounding_policy": vx.RoundPolicy.TO_ZERO,
}
RELU = vx.ActivationFunction.RELU
FLOOR, CEILING = vx.DownScaleSizeRounding.FLOOR, vx.DownScaleSizeRounding.CEILING


class Setup:
    """A context with a graph; tensors hold zeros."""

    def __init__(self) -> None:
        self.context = vx.Context(threads=1)
        self.graph = self.context.create_graph()

    def tensor(self, *dims: int, type: vx.Type = vx.Type.UINT8, position: int = 0) -> vx.Tensor:
        tensor = self.context.create_tensor(dims, type, position)
        tensor.copy_from(tensor.copy_to())
        return tensor

    def convolution(
        self, x: vx.Tensor, w: vx.Tensor, y: vx.Tensor, b: vx.Tensor | None = None, **more: Any
    ) -> None:
        self.graph.convolution_layer(x, w, b, vx.ConvolutionParams(**(SATURATE | more)), y)

    def relu(self, x: vx.Tensor, y: vx.Tensor) -> None:
        self.graph.activation_layer(x, RELU, 0, 0, y)

    def errors(self) -> list[str]:
        with pytest.raises(NnefError) as caught:
            self.graph.verify()
        return [
            f"{each.rule} {each.place and each.place.node}: {each.message}"
            for each in caught.value.errors
        ]


def wrong_maps(s: Setup) -> None:
    s.convolution(s.tensor(8, 7, 3), s.tensor(3, 3, 2, 4), s.tensor(6, 5, 4))


def no_skip(s: Setup) -> None:
    s.convolution(s.tensor(8, 7, 3), s.tensor(3, 3, 3, 4), s.tensor(4, 5, 4))


def wrong_type(s: Setup) -> None:
    s.convolution(s.tensor(8, 7, 3), s.tensor(3, 3, 3, 4, type=vx.Type.INT8), s.tensor(6, 5, 4))


def no_data(s: Setup) -> None:
    weights = s.context.create_tensor((3, 3, 3, 4), vx.Type.UINT8)
    s.convolution(s.tensor(8, 7, 3), weights, s.tensor(6, 5, 4))


def negative_padding(s: Setup) -> None:
    s.convolution(s.tensor(8, 7, 3), s.tensor(3, 3, 3, 4), s.tensor(6, 5, 4), padding_x=-1)


def wrong_biases(s: Setup) -> None:
    s.convolution(s.tensor(8, 7, 3), s.tensor(3, 3, 3, 4), s.tensor(6, 5, 4), s.tensor(5))


def cycle(s: Setup) -> None:
    one, two = s.tensor(4), s.tensor(4)
    s.relu(one, two)
    s.relu(two, one)


def two_writers(s: Setup) -> None:
    x, y = s.tensor(4), s.tensor(6)
    s.relu(x, y.create_tensor_from_view((0,), (4,)))
    s.relu(x, y.create_tensor_from_view((2,), (6,)))


def never_written(s: Setup) -> None:
    s.relu(s.graph.create_virtual_tensor((4,), vx.Type.UINT8), s.tensor(4))


def partly_written(s: Setup) -> None:
    between = s.graph.create_virtual_tensor((6,), vx.Type.UINT8)
    s.relu(s.tensor(4), between.create_tensor_from_view((0,), (4,)))
    s.relu(between, s.tensor(6))


def even_size(s: Setup) -> None:
    kind = vx.NormalizationType.ACROSS_MAPS
    s.graph.normalization_layer(s.tensor(4, 4, 8), kind, 4, 1e-4, 0.75, s.tensor(4, 4, 8))


def upscale(s: Setup) -> None:
    params = vx.DeconvolutionParams(a_x=1, **SATURATE)
    s.graph.deconvolution_layer(
        s.tensor(4, 4, 2), s.tensor(3, 3, 2, 5), None, params, s.tensor(10, 11, 5)
    )


def average_regions(s: Setup) -> None:
    params = vx.RoiPoolParams(pool_type=vx.PoolingType.AVG)
    s.graph.roi_pooling_layer(s.tensor(8, 8, 2), s.tensor(4, 3), params, s.tensor(2, 2, 2, 3))


def integers_of_32_bits(s: Setup) -> None:
    s.relu(s.tensor(4, type=vx.Type.INT32), s.tensor(4, type=vx.Type.INT32))


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (wrong_maps, ["openvx/size node 0 (convolution_layer), weights", "expected 3"]),
        (no_skip, ["openvx/size node 0 (convolution_layer), outputs", "no skip along x gives 4"]),
        (wrong_type, ["openvx/type node 0 (convolution_layer), weights", "is INT8"]),
        (no_data, ["openvx/static node 0 (convolution_layer), weights", "copy_from"]),
        (negative_padding, ["openvx/parameter node 0 (convolution_layer), padding_x", "-1"]),
        (wrong_biases, ["openvx/size node 0 (convolution_layer), biases", "[4] or [6, 5, 4]"]),
        (cycle, ["openvx/cycle node", "wait for each other"]),
        (two_writers, ["openvx/writers node 1 (activation_layer), outputs", "node 0"]),
        (never_written, ["openvx/unwritten node 0 (activation_layer), inputs", "virtual"]),
        (partly_written, ["openvx/unwritten node 1 (activation_layer), inputs", "some of its"]),
        (even_size, ["openvx/parameter node 0 (normalization_layer)", "odd"]),
        (
            upscale,
            ["openvx/size node 0 (deconvolution_layer), outputs", "no upscale along y gives 11"],
        ),
        (average_regions, ["openvx/parameter node 0 (roi_pooling_layer), pool_type", "AVG"]),
        (integers_of_32_bits, ["openvx/type node 0 (activation_layer), inputs", "INT32"]),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_violated_rule(build: Callable[[Setup], None], expected: list[str]) -> None:
    setup = Setup()
    build(setup)
    errors = setup.errors()
    assert any(all(text in error for text in expected) for error in errors), errors


def test_description() -> None:
    s = Setup()
    x, w = s.tensor(9, 8, 3), s.tensor(3, 2, 3, 4)
    hidden = s.graph.create_virtual_tensor((4, 7, 4))
    y, z, pooled = s.tensor(7, 8, 5), s.tensor(3, 3, 2), s.tensor(2, 3, 4)
    params = vx.DeconvolutionParams(a_y=1, **SATURATE)
    s.graph.deconvolution_layer(z, s.tensor(3, 3, 2, 5), None, params, y)
    s.graph.pooling_layer(hidden, vx.PoolingType.MAX, 2, 3, 0, 0, FLOOR, pooled)
    s.convolution(x, w, hidden, down_scale_size_rounding=FLOOR)
    nodes = {each["node"]: each for each in s.graph.describe()}
    # out = floor((in - kernel) / skip) + 1; deconvolution: (in - 1) upscale + kernel + a
    assert nodes[0]["upscale"] == [2, 2]
    assert nodes[1]["skip"] == [2, 2]
    assert nodes[2]["skip"] == [2, 1]
    assert list(nodes).index(2) < list(nodes).index(1)
    text = s.graph.description()
    assert "node 2: convolution_layer, skip [2, 1]" in text
    assert f"outputs = {hidden.name} (virtual): UINT8[4, 7, 4]" in text
    assert f"outputs = {y.name}: UINT8[7, 8, 5]" in text
    assert f"inputs: {z.name}, {x.name}\noutputs: {y.name}, {pooled.name}\n" in text
    launches, kernels = s.graph.launches, {each.kernel for each in s.graph.launches}
    assert len(launches) >= 3
    assert f"launches: {sum(each.times for each in launches)}, kernels: {len(kernels)}" in text


def test_all_rules_are_reported() -> None:
    setup = Setup()
    wrong_maps(setup)
    no_skip(setup)
    even_size(setup)
    nodes = {error.split(" ", 1)[1].split(",")[0] for error in setup.errors()}
    assert nodes == {
        "node 0 (convolution_layer)",
        "node 1 (convolution_layer)",
        "node 2 (normalization_layer)",
    }


@pytest.mark.parametrize(
    ("dims", "type", "position", "rule"),
    [
        ((), vx.Type.UINT8, 0, "openvx/rank"),
        ((1,) * 7, vx.Type.UINT8, 0, "openvx/rank"),
        ((0, 3), vx.Type.UINT8, 0, "openvx/size"),
        ((2.5,), vx.Type.UINT8, 0, "openvx/size"),
        ("ab", vx.Type.UINT8, 0, "openvx/rank"),
        ((3,), "UINT8", 0, "openvx/type"),
        ((3,), vx.Type.UINT8, 8, "openvx/type"),
        ((3,), vx.Type.INT16, 4, "openvx/type"),
        ((1 << 20,) * 3, vx.Type.UINT8, 0, "limit/tensor"),
    ],
)
def test_invalid_tensors(dims: Any, type: Any, position: int, rule: str) -> None:
    with pytest.raises(NnefError) as caught:
        vx.Context().create_tensor(dims, type, position)
    assert caught.value.errors[0].rule == rule


def test_invalid_arrays_and_views() -> None:
    s = Setup()
    x = s.tensor(4, 3)
    for array in (np.zeros((4, 3), np.uint8), np.zeros((3, 4)), [[1, 2], [3]], None):
        with pytest.raises(NnefError, match="openvx/array"):
            x.copy_from(array)
    for start, end in (((0, 0), (5, 3)), ((2, 2), (2, 3)), ((0,), (4,)), ((-1, 0), (2, 2))):
        with pytest.raises(NnefError, match=r"openvx/(view|size)"):
            x.create_tensor_from_view(start, end)
    virtual = s.graph.create_virtual_tensor((4, 3), vx.Type.UINT8)
    with pytest.raises(NnefError, match="openvx/virtual"):
        virtual.copy_to()
    with pytest.raises(NnefError, match="openvx/view"):
        s.graph.create_virtual_tensor().create_tensor_from_view((0,), (1,))
    with pytest.raises(NnefError, match="openvx/empty"):
        s.graph.verify()
    with pytest.raises(NnefError, match="openvx/argument"):
        s.graph.softmax_layer(x, "y")  # pyright: ignore[reportArgumentType]


def test_tensors_of_another_context_or_graph() -> None:
    s, other = Setup(), Setup()
    virtual = other.graph.create_virtual_tensor((4,), vx.Type.UINT8)
    with pytest.raises(NnefError, match="another context"):
        s.relu(other.tensor(4).create_tensor_from_view((0,), (2,)), s.tensor(2))
    with pytest.raises(NnefError, match="another graph"):
        other.context.create_graph().softmax_layer(virtual, other.tensor(4))
    other.relu(other.tensor(4), virtual)
    with pytest.raises(NnefError, match="input/argument"):
        vx.Context(limits=True)  # pyright: ignore[reportArgumentType]


def test_views_share_memory_and_weights_are_verified_again() -> None:
    s = Setup()
    x, y = s.tensor(6), s.tensor(6)
    part = x.create_tensor_from_view((2,), (6,)).create_tensor_from_view((1,), (3,))
    part.copy_from(np.array([7, 9], np.uint8))
    assert list(x.copy_to()) == [0, 0, 0, 7, 9, 0]
    y.copy_from(np.arange(10, 16, dtype=np.uint8))
    s.relu(part, y.create_tensor_from_view((4,), (6,)))
    s.graph.process()
    assert list(y.copy_to()) == [10, 11, 12, 13, 7, 9]  # items that no node writes stay
    w, z = s.tensor(6, 1), s.tensor(1)
    policies = vx.ConvertPolicy.SATURATE, vx.RoundPolicy.TO_ZERO
    s.graph.fully_connected_layer(x, w, None, *policies, z)
    s.graph.process()
    assert z.copy_to() == [0]
    w.copy_from(np.ones((1, 6), np.uint8))
    s.graph.process()
    assert z.copy_to() == [16]
