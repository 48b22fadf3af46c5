"""Sessions of models with inputs of any rank are those of onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc import NnefError
from nnefc.onnx import InferenceSession
from tests.helpers.onnx.models import model, node, tensor, weight
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results


def scaled() -> Any:
    """`x` has no shape, and `s` decides the shape of the result."""
    return model(
        [node("Mul", ["x", "w"], ["h"]), node("Reshape", ["h", "s"], ["y"])],
        [tensor("x", None), tensor("s", None, 7)],
        [tensor("y", None)],
        [weight("w", np.array([2.0, 3.0], np.float32))],
    )


def test_each_rank_has_a_model() -> None:
    session = InferenceSession(scaled().SerializeToString())
    assert [(each.name, each.shape) for each in session.get_inputs()] == [("x", []), ("s", [])]
    for shape, wanted in (((2,), [1, 2]), ((3, 2), [6]), ((3, 2), [2, -1]), ((2, 2, 2), [8, 1])):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        (want,) = onnxruntime_results(scaled(), [x, np.array(wanted)])
        (y,) = session.run(None, {"x": x, "s": np.array(wanted)})
        np.testing.assert_array_equal(y, want)
    with pytest.raises(NnefError, match=r"input 's' is missing \[input/name\]"):
        session.run(None, {"x": np.ones(2, np.float32)})
    with pytest.raises(NnefError, match="expected float32"):
        session.run(None, {"x": np.ones(2), "s": np.array([2])})
    with pytest.raises(NnefError, match="inputs without a shape"):
        _ = session.model


def test_a_scalar_shape_is_no_missing_shape() -> None:
    made = model([node("Neg", ["x"], ["y"])], [tensor("x", [])], [tensor("y", [])])
    session = InferenceSession(made.SerializeToString())
    assert session.get_inputs()[0].shape == []
    assert session.run(None, {"x": np.array(2.0, np.float32)})[0] == -2
    with pytest.raises(NnefError, match="input/shape"):
        session.run(None, {"x": np.ones(2, np.float32)})
