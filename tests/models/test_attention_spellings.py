"""Attention as PyTorch's exporters write it becomes one operation, also with rows without keys."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

import nnefc
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.onnx.models import model, node, tensor, weight
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results, reals

BATCH, TOKENS, HEADS, WIDTH = 2, 6, 2, 8
SCALE = math.sqrt(WIDTH) ** -0.5
"""Exporters multiply both queries and keys by it."""


def attention(*, hides_row: bool) -> ModelProto:
    """Queries, keys and values of x [2, 6, 16], a mask of booleans, and a guard against NaN."""
    mask = np.tril(np.ones((1, 1, TOKENS, TOKENS), np.bool_))
    if hides_row:
        mask[:, :, 2] = False
    nodes = [
        *(node("MatMul", ["x", f"w{i}"], [f"p{i}"]) for i in range(3)),
        *(node("Reshape", [f"p{i}", "heads"], [f"r{i}"]) for i in range(3)),
        node("Transpose", ["r0"], ["q"], perm=[0, 2, 1, 3]),
        node("Transpose", ["r1"], ["k"], perm=[0, 2, 3, 1]),
        node("Transpose", ["r2"], ["v"], perm=[0, 2, 1, 3]),
        *(node("Mul", [each, "scale"], [f"{each}s"]) for each in "qk"),
        node("MatMul", ["qs", "ks"], ["scores"]),
        node("Where", ["mask", "zero", "hidden"], ["added"]),
        node("Add", ["scores", "added"], ["masked"]),
        node("Softmax", ["masked"], ["weights"], axis=-1),
        node("IsNaN", ["weights"], ["nan"]),
        node("Where", ["nan", "zero", "weights"], ["safe"]),
        node("MatMul", ["safe", "v"], ["o"]),
        node("Transpose", ["o"], ["t"], perm=[0, 2, 1, 3]),
        node("Reshape", ["t", "joined"], ["y"]),
    ]
    width = HEADS * WIDTH
    weights = [
        *(weight(f"w{i}", reals(width, width, seed=i)) for i in range(3)),
        weight("heads", np.array([BATCH, TOKENS, HEADS, WIDTH])),
        weight("joined", np.array([BATCH, TOKENS, width])),
        weight("scale", np.array(SCALE, np.float32)),
        weight("zero", np.array(0, np.float32)),
        weight("hidden", np.array(-np.inf, np.float32)),
        weight("mask", mask),
    ]
    x = tensor("x", [BATCH, TOKENS, width])
    return model(nodes, [x], [tensor("y", None, 1)], weights, opset=18)


@pytest.mark.parametrize("hides_row", [False, True])
def test_guarded_attention_is_one_operation(tmp_path: Path, hides_row: bool) -> None:
    made = attention(hides_row=hides_row)
    x = reals(BATCH, TOKENS, HEADS * WIDTH, seed=7)
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    compiled = nnefc.compile(path, threads=1)
    assert isinstance(compiled, CompiledModel)
    kinds = [launch.label.split(" ")[0] for launch in compiled.launches]
    assert "softmax" not in kinds
    assert len(kinds) <= 9
    np.testing.assert_allclose(compiled(x), onnxruntime_results(made, [x])[0], rtol=1e-5, atol=1e-5)


WINDOWS = 3


def attention_in_windows() -> ModelProto:
    """Swin: queries, keys and values of one product; a bias of positions, a mask per window."""
    width = HEADS * WIDTH
    nodes = [
        node("MatMul", ["x", "w"], ["p"]),
        node("Reshape", ["p", "split"], ["r"]),
        node("Transpose", ["r"], ["t"], perm=[2, 0, 3, 1, 4]),
        *(node("Gather", ["t", f"i{i}"], [each], axis=0) for i, each in enumerate("qkv")),
        node("Mul", ["q", "scale"], ["qs"]),
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["qs", "kt"], ["scores"]),
        node("Add", ["scores", "bias"], ["biased"]),
        node("Reshape", ["biased", "windows"], ["apart"]),
        node("Add", ["apart", "mask"], ["masked"]),
        node("Reshape", ["masked", "together"], ["all"]),
        node("Softmax", ["all"], ["weights"], axis=-1),
        node("MatMul", ["weights", "v"], ["o"]),
        node("Transpose", ["o"], ["ot"], perm=[0, 2, 1, 3]),
        node("Reshape", ["ot", "joined"], ["y"]),
    ]
    mask = np.where(np.random.default_rng(0).random((1, WINDOWS, 1, TOKENS, TOKENS)) < 0.3, -100, 0)
    shape = (HEADS, TOKENS, TOKENS)
    weights = [
        weight("w", reals(width, 3 * width, seed=1)),
        weight("split", np.array([WINDOWS, TOKENS, 3, HEADS, WIDTH])),
        *(weight(f"i{i}", np.array(i)) for i in range(3)),
        weight("scale", np.array(SCALE * SCALE, np.float32)),
        weight("bias", reals(1, *shape, seed=2)),
        weight("windows", np.array([1, WINDOWS, *shape])),
        weight("mask", mask.astype(np.float32)),
        weight("together", np.array([WINDOWS, *shape])),
        weight("joined", np.array([WINDOWS, TOKENS, width])),
    ]
    x = tensor("x", [WINDOWS, TOKENS, width])
    return model(nodes, [x], [tensor("y", None, 1)], weights, opset=18)


def test_attention_in_windows_is_one_operation(tmp_path: Path) -> None:
    made = attention_in_windows()
    x = reals(WINDOWS, TOKENS, HEADS * WIDTH, seed=7)
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    compiled = nnefc.compile(path, threads=1)
    assert isinstance(compiled, CompiledModel)
    kinds = [launch.label.split(" ")[0] for launch in compiled.launches]
    assert set(kinds) == {"matmul", "attention"}
    assert len(kinds) <= 3  # attention packs its keys first
    np.testing.assert_allclose(compiled(x), onnxruntime_results(made, [x])[0], rtol=1e-5, atol=1e-5)
