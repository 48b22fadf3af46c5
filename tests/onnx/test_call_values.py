"""Sequences, optionals and narrow types at the interfaces of onnxruntime and `onnx.backend`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from nnefc import NnefError, compile
from nnefc.onnx import InferenceSession, backend
from tests.helpers.onnx.models import model, node, save, tensor
from tests.helpers.onnx.text_models import parsed

JOIN = """(seq(float[K, 2]) s, optional(float[2]) o)
    => (seq(float[L, 2]) t, optional(float[2]) p, bool has, float[M, 2] y) {
  has = OptionalHasElement (o)
  p = Identity (o)
  y = ConcatFromSequence <axis = 0> (s)
  t = SequenceInsert (s, y)
}"""
NARROW = (
    "FLOAT8E4M3FN",
    "FLOAT8E4M3FNUZ",
    "FLOAT8E5M2",
    "FLOAT8E5M2FNUZ",
    "FLOAT8E8M0",
    "FLOAT4E2M1",
    "INT4",
    "UINT4",
    "INT2",
    "UINT2",
)


@pytest.fixture(params=["bytes", "path", "backend"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The results of a model in the order of its outputs, by each interface."""

    def results(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
        if request.param == "backend":
            return list(backend.run_model(proto, feeds))
        content = proto.SerializeToString()
        path = save(proto, tmp_path / "net.onnx")
        session = InferenceSession(content if request.param == "bytes" else path)
        return session.run(None, feeds)

    return results


def test_sequences_and_optionals_are_lists_and_none(run: Any) -> None:
    proto = parsed(JOIN, 18)
    a, b = np.ones((1, 2), np.float32), np.zeros((3, 2), np.float32)
    for items in ([a, b], [b], (a, a, b)):
        for o in (None, a[0]):
            t, p, has, y = run(proto, {"s": items, "o": o})
            np.testing.assert_array_equal(y, np.concatenate(items))
            assert has == (o is not None)
            assert p is None if o is None else (p == o).all()
            assert [each.shape for each in t] == [*(each.shape for each in items), y.shape]


def test_a_session_has_the_types_of_onnxruntime(tmp_path: Path) -> None:
    ort: Any = pytest.importorskip("onnxruntime")
    text = JOIN.replace("optional(float[2]) p, ", "").replace("p = Identity (o)", "")
    content = parsed(text, 18).SerializeToString()
    theirs, ours = ort.InferenceSession(content), InferenceSession(content)
    for name in ("get_inputs", "get_outputs"):
        kinds = [[(x.name, x.type) for x in getattr(each, name)()] for each in (ours, theirs)]
        assert kinds[0] == kinds[1]
    with pytest.raises(NnefError, match="compiled for those of each call"):
        print(ours.model)
    feeds = {"s": [np.ones((2, 2), np.float32)] * 2, "o": np.zeros(2, np.float32)}
    (y, t), (want_y, want_t) = (each.run(["y", "t"], feeds) for each in (ours, theirs))
    for item, want in zip([y, *t], [want_y, *want_t], strict=True):
        np.testing.assert_array_equal(item, want)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"s": np.ones(2), "o": None}, r"'s' is a ndarray, expected a list of arrays: seq\(tens"),
        ({"s": None, "o": None}, r"'s' is a NoneType, expected a list of arrays: seq\(tens"),
        ({"s": [np.ones((2, 2))], "o": None}, r"input/dtype"),
    ],
)
def test_wrong_values(run: Any, feeds: dict[str, Any], message: str) -> None:
    with pytest.raises(NnefError, match=message):
        run(parsed(JOIN, 18), feeds)


def test_a_tensor_is_not_absent(run: Any) -> None:
    proto = parsed("(float[2] x) => (float[2] y) { y = Neg (x) }")
    with pytest.raises(NnefError, match="input 'x' is None, expected an array"):
        run(proto, {"x": None})


def test_other_interfaces_refuse_sequences_by_name(tmp_path: Path) -> None:
    with pytest.raises(NnefError, match=r"'s' is of type sequence.*\n.*take lists, or None"):
        compile(save(parsed(JOIN, 18), tmp_path / "net.onnx"))
    text = "(float[2] x) => (seq(float[2]) y) { y = SequenceConstruct (x, x) }"
    with pytest.raises(NnefError, match=r"'y' is a sequence of 2 items.*onnx/unsupported"):
        compile(save(parsed(text), tmp_path / "net.onnx"))


def test_unknown_operators_are_errors_of_the_session() -> None:
    proto = parsed("(seq(float) s) => (seq(float) t) { t = Nope (s) }")
    for make in (
        lambda: InferenceSession(proto.SerializeToString()),
        lambda: backend.prepare(proto),
    ):
        with pytest.raises(NnefError, match="onnx/operator"):
            make()
    assert not backend.is_compatible(proto)


@pytest.mark.parametrize("name", NARROW)
def test_narrow_types(run: Any, name: str) -> None:
    """All items of a type pass through a model, become numbers, and are made of these again."""
    elem_type = getattr(TensorProto, name)
    dtype = helper.tensor_dtype_to_np_dtype(elem_type)
    codes = np.arange(16 if "4" in name[:6] and "8" not in name else 4 if "2" in name[-1] else 256)
    x = codes.astype(np.uint8).view(dtype)
    nodes = [
        node("Identity", ["x"], ["same"]),
        node("Cast", ["x"], ["real"], to=TensorProto.FLOAT),
        node("Cast", ["real"], ["back"], to=elem_type, saturate=0),
    ]
    kinds = {"same": elem_type, "real": 1, "back": elem_type}
    proto = model(
        nodes,
        [tensor("x", list(x.shape), elem_type)],
        [tensor(y, list(x.shape), kind) for y, kind in kinds.items()],
        opset=25,
    )
    same, real, back = run(proto, {"x": x})
    assert (same.dtype, real.dtype, back.dtype) == (dtype, np.float32, dtype)
    np.testing.assert_array_equal(same.view(np.uint8), x.view(np.uint8))
    values = x.astype(np.float32)
    np.testing.assert_array_equal(real, values)
    is_number = ~np.isnan(values)
    np.testing.assert_array_equal(np.isnan(back.astype(np.float32)), ~is_number)
    np.testing.assert_array_equal(back.view(np.uint8)[is_number], x.view(np.uint8)[is_number])


def test_models_take_bytes_of_narrow_types(tmp_path: Path) -> None:
    elem_type = TensorProto.FLOAT8E5M2
    proto = model(
        [node("Cast", ["x"], ["y"], to=1)],
        [tensor("x", ["N"], elem_type)],
        [tensor("y", ["N"])],
        opset=25,
    )
    x = np.array([1, -0.5, 1024], ml_dtypes.float8_e5m2)
    path = save(proto, tmp_path / "net.onnx")
    net = compile(path)
    np.testing.assert_array_equal(net(x.view(np.uint8)), [1, -0.5, 1024])
    with pytest.raises(NnefError, match=r"x\.view\(numpy\.uint8\)"):
        net(x)
    assert InferenceSession(path).get_inputs()[0].type == "tensor(float8e5m2)"
