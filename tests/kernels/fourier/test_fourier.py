"""Discrete Fourier transforms against the definition, NumPy and PyTorch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Graph, TensorType
from nnefc.lower.movement.fourier import factors
from nnefc.ops.tools.build import emitter
from nnefc.ops.tools.reference import evaluate
from nnefc.passes.canonicalise.canonicalise import Canonicalise
from nnefc.passes.cleanup.eliminate_dead_code import EliminateDeadCode
from tests.helpers.examples import examples
from tests.helpers.kernels.one_op import Array, normal, run, run_graph

torch: Any = pytest.importorskip("torch")
SETTINGS = examples(0.6)


def close(got: Array, want: Array, tolerance: float) -> None:
    """Compare with a tolerance relative to the largest result."""
    joined = got[..., 0] + 1j * got[..., 1]
    assert joined.shape == want.shape
    assert abs(joined - want).max() <= tolerance * max(abs(want).max(), 1)


def complexes(x: Array) -> Array:
    return x[..., 0].astype(np.float64) + 1j * x[..., 1]


def test_factors_are_fours_and_primes() -> None:
    for n in range(1, 3000):
        found = factors(n)
        assert math.prod(found) == n
        assert all(f == 4 or all(f % d for d in range(2, math.isqrt(f) + 1)) for f in found)
        assert found.count(2) <= 1


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 6, 8, 13, 15, 16, 77, 400, 512, 1009])
def test_against_the_definition(length: int, inverse: bool) -> None:
    x = normal(length, 3, length, 2)
    powers = np.outer(np.arange(length), np.arange(length)) % length
    matrix = np.exp((2j if inverse else -2j) * np.pi / length * powers)
    close(run("fft", x, axis=1, inverse=inverse), complexes(x) @ matrix, 1e-5)


@SETTINGS
@given(st.data())
def test_transforms_along_any_axis_match_numpy(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    shape = (*shape[:axis], data.draw(st.integers(1, 70)), *shape[axis + 1 :])
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    x = normal(data.draw(st.integers(0, 9)), *shape, 2, dtype=dtype)
    threads = data.draw(st.sampled_from([1, 3]))
    got = run("fft", x, axis=axis, threads=threads, at_end=data.draw(st.booleans()))
    close(got, np.fft.fft(complexes(x), axis=axis), 1e-5 if dtype == "float32" else 1e-13)


@SETTINGS
@given(st.data())
def test_short_time_transforms_match_pytorch(data: st.DataObject) -> None:
    frame = data.draw(st.integers(1, 40))
    stride = data.draw(st.integers(1, 50))
    count = data.draw(st.integers(1, frame))
    x = normal(data.draw(st.integers(0, 9)), 3, frame + data.draw(st.integers(0, 90)), 2)
    window = normal(7, count)
    want = torch.stft(
        torch.from_numpy(complexes(x)),
        frame,
        hop_length=stride,
        win_length=count,
        window=torch.from_numpy(window.astype(np.float64)),
        center=False,
        onesided=False,
        return_complex=True,
    ).numpy()
    threads = data.draw(st.sampled_from([1, 3]))
    options: dict[str, Any] = {"axis": 1, "frame": frame, "stride": stride, "threads": threads}
    close(run("stft", x, window, **options), want.transpose(0, 2, 1), 1e-5)


def test_frames_along_an_inner_axis() -> None:
    x = normal(1, 2, 50, 3, 2)
    starts = range(0, 50 - 16 + 1, 5)
    frames = np.stack([complexes(x)[:, s : s + 16] for s in starts], 1)
    got = run("stft", x, axis=1, frame=16, stride=5)
    close(got, np.fft.fft(frames, axis=2), 1e-5)


@SETTINGS
@given(st.data())
def test_transforms_of_real_signals_match_numpy(data: st.DataObject) -> None:
    """Two real frames are transformed as one complex frame."""
    frame = data.draw(st.integers(1, 40))
    x = normal(data.draw(st.integers(0, 9)), data.draw(st.integers(1, 40)), frame + 23, 1)
    bins = data.draw(st.integers(0, frame))
    stride = data.draw(st.integers(1, 30))
    starts = range(0, 24, stride)
    frames = np.stack([x[:, s : s + frame, 0] for s in starts], 1).astype(np.float64)
    threads = data.draw(st.sampled_from([1, 3]))
    options: dict[str, Any] = {"axis": 1, "bins": bins, "threads": threads}
    got = run("stft", x, frame=frame, stride=stride, **options)
    close(got, np.fft.fft(frames)[..., : bins or frame], 1e-5)
    got = run("fft", x, **options)
    close(got, np.fft.fft(x[..., 0].astype(np.float64))[:, : bins or frame + 23], 1e-5)


def spectrogram(name: str, **attributes: Any) -> Graph:
    """A graph: the first results of the transform of real numbers, with imaginary parts of zero."""
    graph = Graph(name)
    x = graph.add_input(TensorType(DType.FLOAT32, (2, 40, 1)), "x")
    padding = ((0, 0), (0, 0), (0, 1))
    emit = emitter(graph, None)
    y = emit(name, emit("pad", x, padding=padding), axis=1, **attributes)
    axis = 2 if name == "stft" else 1
    graph.add_output(emit("slice", y, axes=(axis,), begin=(0,), end=(9,)), "y")
    return graph


@pytest.mark.parametrize(
    ("name", "attributes"),
    [("stft", {"frame": 16, "stride": 4}), ("fft", {}), ("fft", {"inverse": True})],
)
def test_zeros_and_unused_results_are_not_computed(name: str, attributes: dict[str, Any]) -> None:
    graph = spectrogram(name, **attributes)
    x = normal(1, 2, 40, 1)
    want = evaluate(graph, {"x": x}).outputs["y"]
    Canonicalise().run(graph)
    EliminateDeadCode().run(graph)
    names = [op.name for op in graph.ops if op.name != "constant"]
    assert names == (["pad", name] if "inverse" in attributes else [name])
    np.testing.assert_allclose(run_graph(graph, x)[0], want, rtol=1e-4, atol=1e-5)
