"""Commands with ONNX files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import nnefc
from tests.helpers.command_line import Cli
from tests.helpers.onnx.models import model, node, passing, save, tensor
from tests.helpers.onnx.text_models import parsed


@pytest.fixture(params=[2, "batch"], ids=["static", "symbolic"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    np.savez(tmp_path / "in.npz", x=np.ones((2, 3), np.float32))
    return str(save(passing(request.param), tmp_path / "net.onnx"))


@pytest.mark.parametrize(
    "command",
    [
        ["run", "-i", "IN"],
        ["compile", "-s", "x=2,3"],
        ["compile", "-s", "x=2,3", "-o", "OUT"],
        ["inspect"],
        ["check"],
        ["bench", "-s", "x=2,3", "--duration", "0.02"],
        ["profile", "-s", "x=2,3", "--duration", "0.02"],
        ["compare", "-i", "IN"],
        ["tune", "-s", "x=2,3"],
        ["cache", "explain", "-s", "x=2,3"],
        ["cache", "warm"],
    ],
    ids=" ".join,
)
def test_commands_take_onnx_files(cli: Cli, path: str, command: list[str]) -> None:
    folder = Path(path).parent
    places = {"IN": str(folder / "in.npz"), "OUT": str(folder / "net.nnefc")}
    words = [places.get(word, word) for word in command]
    first = 2 if words[0] == "cache" else 1
    result = cli(*words[:first], path, *words[first:])
    assert result.status == 0, result.err


def test_inspect_shows_versions_and_symbols(cli: Cli, tmp_path: Path) -> None:
    path = str(save(passing("batch"), tmp_path / "net.onnx"))
    facts = json.loads(cli("inspect", path, "--json").out)
    assert facts["dialect"] == "onnx"
    assert facts["onnx"]["opsets"] == {"ai.onnx": 17}
    assert facts["onnx"]["symbols"] == ["batch"]
    assert facts["inputs"][0]["symbolic_shape"] == ["batch", "3"]
    text = cli("inspect", path).out
    assert "ONNX, operators ai.onnx 17" in text
    assert "symbols batch" in text


def test_models_without_their_external_data(cli: Cli, tmp_path: Path) -> None:
    path = str(save(passing("batch"), tmp_path / "net.onnx", external="w.bin"))
    np.savez(tmp_path / "in.npz", x=np.ones((2, 3), np.float32))
    (tmp_path / "w.bin").unlink()
    inputs = str(tmp_path / "in.npz")
    for words in (
        ["check", path],
        ["inspect", path],
        ["run", path, "-i", inputs, "--random-weights", "1"],
    ):
        result = cli(*words)
        assert result.status == 0, result.err
    result = cli("run", path, "-i", inputs)
    assert result.status == 1
    assert "tensor 'w': no such file [onnx/external]" in result.err


def test_errors_are_lines(cli: Cli, tmp_path: Path) -> None:
    made = model([node("Nope", ["x"], ["y"])], [tensor("x", [2])], [tensor("y", [2])])
    path = str(save(made, tmp_path / "net.onnx"))
    for result in (cli("check", path), cli("run", path)):
        assert result.status == 1
        assert "ai.onnx.Nope" in result.err
        assert "Traceback" not in result.err


ESCAPE = "\x1b[31m"


def test_control_characters_of_names_are_written_out(cli: Cli, tmp_path: Path) -> None:
    made = model(
        [node("Relu", [f"x{ESCAPE}"], [f"y{ESCAPE}"])],
        [tensor(f"x{ESCAPE}", [f"N{ESCAPE}", 3])],
        [tensor(f"y{ESCAPE}", [f"N{ESCAPE}", 3])],
    )
    made.producer_name = f"maker{ESCAPE}"
    path = save(made, tmp_path / "net.onnx")
    plan = ("--symbol", f"N{ESCAPE}=2", "-o", tmp_path / "net.nnefc")
    for words in (
        ["inspect", path],
        ["bench", path, "--duration", "0.01", "--no-cold"],
        ["compile", path, "--dynamic", *plan],
        ["inspect", tmp_path / "net.nnefc"],
    ):
        result = cli(*words)
        assert result.status == 0, result.err
        assert "\x1b" not in result.out + result.err
        assert "N\\x1b[31m" in result.out


def test_names_of_symbols_may_have_spaces(cli: Cli, tmp_path: Path) -> None:
    path = save(passing("batch size"), tmp_path / "net.onnx")
    text = cli("inspect", path).out
    assert "symbols batch size" in text and "x: [batch size, 3]" in text
    assert "batchsize" not in text + repr(nnefc.compile(path))
    result = cli("compile", path, "--dynamic", "-o", tmp_path / "net.nnefc")
    assert "--symbol 'batch size=16'" in result.err
    x = np.ones((5, 3), np.float32)
    np.testing.assert_array_equal(nnefc.compile(path, symbols={"batch size": 5})(x)[0], x)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["run", "--random-inputs", "1"], "files of inputs give symbols their values"),
        (["tune"], "tuning measures known shapes"),
        (["flatten"], "a flat document has known shapes"),
        (["compile"], "--dynamic keeps symbols"),
    ],
)
def test_commands_that_need_symbols_say_why(
    cli: Cli, tmp_path: Path, words: list[str], why: str
) -> None:
    path = save(passing("batch"), tmp_path / "net.onnx")
    result = cli(words[0], path, *words[1:])
    assert result.status == 1
    assert f"{why}" in result.err
    assert "'batch' has no value" in result.err
    assert "--shape x=EXTENTS or --symbol NAME=VALUE" in result.err
    assert "--symbol" in " ".join(cli(words[0], "--help").out.split())


@pytest.mark.parametrize("command", ["bench", "profile", "compare"])
def test_values_that_a_command_chose_are_named_where_they_do_not_fit(
    cli: Cli, tmp_path: Path, command: str
) -> None:
    """A decoder takes a mask of all tokens, past and new ones."""
    made = parsed("""(float[T] mask, float[P] past, float[S] x) => (float[S] y)
    <int64 one = {1}, float nothing = {0}> {
      p = Size(past)
      s = Size(x)
      end = Add(p, s)
      range = Range(p, end, one)
      small = Mul(x, nothing)
      zeros = Cast <to = 7> (small)
      positions = Add(range, zeros)
      shown = Gather(mask, positions)
      y = Mul(shown, x)
    }""")
    path = str(save(made, tmp_path / "net.onnx"))
    quick = [] if command == "compare" else ["--duration", "0.02"]
    result = cli(command, path, *quick)
    assert result.status == 1
    assert "index 4 at [0]" in result.err
    assert "T = 4, P = 4, S = 4 were chosen; --symbol NAME=VALUE gives others" in result.err
    assert cli(command, path, *quick, "--symbol", "T=8").status == 0
