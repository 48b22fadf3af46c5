"""Models whose inputs decide shapes by their values: calls read them, and find plans by them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import DynamicModel, NnefError
from nnefc.onnx import InferenceSession
from tests.helpers.command_line import Cli
from tests.helpers.onnx.models import save
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results
from tests.helpers.onnx.text_models import parsed

Array = np.ndarray[Any, Any]

X = np.random.default_rng(0).standard_normal((4, 10)).astype(np.float32)
IMAGE = np.random.default_rng(1).standard_normal((1, 2, 5, 6)).astype(np.float32)
TOP_K = "(float[B,10] x, int64[1] k) => (float[B,K] v, int64[B,K] i) {v, i = TopK(x, k)}"
RESHAPE = "(float[B,10] x, int64[n] s) => (float[C,D] y) {r = Reshape(x, s)  y = Softmax(r)}"
PAD = "(float[B,10] x, int64[4] pads) => (float[C,D] y) {y = Pad(x, pads)}"


def ints(*items: int, dtype: Any = np.int64) -> Array:
    return np.array(items, dtype)


def number(item: Any, dtype: Any = np.int64) -> Array:
    return np.array(item, dtype)


def reals(*items: float) -> Array:
    return np.array(items, np.float32)


CASES: dict[str, tuple[str, list[tuple[Array, ...]]]] = {
    "k": (TOP_K, [(X, ints(3)), (X, ints(7)), (X[:2], ints(4)), (X, ints(10))]),
    "pads": (PAD, [(X, ints(0, 1, 2, 3)), (X, ints(0, -1, 0, -2)), (X, ints(0, 0, 0, 0))]),
    "shape": (RESHAPE, [(X, ints(*s)) for s in ((40,), (2, -1), (-1, 8), (0, 5, -1), (5, 2, 4))]),
    "axes": (
        "(float[B,10] x, int64[n] axes) => (float y) {y = ReduceSum<keepdims=0>(x, axes)}",
        [(X, ints(0)), (X, ints(-1)), (X, ints(0, 1)), (X, ints())],
    ),
    "repeats": (
        "(float[B,10] x, int64[2] r) => (float[C,D] y) {y = Tile(x, r)}",
        [(X, ints(2, 1)), (X, ints(3, 4)), (X, ints(0, 2))],
    ),
    "sizes": (
        '(float[1,2,H,W] x, int64[4] s) => (float y) {y = Resize<mode="linear">(x, , , s)}',
        [(IMAGE, ints(1, 2, 10, 12)), (IMAGE, ints(1, 2, 7, 7))],
    ),
    "scales": (
        '(float[1,2,H,W] x, float[4] s) => (float y) {y = Resize<mode="nearest">(x, , s)}',
        [(IMAGE, reals(1, 1, 2, 2)), (IMAGE, reals(1, 1, 1.5, 2.5))],
    ),
    "range": (
        "(float a, float b, float c) => (float[N] y) {y = Range(a, b, c)}",
        [tuple(number(x, np.float32) for x in each) for each in ((0, 5, 1.5), (9, 0, -0.5))],
    ),
    "int32 and data": (
        """(float[B,10] x, int32 k) => (float[C,D] y) {
            rest = Constant<value_ints=[-1]>()
            at = Constant<value_ints=[0]>()
            square = Mul(k, k)
            wide = Cast<to=7>(square)
            rows = Unsqueeze(wide, at)
            shape = Concat<axis=0>(rows, rest)
            r = Reshape(x, shape)
            f = Cast<to=1>(k)
            y = Mul(r, f)
        }""",
        [(X, number(2, np.int32)), (X, number(1, np.int32)), (X[:1], number(1, np.int32))],
    ),
    "steps of a slice": (
        """(float[B,10] x, int64[1] from, int64[1] to, int64[1] axis, int64[1] step)
        => (float[C,D] y) {y = Slice(x, from, to, axis, step)}""",
        [
            (X, *map(ints, each))
            for each in (
                (0, 5, 1, 1),
                (1, 9, 1, 2),
                (-1, -9, 1, -1),
                (0, -1, 0, 1),
                (-9, -11, 0, -3),
            )
        ],
    ),
    "condition": (
        """(float[B,10] x, bool c) => (float y) {
            y = If(c) <
                then_branch = t1 () => (float[B,10] a) {a = Add(x, x)},
                else_branch = t2 () => (float[1,1] b) {b = ReduceSum(x)}
            >
        }""",
        [(X, number(True, np.bool_)), (X, number(False, np.bool_))],
    ),
    "turns": (
        """(float[B,10] x, int64 M) => (float y, float z) {
            y, z = Loop(M, , x) <body = b (int64 i, bool go, float[C,10] s)
                => (bool again, float[D,10] new, float[B,10] out) {
                again = Identity(go)
                new = Concat<axis=0>(s, x)
                f = Cast<to=1>(i)
                out = Mul(x, f)
            }>
        }""",
        [(X, number(3)), (X, number(7)), (X[:1], number(1))],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_onnxruntime(name: str, tmp_path: Path) -> None:
    text, calls = CASES[name]
    made = parsed(text, 18)
    path = save(made, tmp_path / "net.onnx")
    model = nnefc.compile(path, keep=False)
    assert isinstance(model, DynamicModel)
    session = InferenceSession(path)
    names = [each.name for each in session.get_inputs()]
    for inputs in calls:
        expected = onnxruntime_results(made, inputs)
        results = list(model.run(dict(zip(names, inputs, strict=True))).values())
        results += session.run(None, dict(zip(names, inputs, strict=True)))
        for y, want in zip(results, [*expected, *expected], strict=True):
            assert (y.dtype, y.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


def test_one_symbolic_plan_serves_many_values(tmp_path: Path) -> None:
    path = save(parsed(TOP_K), tmp_path / "net.onnx")
    model = nnefc.compile(path)
    assert isinstance(model, DynamicModel)
    assert repr(model) == "<DynamicModel graph(x: [B,10], k: [1] = k_0) -> (v, i)>"
    assert list(map(str, model.output_shapes)) == ["v: [B,k_0]", "i: [B,k_0]"]
    model(X, ints(5))
    path.unlink()  # further plans need neither the front end nor the file
    for k in (3, 7, 9):
        values, _ = model(X, ints(k))
        np.testing.assert_array_equal(values, -np.sort(-X, 1)[:, :k])
    loaded = nnefc.compile(save(parsed(TOP_K), path))  # from the model cache
    assert loaded(X, ints(2))[0].shape == (4, 2)


def test_values_in_files_pickles_and_symbols(tmp_path: Path) -> None:
    model = nnefc.compile(save(parsed(RESHAPE), tmp_path / "net.onnx"), keep=False)
    assert isinstance(model, DynamicModel)
    assert model.outputs[0].shape == (-1, -1)
    want = model(X, ints(8, 5))
    file = tmp_path / "net.nnefc"
    model.save(file)
    for copy in (nnefc.load(file), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copy(X, ints(8, 5)), want)
    with pytest.warns(
        nnefc.NnefWarning, match=r"no plan in the file fits x: \[4,10\], s: \[2,20\]"
    ):
        assert nnefc.load(file)(X, ints(2, 20)).shape == (2, 20)
    assert model.for_shapes({"x": (4, 10), "s": (20, -1)}).outputs[0].shape == (20, 2)

    pad = nnefc.compile(save(parsed(PAD), tmp_path / "pad.onnx"), symbols={"pads_1": -2})
    assert isinstance(pad, DynamicModel)
    assert pad.symbols == ["B", "pads_0", "pads_2", "pads_3"]
    assert pad(X, ints(0, -2, 1, 0)).shape == (5, 8)
    with pytest.raises(
        NnefError, match=r"input 'pads' is \[0, 1, 0, 0\], but pads_1 = -2 is given"
    ):
        pad(X, ints(0, 1, 0, 0))


def test_commands(cli: Cli, tmp_path: Path) -> None:
    path, out = str(save(parsed(PAD), tmp_path / "net.onnx")), str(tmp_path / "y.npy")
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "pads.npy", ints(1, 0, 0, -3, dtype=np.int32))
    x, pads = ("-i", f"x={tmp_path}/x.npy"), ("-i", f"pads={tmp_path}/pads.npy")
    for option in (pads, ("--shape", "pads=1,0,0,-3"), ("--symbol", "pads_3=-3", *pads)):
        assert cli("run", path, *x, *option, "-o", out).status == 0
        np.testing.assert_array_equal(np.load(out), np.pad(X[:, :7], ((1, 0), (0, 0))))
        Path(out).unlink()
    found = cli("compare", path, *x, "--symbol", "pads_1=-2")
    assert (found.status, "no divergence" in found.out) == (0, True)
    assert "9x10" not in found.out
    assert "pads_0, pads_1, pads_2, pads_3" in cli("inspect", path).out
    assert cli("check", path).status == 0
    found = cli("run", path, *x, "--shape", "pads=1,2")
    assert "values of input 'pads': it takes 4 items, not 2" in found.err


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("k", ints(11), r"TopK with result '.': k must be at most .*\(with the input k = \[11\]\)"),
        ("k", ints(1 << 62), r"TopK with result '.': .*k = \[4611686018427387904\]"),
        (
            "k",
            ints(-1),
            r"TopK with result '.': k must be positive: .*\(with the input k = \[-1\]\)",
        ),
        ("k", ints(3, dtype=np.int32), r"input 'k' has type int32, expected int64"),
        ("k", number(3), r"input 'k' has rank 0, expected 1"),
        ("k", ints(3, 3), r"values of input 'k': it takes 1 item, not 2"),
        ("repeats", ints(1 << 20, 1 << 20), r"Tile with result '.': .*\(with the input r = "),
        ("repeats", ints(-1, 1), r"Tile with result '.': repeats = \[-1, 1\]"),
        (
            "pads",
            ints(-20, 0, 0, 0),
            r"Pad with result '.': .*\(with the input pads = \[-20, 0, 0, 0\]\)",
        ),
        ("pads", ints(1 << 40, 0, 0, 0), r"Pad with result '.': .*\(with the input pads = "),
        ("shape", ints(*[1] * 2000), r"input 's' has 2000 items; at most 1024"),
        ("shape", ints(-1, -1), r"Reshape with result '.': .*\(with the input s = \[-1, -1\]\)"),
    ],
)
def test_hostile_values(name: str, values: Array, message: str, tmp_path: Path) -> None:
    text, calls = CASES[name]
    model = nnefc.compile(save(parsed(text, 18), tmp_path / "net.onnx"), keep=False)
    with pytest.raises(NnefError, match=message):
        model(X, values)
    model(*calls[0])  # the model is as before


@pytest.mark.parametrize("declared", ["float[B,?]", "float[]"])
def test_types_of_results_without_possible_samples(declared: str, tmp_path: Path) -> None:
    """No sample is a set of sizes that add up to 10: types are declared, or those of a call."""
    text = f"(float[B,10] x, int64[2] sizes) => ({declared} a, {declared} b)"
    text += "{a, b = Split<axis=1>(x, sizes)}"
    path = save(parsed(text), tmp_path / "net.onnx")
    model = nnefc.compile(path)
    assert isinstance(model, DynamicModel)
    a, b = model(X, ints(3, 7))
    np.testing.assert_array_equal(np.concatenate([a, b], axis=1), X)
    assert [str(each) for each in model.outputs] == ["a: float32[-1,-1]", "b: float32[-1,-1]"]
    if declared == "float[B,?]":
        assert [each.extents for each in model.output_shapes] == [("?", "?")] * 2


def test_memory_of_a_call_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that needs more than there is names the values, and leaves the model as it was."""
    text = "(float[B,10] x, int64[2] r) => (float[C,D] y) {t = Tile(x, r)  y = Softmax(t)}"
    net = nnefc.compile(save(parsed(text), tmp_path / "net.onnx"))
    monkeypatch.setattr("nnefc.dynamic.call_memory.free_memory", lambda: 100_000)
    assert net(X, ints(2, 5)).shape == (8, 50)
    with pytest.raises(NnefError) as error:
        net(X, ints(100, 50))
    (only,) = error.value.errors
    assert only.rule == "limit/memory"
    assert "but 100,000 are free (with the input r = [100, 50])" in only.message
    assert net(X, ints(50, 2)).shape == (200, 20)
