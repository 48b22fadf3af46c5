"""Wrong arguments are an NnefError; objects and weights that change later have their effect."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from threading import Thread
from typing import Any, cast

import numpy as np
import pytest

from nnefc import openvx as vx
from nnefc.support.errors import NnefError

RELU, U8 = vx.ActivationFunction.RELU, vx.Type.UINT8
POLICIES = vx.ConvertPolicy.SATURATE, vx.RoundPolicy.TO_ZERO
WRONG: list[Any] = [
    *(None, True, -1, 1.5, float("nan"), 10**30, 10**5000, 1j, "x", b"x", (), {1: 2}, object()),
    *(np.bool_(True), np.float64("inf"), np.zeros((3, 4)), np.array([1.5]), U8, POLICIES[0]),
]


class Broken:
    """A value that refuses to be an array, as a tensor of PyTorch with a gradient does."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("call detach first")


@pytest.fixture
def context() -> vx.Context:
    return vx.Context(threads=1)


def tensors(context: vx.Context, *dims: tuple[int, ...]) -> list[vx.Tensor]:
    made = [context.create_tensor(each, U8) for each in dims]
    for each in made:
        each.copy_from(each.copy_to())
    return made


def arguments(context: vx.Context, graph: vx.Graph) -> dict[Callable[..., Any], dict[str, Any]]:
    """Right arguments of methods."""
    x, y, z, w, rois, cells = tensors(
        context, (4, 4, 2), (4, 4, 3), (4, 4, 2), (1, 1, 2, 3), (4, 3), (2, 2, 2, 3)
    )
    weighted = {"inputs": x, "weights": w, "biases": None, "outputs": y}
    policies: dict[str, Any] = {"overflow_policy": POLICIES[0], "rounding_policy": POLICIES[1]}
    padding = {"padding_x": 0, "padding_y": 0}

    def convolution(**values: Any) -> None:
        graph.convolution_layer(x, w, None, vx.ConvolutionParams(**values), y)

    def deconvolution(**values: Any) -> None:
        graph.deconvolution_layer(x, w, None, vx.DeconvolutionParams(**values), y)

    def described(name: Any) -> None:
        x.name = name

    like_inputs = {"inputs": x, "outputs": z}
    kind, floor = vx.PoolingType.MAX, vx.DownScaleSizeRounding.FLOOR
    sizes = {f"pooling_{name}_{axis}": 1 for name in ("size", "padding") for axis in "xy"}
    pooling = {"pooling_type": kind, **sizes, "rounding": floor}
    normalization = {"type": vx.NormalizationType.SAME_MAP, "normalization_size": 3}
    linear = {"function": vx.ActivationFunction.LINEAR, "a": 1.0, "b": 1}
    params = vx.ConvolutionParams(**policies)
    return {
        vx.Context: {"arithmetic": "specification", "threads": 1},
        vx.Graph: {"shared": context},
        vx.Tensor: {"info": (4, 4), "shared": U8},
        context.create_tensor: {"dims": (3, 4), "data_type": U8, "fixed_point_position": 0},
        x.create_tensor_from_view: {"view_start": (0, 0, 0), "view_end": (1, 1, 1)},
        x.copy_from: {"array": x.copy_to()},
        context.import_kernel_from_url: {"type": "nnef", "url": "/"},
        graph.add_parameter: {"node": None, "parameter": 0},
        graph.set_parameter: {"index": 0, "tensor": x},
        described: {"name": "x"},
        graph.convolution_layer: weighted | {"convolution_params": params},
        convolution: policies | padding | {"dilation_y": 0, "down_scale_size_rounding": floor},
        deconvolution: policies | padding | {"a_x": 0},
        graph.pooling_layer: like_inputs | pooling,
        graph.normalization_layer: like_inputs | normalization | {"alpha": 1.0, "beta": 0.5},
        graph.activation_layer: like_inputs | linear,
        graph.roi_pooling_layer: {
            "input_data": x,
            "input_rois": rois,
            "roi_pool_params": vx.RoiPoolParams(),
            "output_arr": cells,
        },
    }


def test_wrong_arguments(context: vx.Context) -> None:
    """Each parameter of each method with values of other types: an NnefError, or it is right."""
    rejected = 0
    names = [list(each) for each in arguments(context, context.create_graph()).values()]
    for i, parameters in enumerate(names):
        for name in parameters:
            for value in WRONG:
                graph = context.create_graph()
                method, right = list(arguments(context, graph).items())[i]
                try:
                    method(**right | {name: value})
                    graph.verify()
                except NnefError:
                    rejected += 1
    assert rejected > 900


def test_numbers_of_numpy_are_parameters(context: vx.Context) -> None:
    x, y = tensors(context, (4, 4, 2), (6, 6, 2))
    linear = vx.ActivationFunction.LINEAR
    graph = context.create_graph()
    floor, hidden = vx.DownScaleSizeRounding.FLOOR, graph.create_virtual_tensor(np.array([6, 6, 2]))
    half: Any = np.float32(0.5)
    one: Any = np.int64(1)
    two: Any = np.uint8(2)
    graph.pooling_layer(x, vx.PoolingType.MAX, 1, one, one, one, floor, hidden)
    graph.activation_layer(hidden, linear, half, two, y)
    x.copy_from(np.full((2, 4, 4), 6, np.uint8))
    graph.process()
    expected = np.full((2, 6, 6), 2)
    expected[:, 1:-1, 1:-1] = 5  # 6 / 2 + 2
    np.testing.assert_array_equal(y.copy_to(), expected)


def test_missing_policies_are_reported(context: vx.Context) -> None:
    x, w, y = tensors(context, (4, 4, 2), (1, 1, 2, 3), (4, 4, 3))
    graph = context.create_graph()
    graph.convolution_layer(x, w, None, vx.ConvolutionParams(), y)
    graph.deconvolution_layer(
        x, w, None, vx.DeconvolutionParams(padding_x=-1), *tensors(context, (4, 4, 3))
    )
    with pytest.raises(NnefError) as caught:
        graph.verify()
    places = [str(each.place and each.place.node).split(", ")[1] for each in caught.value.errors]
    assert places == ["overflow_policy", "rounding_policy", "padding_x", *places[:2]]
    assert "overflow_policy = None: expected one of ConvertPolicy" in str(caught.value)


def test_objects_are_made_by_methods(context: vx.Context) -> None:
    (x,) = tensors(context, (4,))
    graph = context.create_graph()
    node = graph.softmax_layer(x, *tensors(context, (4,)))
    for each in (context, x, graph, node):
        for make in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(NnefError, match="cannot be pickled"):
                make(each)
    for kind in (vx.Graph, vx.Tensor, vx.Node, vx.Kernel):
        made: Any = kind
        with pytest.raises(NnefError, match="created by"):
            made(context)
        with pytest.raises(NnefError, match="created by"):
            made()
    with pytest.raises(NnefError, match="path"):
        graph.export_nnef(cast(Any, 3))
    assert all(name in vx.__all__ or name.startswith("__") for name in dir(vx))
    with pytest.raises(NnefError, match="call detach first"):
        x.copy_from(Broken())
    assert [repr(each) for each in (x, graph)] == [
        f"<Tensor {x.name}: UINT8[4]>",
        "<Graph: 1 nodes>",
    ]


def test_views_follow_the_name_of_their_tensor(context: vx.Context) -> None:
    (x,) = tensors(context, (4, 4))
    view = x.create_tensor_from_view((0, 1), (4, 3))
    inner = view.create_tensor_from_view((1, 0), (2, 2))
    x.name = "x"
    assert (view.name, inner.name) == ("x[0:4, 1:3]", "x[0:4, 1:3][1:2, 0:2]")
    view.name = "rows"
    assert (x.name, view.name, inner.name) == ("x", "rows", "rows[1:2, 0:2]")
    graph = context.create_graph()
    for virtual, missing in (
        (graph.create_virtual_tensor((4, 4)), "no data_type"),
        (graph.create_virtual_tensor(None, U8), "no dims"),
        (graph.create_virtual_tensor(), "no dims and data_type"),
    ):
        with pytest.raises(NnefError, match=f"{missing} yet"):
            virtual.create_tensor_from_view((0, 0), (1, 1))


def test_graph_that_writes_weights_of_another(context: vx.Context) -> None:
    source, weights, x, y = tensors(context, (2, 1), (2, 1), (2,), (1,))
    writer, reader = context.create_graph(), context.create_graph()
    writer.activation_layer(source, RELU, 0, 0, weights)
    reader.fully_connected_layer(x, weights, None, *POLICIES, y)
    x.copy_from(np.ones(2, np.uint8))
    reader.process()
    assert y.copy_to() == [0]
    source.copy_from(np.array([[2, 3]], np.uint8))
    writer.process()
    reader.process()
    assert y.copy_to() == [5]


def test_exchanged_tensors(context: vx.Context) -> None:
    x, y, z, rows = tensors(context, (2, 2), (2, 2), (2, 2), (2, 3))
    graph = context.create_graph()
    first = graph.activation_layer(x, RELU, 0, 0, y)
    second = graph.activation_layer(x, RELU, 0, 0, z)
    for node, tensor in ((first, x), (first, y), (second, z)):
        graph.add_parameter(node, tensor)
    with pytest.raises(NnefError, match="another context"):
        graph.set_parameter(0, *tensors(vx.Context(), (2, 2)))
    graph.set_parameter(1, rows.create_tensor_from_view((0, 0), (2, 2)))
    graph.set_parameter(2, rows.create_tensor_from_view((0, 1), (2, 3)))
    with pytest.raises(NnefError, match="two results"):
        graph.process()
    graph.set_parameter(0, y)
    graph.fully_connected_layer(y, x, None, *POLICIES, *tensors(context, (2, 2)))
    with pytest.raises(NnefError, match=r"static in node 2 .* weights"):
        graph.verify()


def test_threads_share_a_graph(context: vx.Context) -> None:
    x, y = tensors(context, (8,), (8,))
    graph = context.create_graph()
    graph.activation_layer(x, RELU, 0, 0, y)
    errors: list[Exception] = []

    def run(adds: bool) -> None:
        try:
            for _ in range(5):
                if adds:
                    graph.activation_layer(x, RELU, 0, 0, *tensors(context, (8,)))
                x.copy_from(x.copy_to())
                graph.process()
        except Exception as error:
            errors.append(error)

    threads = [Thread(target=run, args=(i == 0,)) for i in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not errors
