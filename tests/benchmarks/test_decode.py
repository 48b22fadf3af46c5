"""The decoder of `benchmarks.decode`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnefc
from benchmarks.decode import EIGHT_BITS, LOADERS, REWIND, SMALL
from benchmarks.language import decoder
from benchmarks.language.decoder import Call


@pytest.mark.parametrize("call", [Call(1), Call(6), Call(0, 9)])
def test_all_types_of_weights_are_the_same_model(call: Call, tmp_path: Path) -> None:
    """Keys, values and the results of onnxruntime agree too."""
    ort = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from benchmarks.language import onnx_file

    path, given = tmp_path / "decoder.onnx", decoder.inputs(SMALL, call)
    onnx_file.write(path, SMALL, call)
    wanted = ort.InferenceSession(str(path)).run(decoder.outputs(SMALL), given)
    for stored in decoder.STORED:
        decoder.write(tmp_path / stored, SMALL, call, stored)
        got = nnefc.compile(tmp_path / stored, accuracy="strict").run(given)
        for name, want in zip(decoder.outputs(SMALL), wanted, strict=True):
            np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-4, err_msg=name)


def test_written_weights_have_the_documented_size(tmp_path: Path) -> None:
    for stored in decoder.STORED:
        decoder.write(tmp_path / stored, SMALL, Call(1), stored)
        sizes = [path.stat().st_size - 128 for path in (tmp_path / stored).rglob("*.dat")]
        gains = 4 * SMALL.width * len(SMALL.gains())
        assert sum(sizes) == SMALL.weight_bytes(stored) + gains


def test_a_prompt_gives_the_results_of_single_steps(tmp_path: Path) -> None:
    """The keys and values of each step are inputs of the next one."""
    prompt = decoder.inputs(SMALL, Call(0, 5))
    decoder.write(tmp_path, SMALL, Call(0, 5), "float32")
    wanted = nnefc.compile(tmp_path).run(prompt)
    kept: dict[str, decoder.Array] = {}
    scores = np.empty(0)
    for past in range(5):
        given = {"token": prompt["token"][past : past + 1]}
        given |= {name: prompt[name][:, :, past : past + 1] for name in ("cosine", "sine")}
        decoder.write(tmp_path, SMALL, Call(past), "float32")
        step = nnefc.compile(tmp_path).run(given | kept)
        scores = step["scores"]
        for i in range(SMALL.layers):
            for name, new in ((f"keys{i}", f"key{i}"), (f"values{i}", f"value{i}")):
                parts = [kept[name], step[new]] if past else [step[new]]
                kept[name] = np.concatenate(parts, axis=2)
                np.testing.assert_allclose(
                    kept[name], wanted[new][:, :, : past + 1], rtol=1e-4, atol=1e-4
                )
    np.testing.assert_allclose(scores, wanted["scores"], rtol=1e-4, atol=1e-4)


def test_keys_and_values_as_states_give_the_same_scores(tmp_path: Path) -> None:
    first, second = (
        LOADERS["nnefc"](tmp_path / str(stateful), SMALL, Call(5, stateful=stateful), "float32", 1)
        for stateful in (False, True)
    )
    wanted = first()
    for i in range(REWIND + 1):
        if i % REWIND == 0:
            np.testing.assert_allclose(second(), wanted, rtol=1e-4, atol=1e-4)
        else:
            assert np.abs(second() - wanted).max() > 1e-3  # the cache has grown by further tokens


@pytest.mark.parametrize("call", [Call(3), Call(0, 4)])
def test_a_call_returns_a_score_for_each_token(call: Call, tmp_path: Path) -> None:
    step = LOADERS["nnefc"](tmp_path, SMALL, call, "q4_0", 1)
    assert step().shape == (1, SMALL.vocabulary)


@pytest.mark.parametrize("stored", decoder.STORED)
def test_llama_cpp_runs_the_same_model(stored: str, tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp")
    pytest.importorskip("gguf")
    scores, others = (
        LOADERS[engine](tmp_path, SMALL, Call(0, 9), stored, 1)()
        for engine in ("nnefc", "llama_cpp")
    )
    assert np.abs(scores - others).max() <= EIGHT_BITS * np.abs(scores).max()
