"""`nnefc compare --against`: results of another engine, here NumPy, by the names of outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from tests.cli.test_sessions import DECODER
from tests.cli.test_tract import NON_ZERO
from tests.helpers.command_line import Cli

Array = np.ndarray[Any, Any]

DOCUMENT = """\
version 1.0;
extension KHR_enable_operator_expressions;
graph g( x, w ) -> ( y, positive )
{
    x = external(shape = [2, 3]);
    w = external(shape = [3, 2]);
    y = matmul(x, w);
    positive = y > 0.0;
}
"""
SINGLE = "version 1.0;\ngraph g( x ) -> ( y ) { x = external(shape = [4]); y = log(x); }\n"


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "graph.nnef"
    path.write_text(DOCUMENT)
    return path


@pytest.fixture
def arrays() -> dict[str, Array]:
    """Inputs and results."""
    generator = np.random.default_rng(1)
    x, w = generator.standard_normal((2, 3)), generator.standard_normal((3, 2))
    x, w = x.astype(np.float32), w.astype(np.float32)
    y = x.astype(float) @ w.astype(float)
    return {"x": x, "w": w, "y": y, "positive": y > 0}


def savez(path: Path, arrays: dict[str, Array]) -> None:
    """Write arrays by name, as another engine would."""
    write: Any = np.savez
    write(path, **arrays)


def rows(out: str) -> list[tuple[str, str, bool]]:
    return [(r["tensor"], r["kind"], r["agrees"]) for r in json.loads(out)["tensors"]]


BOTH = [("y", "against", True), ("positive", "against", True)]


def test_one_file_may_have_inputs_and_outputs(
    cli: Cli, net: Path, arrays: dict[str, Array], tmp_path: Path
) -> None:
    savez(tmp_path / "io.npz", arrays)
    found = cli(
        "compare", net, "-i", tmp_path / "io.npz", "--against", tmp_path / "io.npz", "--json"
    )
    assert found.status == 0
    assert found.err == ""
    assert rows(found.out) == BOTH
    shown = cli("compare", net, "-i", tmp_path / "io.npz", "--against", tmp_path / "io.npz")
    assert "no divergence" in shown.out
    assert "against" in shown.out


def test_differences_are_found(
    cli: Cli, net: Path, arrays: dict[str, Array], tmp_path: Path
) -> None:
    scale = np.abs(arrays["y"]).max()
    arrays["y"][1, 1] += 0.01 * scale
    arrays["positive"] = ~arrays["positive"]
    savez(tmp_path / "io.npz", arrays)
    options = ("-i", tmp_path / "io.npz", "--against", tmp_path / "io.npz")
    found = cli("compare", net, *options, "--json")
    assert found.status == 1
    assert json.loads(found.out)["first_divergence"] == "y"
    assert rows(found.out) == [("y", "against", False), ("positive", "against", False)]
    errors = [row["error"] for row in json.loads(found.out)["tensors"]]
    assert errors == [pytest.approx(0.01, rel=0.1), 1]
    assert rows(cli("compare", net, *options, "--tolerance", 0.1, "--json").out)[0][2]


@pytest.mark.parametrize("suffix", [".npy", ".dat"])
def test_folders_and_files_of_single_outputs(
    cli: Cli, net: Path, arrays: dict[str, Array], tmp_path: Path, suffix: str
) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    for name, array in arrays.items():
        if suffix == ".npy":
            np.save(folder / f"{name}.npy", array)
        else:
            nnefc.write_tensor(folder / f"{name}.dat", array)
    (folder / "notes.txt").write_text("")
    np.savez(tmp_path / "in.npz", x=arrays["x"], w=arrays["w"])
    inputs = ("-i", tmp_path / "in.npz", "--json")
    assert rows(cli("compare", net, *inputs, "--against", folder).out) == BOTH
    files = [f"{name}={folder / name}{suffix}" for name in ("positive", "y")]
    found = cli("compare", net, *inputs, "--against", files[0], "--against", files[1])
    assert sorted(rows(found.out)) == sorted(BOTH)


def test_the_results_of_run_can_be_read_again(cli: Cli, tmp_path: Path) -> None:
    """Names that no file can have are found by the file that `run -o` writes."""
    from nnefc.cli.compare.against import read_against

    (tmp_path / "a_b.dat").touch()
    nnefc.write_tensor(tmp_path / "a_b.dat", np.ones(2, np.float32))
    found = read_against([str(tmp_path)], ["a/b"], [])
    assert list(found.turns[0]) == ["a/b"]


def test_a_model_with_one_output_needs_no_name(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(SINGLE)
    x = np.array([1, 2, 0, -1], np.float32)
    np.save(tmp_path / "x.npy", x)
    with np.errstate(all="ignore"):
        np.save(tmp_path / "y.npy", np.log(x.astype(np.float16)))
    command = ("compare", path, "-i", tmp_path / "x.npy", "--against", tmp_path / "y.npy")
    found = cli(*command, "--tolerance", 1e-3, "--json")
    (row,) = json.loads(found.out)["tensors"]
    assert found.status == 0
    assert (row["nan_in_both"], row["inf_equal"]) == (1, 1)
    assert "without --against" in cli(*command, "--tolerance", 1e-3).out


def test_all_errors_are_reported_at_once(
    cli: Cli, net: Path, arrays: dict[str, Array], tmp_path: Path
) -> None:
    arrays["y"], arrays["positive"] = arrays["y"].reshape(4), arrays["positive"] * 1.5
    savez(tmp_path / "io.npz", arrays)
    both = ("-i", tmp_path / "io.npz", "--against", tmp_path / "io.npz")
    found = cli("compare", net, *both)
    assert found.status == 1
    assert "output 'y' has shape [2, 2], the array [4] [input/shape]" in found.err
    assert "it has as many items" in found.err
    assert "output 'positive' is bool, the array float64 [input/dtype]" in found.err
    assert str(tmp_path / "io.npz") in found.err


def test_wrong_names(cli: Cli, net: Path, arrays: dict[str, Array], tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=arrays["x"], w=arrays["w"])
    np.savez(tmp_path / "odd.npz", Y=arrays["y"], x=arrays["x"])
    np.save(tmp_path / "y.npy", arrays["y"])
    (tmp_path / "none").mkdir()

    def refused(*options: object) -> str:
        against = [item for option in options for item in ("--against", option)]
        found = cli("compare", net, "-i", tmp_path / "in.npz", *against)
        assert found.status == 1
        assert found.out == ""
        return found.err

    message = refused(tmp_path / "odd.npz")
    assert "no array for output 'y' [input/name]" in message
    assert "no array for output 'positive'" in message
    assert "the other arrays are named Y\n" in message
    assert "for which output?" in refused(tmp_path / "y.npy")
    assert "no output named z" in refused(f"z={tmp_path / 'y.npy'}")
    assert "is in" in refused(f"y={tmp_path / 'y.npy'}", f"y={tmp_path / 'y.npy'}")
    assert "no .npy" in refused(tmp_path / "none")
    message = refused(f"z={tmp_path / 'y.npy'}", tmp_path / "absent.npz", tmp_path / "none")
    assert message.count("error:") == 3


def test_other_arrays_are_noted(
    cli: Cli, net: Path, arrays: dict[str, Array], tmp_path: Path
) -> None:
    savez(tmp_path / "io.npz", {**arrays, "hidden": np.zeros(3)})
    found = cli("compare", net, "-i", tmp_path / "io.npz", "--against", tmp_path / "io.npz")
    assert found.status == 0
    assert "are not compared: hidden" in found.err


def test_the_inputs_must_be_known(
    cli: Cli, net: Path, arrays: dict[str, Array], tmp_path: Path
) -> None:
    """Results belong to inputs; random ones must be asked for."""
    np.savez(tmp_path / "out.npz", y=arrays["y"], positive=arrays["positive"])
    np.save(tmp_path / "x.npy", arrays["x"])
    against = ("-i", f"x={tmp_path / 'x.npy'}", "--against", tmp_path / "out.npz")
    refused = cli("compare", net, *against)
    assert refused.status == 1
    assert "no data for w (float32[3,2])" in refused.err
    assert "x (" not in refused.err
    assert cli("compare", net, *against, "--random-inputs", 0, "--json").out.count('"against"') == 2


def attention(tokens: list[Array]) -> dict[str, Array]:
    """The results of DECODER for each call, by the names of files."""
    found: dict[str, Array] = {}
    for turn, x in enumerate(tokens):
        past = np.concatenate(tokens[: turn + 1], axis=1).astype(float)
        found |= {
            f"turn_{turn}/x": x,
            f"turn_{turn}/y": x @ past.transpose(0, 2, 1) / 2,
            f"turn_{turn}/n": x,
        }
    return found


@pytest.fixture
def decoder(tmp_path: Path) -> Path:
    path = tmp_path / "decoder.nnef"
    path.write_text(DECODER)
    return path


@pytest.fixture
def session() -> dict[str, Array]:
    generator = np.random.default_rng(2)
    lengths = (6, 2, 4)
    return attention([generator.standard_normal((1, n, 4)).astype(np.float32) for n in lengths])


def test_calls_of_a_session(
    cli: Cli, decoder: Path, session: dict[str, Array], tmp_path: Path
) -> None:
    path = tmp_path / "session.npz"
    savez(path, session)
    found = cli("compare", decoder, "-i", path, "--against", path, "--json")
    assert found.status == 0
    facts = json.loads(found.out)
    assert [(r["call"], r["tensor"], r["shape"]) for r in facts["tensors"] if r["agrees"]] == [
        (1, "y", [1, 6, 6]),
        (1, "n", [1, 6, 4]),
        (2, "y", [1, 2, 8]),
        (2, "n", [1, 2, 4]),
        (3, "y", [1, 4, 12]),
        (3, "n", [1, 4, 4]),
    ]
    assert (facts["symbols"]["S"], facts["later_symbols"]["S"]) == (3, 1)
    two = cli("compare", decoder, "-i", path, "--against", path, "--steps", 2, "--json")
    assert {row["call"] for row in json.loads(two.out)["tensors"]} == {1, 2}


def test_a_wrong_call_of_a_session(
    cli: Cli, decoder: Path, session: dict[str, Array], tmp_path: Path
) -> None:
    session["turn_1/y"] = session["turn_1/y"] + 1
    savez(tmp_path / "session.npz", session)
    files = ("-i", tmp_path / "session.npz", "--against", tmp_path / "session.npz")
    found = cli("compare", decoder, *files, "--json")
    assert found.status == 1
    bad = [(r["call"], r["tensor"]) for r in json.loads(found.out)["tensors"] if not r["agrees"]]
    assert bad == [(2, "y")]


def test_errors_of_sessions(
    cli: Cli, decoder: Path, session: dict[str, Array], tmp_path: Path
) -> None:
    def refused(arrays: dict[str, Array], *options: object) -> str:
        savez(tmp_path / "session.npz", arrays)
        files = ("-i", tmp_path / "session.npz", "--against", tmp_path / "session.npz")
        found = cli("compare", decoder, *files, *options)
        assert found.status == 1
        return found.err

    without = {name: x for name, x in session.items() if name != "turn_1/y"}
    assert "no array for output 'turn_1/y'" in refused(without)
    wrong = {**session, "turn_1/y": np.zeros((1, 2, 7)), "turn_2/n": np.zeros((1, 4, 4), int)}
    message = refused(wrong)
    assert "output 'turn_1/y' has shape [1, 2, 8], the array [1, 2, 7]" in message
    assert "output 'turn_2/n' is float32, the array int64" in message
    assert "--against has results of 3 of 4 calls" in refused(session, "--steps", 4)
    first = {name: x for name, x in session.items() if name != "turn_1/x"}
    assert "the files have turn_2/..., but not turn_1/..." in refused(first)
    short = {name: x for name, x in session.items() if not name.startswith("turn_2/x")}
    assert "no data for x (float32[1,2,4]) of call 3" in refused(short, "--symbol", "S=3,1")


def test_an_input_of_a_call_is_there_once(
    cli: Cli, decoder: Path, session: dict[str, Array], tmp_path: Path
) -> None:
    savez(tmp_path / "in.npz", {"x": session["turn_0/x"], **session})
    refused = cli("compare", decoder, "-i", tmp_path / "in.npz")
    assert refused.status == 1
    assert "turn_0/x and x are the same input" in refused.err


def test_sessions_in_folders(
    cli: Cli, decoder: Path, session: dict[str, Array], tmp_path: Path
) -> None:
    savez(tmp_path / "in.npz", {n: x for n, x in session.items() if n.endswith("/x")})
    for name, array in session.items():
        file = tmp_path / "results" / f"{name}.npy"
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, array)
    found = cli(
        "compare", decoder, "-i", tmp_path / "in.npz", "--against", tmp_path / "results", "--json"
    )
    assert found.status == 0
    assert len(json.loads(found.out)["tensors"]) == 6


def test_the_turns_of_inputs_serve_the_reference_too(
    cli: Cli, decoder: Path, session: dict[str, Array], tmp_path: Path
) -> None:
    savez(tmp_path / "in.npz", {n: x for n, x in session.items() if n.endswith("/x")})
    facts = json.loads(cli("compare", decoder, "-i", tmp_path / "in.npz", "--json").out)
    states = [row["shape"] for row in facts["tensors"] if row["kind"] == "state"]
    assert states == [[1, 6, 4], [1, 8, 4], [1, 12, 4]]
    found = cli("run", decoder, "-i", tmp_path / "in.npz", "--json")
    assert "arrays of later calls are not used" in found.err
    assert json.loads(found.out)["y"]["shape"] == [1, 6, 6]


def test_turns_need_states(cli: Cli, net: Path, arrays: dict[str, Array], tmp_path: Path) -> None:
    savez(tmp_path / "io.npz", {**arrays, **{f"turn_1/{n}": x for n, x in arrays.items()}})
    refused = cli("compare", net, "-i", tmp_path / "io.npz", "--against", tmp_path / "io.npz")
    assert refused.status == 1
    assert "keeps no states" in refused.err


@pytest.mark.parametrize("count", [2, 3])
def test_extents_that_a_run_determines(cli: Cli, tmp_path: Path, count: int) -> None:
    path = tmp_path / "places.nnef"
    path.write_text(NON_ZERO)
    x = np.diag([1] * 3 + [0]).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", np.stack(np.nonzero(x))[:, :count])
    found = cli(
        "compare", path, "-i", tmp_path / "x.npy", "--against", tmp_path / "y.npy", "--json"
    )
    assert found.status == (0 if count == 3 else 1)
    assert json.loads(found.out)["tensors"][0]["agrees"] is (count == 3)
