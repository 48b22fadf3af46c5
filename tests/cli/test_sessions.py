"""`bench`, `profile` and `compare` of models with symbols and states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.cli.support.session_calls import split_symbols
from tests.cli.test_tract import NON_ZERO, TEXT
from tests.helpers.command_line import Cli

DECODER = TEXT.replace("extension tract_assert S >= 3;\nextension tract_assert B < S;\n", "")
"""Without assertions: a later call appends the items of S = 1."""
BENCH = ("--duration", "0.02", "--warmup", "0", "--json")
VALUES = ("--symbol", "B=1", "--symbol", "S=8")


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text.nnef"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture
def decoder(tmp_path: Path) -> str:
    path = tmp_path / "decoder.nnef"
    path.write_text(DECODER)
    return str(path)


def test_compare_runs_a_session(cli: Cli, decoder: str) -> None:
    facts = json.loads(cli("compare", decoder, *VALUES, "--json").out)
    assert facts["symbols"] == {"B": 1, "S": 8}
    assert facts["chosen_symbols"] == []
    assert facts["later_symbols"] == {"B": 1, "S": 1}
    shapes = {
        (r["call"], r["tensor"]): r["shape"] for r in facts["tensors"] if r["kind"] != "tensor"
    }
    assert shapes == {
        (1, "y"): [1, 16, 16],
        (1, "n"): [1, 16, 4],
        (1, "keys"): [1, 16, 4],
        (2, "y"): [1, 2, 18],
        (2, "n"): [1, 2, 4],
        (2, "keys"): [1, 18, 4],
        (3, "y"): [1, 2, 20],
        (3, "n"): [1, 2, 4],
        (3, "keys"): [1, 20, 4],
    }
    assert {r["operation"] for r in facts["tensors"] if r["call"] == 2} >= {"matmul"}
    assert 0 < max(r["error"] for r in facts["tensors"]) < 1e-5


def test_compare_tells_the_call_that_diverges(
    cli: Cli, decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = cli("compare", decoder, *VALUES, "--tolerance", "0")
    assert found.status == 1
    assert "first divergence: " in found.out
    from nnefc.dynamic.session import Session

    original = Session.run

    def wrong(session: Session, inputs: dict[str, object]) -> dict[str, object]:
        results = original(session, inputs)
        grown = session.shapes["keys"][1] > 16  # the second call
        return {name: y + 1 if grown and name == "y" else y for name, y in results.items()}

    monkeypatch.setattr(Session, "run", wrong)
    facts = json.loads(cli("compare", decoder, *VALUES, "--steps", "2", "--json").out)
    bad = [(r["call"], r["tensor"], r["kind"]) for r in facts["tensors"] if r["error"] > 1e-4]
    assert bad == [(2, "y", "output")]


def test_compare_with_values_for_later_calls(cli: Cli, text: str) -> None:
    found = cli("compare", text, "--symbol", "B=2", "--symbol", "S=5,3", "--steps", "2")
    assert found.status == 0
    assert "symbols B = 2, S = 5; in later calls S = 3" in found.out
    assert "2x16x4" in found.out
    refused = cli("compare", text, "--symbol", "B=2", "--symbol", "S=5,2")
    assert refused.status == 1
    assert "S >= 3 does not hold: S = 2" in refused.err


def test_compare_repeats_the_arrays_of_files(cli: Cli, decoder: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((1, 6, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    facts = json.loads(cli("compare", decoder, "-i", tmp_path / "x.npy", "--json").out)
    states = [r["shape"] for r in facts["tensors"] if r["kind"] == "state"]
    assert states == [[1, 6, 4], [1, 12, 4], [1, 18, 4]]


def test_compare_cuts_results_to_size(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "places.nnef"
    path.write_text(NON_ZERO)
    np.save(tmp_path / "x.npy", np.eye(4, dtype=np.float32))
    facts = json.loads(cli("compare", path, "-i", tmp_path / "x.npy", "--json").out)
    (result,) = [r for r in facts["tensors"] if r["kind"] == "output"]
    assert result["call"] == 1
    assert result["shape"] == [2, 4]
    assert result["error"] == 0


def test_bench_measures_a_prompt_and_tokens(cli: Cli, decoder: str, tmp_path: Path) -> None:
    shown = cli("bench", decoder, *VALUES, "-t", "1,2", *BENCH)
    facts = json.loads(shown.out)
    assert facts["symbols"] == {"B": 1, "S": 8}
    assert facts["later_symbols"] == {"B": 1, "S": 1}
    found = [
        (r["call"], r["threads"], r["items"], r["past_items"], r["symbols"]["S"])
        for r in facts["results"]
    ]
    assert found == [
        ("first", 1, 16, 0, 8),
        ("later", 1, 2, 16, 1),
        ("first", 2, 16, 0, 8),
        ("later", 2, 2, 16, 1),
    ]
    later: dict[str, Any] = facts["results"][1]
    mean_ms = sum(later["samples_ms"]) / len(later["samples_ms"])
    assert later["per_second"] == pytest.approx(2e3 / mean_ms, rel=0.5)
    (tmp_path / "before.json").write_text(shown.out)
    compared = cli("bench", decoder, *VALUES, *BENCH[:-1], "--compare", tmp_path / "before.json")
    assert "later" in compared.out.split("compared with")[1]
    table = cli("bench", decoder, *VALUES, *BENCH[:-1], "--streams", "2").out
    assert "tokens/s" in table
    assert "in later calls S = 1" in table


def test_bench_chooses_values(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "places.nnef"
    path.write_text(NON_ZERO.replace("tract_onnx_non_zero(x)", "x * 2.0"))
    facts = json.loads(cli("bench", path, *BENCH).out)
    assert facts["chosen_symbols"] == ["S"]
    assert "symbols S = 4 (chosen)" in cli("bench", path, *BENCH[:-1]).out


@pytest.mark.slow
def test_profile_chooses_a_call(cli: Cli, decoder: str) -> None:
    profile = ("profile", decoder, *VALUES, "--duration", "0.02", "--json")
    flops: list[float] = []
    for call in ("1", "2", "4"):
        facts = json.loads(cli(*profile, "--call", call).out)
        assert facts["later_symbols"]["S"] == 1
        flops.append(sum(r["flops"] for r in facts["rows"] if "matmul" in r["name"]))
    assert flops == [9 * n for n in (16 * 16, 2 * 18, 2 * 22)]  # 4 products, 4 sums, a division
    assert json.loads(cli(*profile).out)["rows"]


def test_calls_of_models_without_states(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "plain.nnef"
    path.write_text(NON_ZERO.replace("tract_onnx_non_zero(x)", "x * 2.0"))
    for command in (("compare", "--steps", "2"), ("profile", "--call", "2")):
        assert "the model keeps no states" in cli(command[0], path, *command[1:]).err
    for command in ("bench", "compare", "profile"):
        found = cli(command, path, "--symbol", "S=8,1")
        assert "--symbol S has two values, but the model keeps no states" in found.err
    assert (
        "expected NAME=VALUE with a whole number" in cli("compile", path, "--symbol", "S=8,1").err
    )


def test_two_values_are_split() -> None:
    assert split_symbols(["S=8,1", "B=2", "T=1,2,3"]) == (["S=8", "B=2", "T=1,2,3"], ["S=1"])
