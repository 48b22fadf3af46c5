"""Resizing against onnxruntime and PyTorch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
# (arrays of any type; onnx and onnxruntime are untyped)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nnefc.ir import DType, Graph, TensorType
from nnefc.ops.extended.resize import COORDINATES, NEAREST
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.passes.canonicalise.canonicalise import Canonicalise
from tests.helpers.examples import examples
from tests.helpers.kernels.one_op import Array, normal, run, run_graph

torch: Any = pytest.importorskip("torch")
onnx: Any = pytest.importorskip("onnx")
onnxruntime: Any = pytest.importorskip("onnxruntime")
SETTINGS = examples(0.6)
EXTENTS = st.tuples(st.integers(1, 6), st.integers(1, 6))


TIES = {
    ("asymmetric", "round_prefer_ceil"): {(7, 2), (7, 4), (7, 8)},
    ("half_pixel_symmetric", "floor"): {(3, 1), (5, 3), (6, 2), (9, 3), (9, 5)},
    ("tf_half_pixel_for_nn", "round_prefer_ceil"): {(7, 1)},
}
"""Pairs (extent, result extent) up to 9 for which a coordinate is exactly between two items, but
not in onnxruntime, which divides by a rounded scale."""


def theirs(x: Array, attributes: dict[str, Any]) -> Array:
    """The result of onnxruntime."""
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    scales = np.array(attributes["scales"], np.float32)
    sizes = np.array([] if scales.size else attributes["sizes"], np.int64)
    node = helper.make_node(
        "Resize",
        ["x", "", "scales" if scales.size else "", "" if scales.size else "sizes"],
        ["y"],
        coordinate_transformation_mode=attributes["coord_transformer"],
        mode=attributes["interpolator"],
        nearest_mode=attributes["nearest_mode"],
        cubic_coeff_a=attributes["cubic_coeff_a"],
        exclude_outside=int(attributes["exclude_outside"]),
    )
    known = ("scales", scales) if scales.size else ("sizes", sizes)
    graph = helper.make_graph(
        [node],
        "resize",
        [helper.make_tensor_value_info("x", floats, x.shape)],
        [helper.make_tensor_value_info("y", floats, None)],
        [onnx.numpy_helper.from_array(known[1], known[0])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {"x": x})[0]


@SETTINGS
@given(st.data())
def test_resize_matches_onnxruntime(data: st.DataObject) -> None:
    extents = data.draw(EXTENTS)
    interpolator = data.draw(st.sampled_from(["nearest", "linear", "cubic"]))
    attributes: dict[str, Any] = {
        "scales": (),
        "coord_transformer": data.draw(st.sampled_from(COORDINATES)),
        "interpolator": interpolator,
        "nearest_mode": data.draw(st.sampled_from(NEAREST)),
        "cubic_coeff_a": data.draw(st.sampled_from([-0.75, -0.5])),
        "exclude_outside": interpolator == "cubic" and data.draw(st.booleans()),
    }
    if attributes["coord_transformer"] == "tf_half_pixel_for_nn" and interpolator != "nearest":
        attributes["coord_transformer"] = "half_pixel"  # applies only to nearest neighbours
    x = normal(data.draw(st.integers(0, 3)), 2, 3, *extents)
    if data.draw(st.booleans()):
        factors = st.sampled_from([0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0])
        scales = [data.draw(factors) if n > 3 else 2.0 for n in extents]
        whole = all((n * s).is_integer() for n, s in zip(extents, scales))
        # onnxruntime takes n * s as the result extent even if it is not an integer
        assume(whole or attributes["coord_transformer"] != "align_corners")
        attributes["scales"] = (1.0, 1.0, *scales)
        attributes["sizes"] = (2, 3, *(int(n * s) for n, s in zip(extents, scales)))
    else:
        attributes["sizes"] = (2, 3, *data.draw(st.tuples(*[st.integers(1, 9)] * 2)))
        ties = TIES.get((attributes["coord_transformer"], attributes["nearest_mode"]), set())
        pairs = set(zip(extents, attributes["sizes"][2:], strict=True))
        assume(interpolator != "nearest" or not pairs & ties)
    want = theirs(x, attributes)
    np.testing.assert_allclose(run("resize", x, **attributes), want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("mode", "align", "coordinates"),
    [
        ("linear", False, "pytorch_half_pixel"),
        ("linear", True, "align_corners"),
        ("nearest", None, "asymmetric"),
        ("nearest-exact", None, "half_pixel"),
        ("bilinear", False, "pytorch_half_pixel"),
        ("bicubic", True, "align_corners"),
        ("bicubic", False, "pytorch_half_pixel"),
        ("trilinear", True, "align_corners"),
    ],
)
def test_resize_matches_pytorch(mode: str, align: bool | None, coordinates: str) -> None:
    rank = {"linear": 1, "nearest": 3, "nearest-exact": 2, "trilinear": 3}.get(mode, 2)
    x = normal(1, 2, 3, *(7, 10, 5)[:rank])
    size = (17, 9, 12)[:rank]
    want = torch.nn.functional.interpolate(
        torch.from_numpy(x), size, mode=mode, align_corners=align
    ).numpy()
    kind = "cubic" if "cubic" in mode else "linear" if "linear" in mode else "nearest"
    got = run(
        "resize",
        x,
        sizes=want.shape,
        coord_transformer=coordinates,
        interpolator=kind,
        nearest_mode="round_prefer_ceil" if mode == "nearest-exact" else "floor",
        threads=3,
    )
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def graph_of(shape: tuple[int, ...], attributes: dict[str, Any]) -> Graph:
    graph = Graph("resize")
    x = graph.add_input(TensorType(DType.FLOAT32, shape), "x")
    graph.add_output(build(graph, "resize", [x], attributes).output, "y")
    return graph


@pytest.mark.parametrize(
    ("interpolator", "coordinates", "mode", "name"),
    [
        ("nearest", "asymmetric", "floor", "debox"),
        ("nearest", "half_pixel", "round_prefer_ceil", "debox"),
        ("nearest", "asymmetric", "ceil", "resize"),
        ("linear", "half_pixel", "floor", "multilinear_upsample"),
        ("linear", "asymmetric", "floor", "multilinear_upsample"),
        ("linear", "align_corners", "floor", "multilinear_upsample"),
        ("cubic", "half_pixel", "floor", "resize"),
    ],
)
@pytest.mark.parametrize("factor", [(2, 2), (3, 1), (1, 4)])
def test_whole_factors_are_operations_of_nnef(
    interpolator: str, coordinates: str, mode: str, name: str, factor: tuple[int, int]
) -> None:
    x = normal(1, 2, 3, 4, 5)
    attributes: dict[str, Any] = {
        "sizes": (2, 3, 4 * factor[0], 5 * factor[1]),
        "interpolator": interpolator,
        "coord_transformer": coordinates,
        "nearest_mode": mode,
    }
    graph = graph_of(x.shape, attributes)
    want = evaluate(graph, {"x": x}).outputs["y"]
    Canonicalise().run(graph)
    assert [op.name for op in graph.ops] == [name]
    np.testing.assert_allclose(run_graph(graph, x)[0], want, rtol=1e-5, atol=1e-6)


def test_resizing_to_the_same_shape_is_removed() -> None:
    graph = graph_of((2, 3), {"sizes": (2, 3), "interpolator": "cubic"})
    Canonicalise().run(graph)
    assert graph.outputs == graph.inputs


def test_items_of_weight_zero_are_ignored() -> None:
    """An item of weight 0 may be infinite."""
    x = np.array([[1.0, np.inf, 2.0, 3.0]], np.float32)
    for interpolator in ("linear", "cubic"):
        got = run("resize", x, sizes=(1, 7), coord_transformer="align_corners",
                  interpolator=interpolator)  # fmt: skip
        np.testing.assert_array_equal(got[:, ::2], x)
