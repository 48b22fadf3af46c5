"""Custom operators: the suppression of detected boxes, compared with LiteRT; those of users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.ops import custom
from nnefc.support.errors import NnefError
from tests.helpers.artifacts.model_cache import entries
from tests.helpers.tflite.flexbuffer import flexbuffer
from tests.helpers.tflite.one_operator import (
    Array,
    Case,
    Constant,
    content_of,
    inputs_of,
    litert_results,
    reference_results,
    source_of,
)

RNG = np.random.default_rng(11)
MOST: dict[tuple[int, ...], int] = {(1, 6): 6, (1, 12): 6, (1, 30): 6, (1, 50): 50}
"""The number of boxes by the shape of the scores."""
SCALES = {"y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}


def detection(
    *,
    regular: bool,
    most: int = 6,
    classes_per_box: int = 1,
    boxes: int = 40,
    background: int = 1,
    least: float = 0.4,
    overlap: float = 0.5,
) -> Case:
    values = {
        "max_detections": most,
        "max_classes_per_detection": classes_per_box,
        "detections_per_class": 4,
        "use_regular_nms": regular,
        "nms_score_threshold": least,
        "nms_iou_threshold": overlap,
        "num_classes": 3,
        **SCALES,
    }
    anchors = RNG.uniform(0.2, 0.8, (boxes, 4)).astype(np.float32)
    scores = RNG.permutation(boxes * (3 + background)).reshape(1, boxes, -1)
    inputs: list[Any] = [
        RNG.standard_normal((1, boxes, 4)).astype(np.float32),
        (scores / scores.size).astype(np.float32),
        Constant(anchors),
    ]
    room = most * classes_per_box
    outputs = [((1, room, 4), "FLOAT32"), ((1, room), "FLOAT32"), ((1, room), "FLOAT32")]
    return Case(
        "TFLite_Detection_PostProcess",
        inputs,
        [*outputs, ((1,), "FLOAT32")],
        custom_options=flexbuffer(values),
    )


def of_codes(case: Case) -> Case:
    """The case with inputs of uint8."""
    boxes, _, anchors = case.inputs
    extents: tuple[int, ...] = anchors.array.shape
    shape: tuple[int, ...] = boxes.shape
    spread = RNG.integers(0, 256, shape).astype(np.uint8)
    table = RNG.integers(60, 250, extents).astype(np.uint8)
    scores = RNG.permutation(shape[1] * 4).reshape(1, shape[1], 4).astype(np.uint8)
    codes = {
        0: {"scale": (0.05,), "zero_point": (128,)},
        1: {"scale": (1 / 160,), "zero_point": (3,)},
        2: {"scale": (1 / 300,), "zero_point": (5,)},
    }
    inputs: list[Any] = [spread, scores, Constant(table)]
    return Case(case.name, inputs, case.outputs, codes=codes, custom_options=case.custom_options)


CASES = [
    detection(regular=False),
    detection(regular=False, background=0, classes_per_box=2),
    detection(regular=False, classes_per_box=5, least=0.9),
    detection(regular=False, most=50, boxes=9, least=0.0),
    detection(regular=True),
    detection(regular=True, background=0, overlap=0.2),
    detection(regular=True, most=50, boxes=9, least=0.0),
    detection(regular=True, least=0.95),
    of_codes(detection(regular=False)),
    of_codes(detection(regular=True)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_detections_are_those_of_litert(case: Case) -> None:
    """What LiteRT leaves behind the detections is not compared: it is not written."""
    content = content_of(case)
    (expected,) = litert_results(content, [inputs_of(case)])
    actual = reference_results(content, inputs_of(case))
    count = int(expected[3][0])
    assert count > 0
    np.testing.assert_array_equal(actual[3], expected[3])
    room = case.outputs[1][0][1] // MOST[case.outputs[1][0]]
    rows = [i * room + j for i in range(count) for j in range(min(room, 3))]
    for ours, theirs in zip(actual[:3], expected[:3], strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours[0, rows], theirs[0, rows], rtol=1e-5, atol=1e-6)
        assert not ours[0, count * room :].any()


# -- functions of users

SCALED = (
    "fragment my_Scaled( x: tensor<scalar>, factor: scalar = 1.0, names: string[] = [] )"
    " -> ( y: tensor<scalar>, z: tensor<scalar> )"
)


@pytest.fixture
def scaled() -> Iterator[list[Any]]:
    seen: list[Any] = []

    @custom.operation(SCALED)
    def expand(emit: Any, op: Any) -> Any:
        seen.append(dict(op.attributes))
        (x,) = op.inputs
        return emit("mul", x, op.attributes["factor"]), emit("transpose", x, axes=(1, 0))

    assert callable(expand)
    yield seen
    custom.unregister("my_Scaled")


def own(given: bytes, x: Array) -> bytes:
    results = [(x.shape, "FLOAT32"), (x.shape[::-1], "FLOAT32")]
    return content_of(Case("my-Scaled", [x], results, custom_options=given))


def test_a_registered_function_computes_a_custom_operator(
    scaled: list[Any], tmp_path: Path
) -> None:
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    given = {"factor": 2.5, "names": ["a", "b"], "deep": {"flag": True, "sizes": [1, -2, 300]}}
    path = tmp_path / "net.tflite"
    path.write_bytes(own(flexbuffer(given), x))
    model: Any = nnefc.compile(path)
    y, z = model(x)
    np.testing.assert_allclose(y, 2.5 * x, rtol=1e-6)
    np.testing.assert_array_equal(z, x.T)
    assert scaled[-1] == {**given, "custom_options": flexbuffer(given)}


def test_a_function_may_read_the_bytes(scaled: list[Any]) -> None:
    x = np.ones((2, 3), np.float32)
    y, _ = reference_results(own(b"\x01", x), [x])
    np.testing.assert_array_equal(y, x)
    assert scaled[-1] == {"factor": 1.0, "names": (), "custom_options": b"\x01"}


def test_errors_of_functions_name_the_operator() -> None:
    x = np.ones((2, 3), np.float32)
    content = own(flexbuffer({"a": 1}), x)
    with pytest.raises(
        NnefError, match="CUSTOM 'my-Scaled', used once, is not supported"
    ) as caught:
        source_of(content)
    assert "nnefc.operation" in str(caught.value)

    @custom.operation("fragment my_Scaled( x: tensor<scalar> ) -> ( y: tensor<scalar> )")
    def one(emit: Any, op: Any) -> Any:
        return emit("exp", op.inputs[0])

    assert callable(one)
    try:
        with pytest.raises(NnefError, match="it has 2 results, 1 are declared") as caught:
            source_of(content).graph({})
        assert caught.value.errors[0].rule == "custom/signature"
        assert "operator 0 (CUSTOM 'my-Scaled')" in str(caught.value)
    finally:
        custom.unregister("my_Scaled")


@pytest.mark.usefixtures("scaled", "keep_models")
def test_models_with_functions_of_users_are_not_cached(tmp_path: Path, folder: Path) -> None:
    x = np.ones((2, 3), np.float32)
    path = tmp_path / "net.tflite"
    path.write_bytes(own(flexbuffer({}), x))
    nnefc.compile(path)
    assert not entries(folder)
    path.write_bytes(content_of(Case("EXP", [x], [((2, 3), "FLOAT32")], "ExpOptions")))
    nnefc.compile(path)
    assert len(entries(folder)) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (flexbuffer({"max_detections": 3}), "its option max_classes_per_detection is None"),
        (flexbuffer({"max_detections": "many"}), "its option max_detections is 'many'"),
        (b"\xff\xff\xff", "its options are no FlexBuffer"),
    ],
)
def test_wrong_options_are_errors(given: bytes, message: str) -> None:
    case = detection(regular=False)
    wrong = Case(case.name, case.inputs, case.outputs, custom_options=given)
    with pytest.raises(NnefError) as caught:
        source_of(content_of(wrong)).graph({})
    assert message in str(caught.value)
    assert caught.value.errors[0].rule == "tflite/arguments"
