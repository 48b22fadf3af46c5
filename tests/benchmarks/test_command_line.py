"""The benchmarks refuse wrong arguments before they measure."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result


def _run(module: str, *arguments: str | Path) -> Result:
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(import_module(module).main)
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, [str(each) for each in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


def _fails(message: str, status: int, *arguments: str | Path) -> None:
    done = _run(*map(str, arguments))
    assert done.exit_code == status, done.stderr
    assert message in done.stderr, done.stderr


PEERS = ("benchmarks.peers", "--small", "--models", "mlp")
LAYERS = ("benchmarks.layers", "alexnet")


@pytest.mark.parametrize("command", [PEERS, LAYERS], ids=["peers", "layers"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--json", "{}/none/run.json"], "No such file"),
        (["--models-dir", "{}/file"], "File exists"),
        (["--threads", "a"], "--threads"),
        (["--threads", "0"], "--threads"),
        (["--batch", "0"], "--batch"),
        (["--engines", ""], "--engines is empty"),
        (["--engines", "nothing"], "unknown engine 'nothing'"),
    ],
    ids=lambda item: "-".join(item) if isinstance(item, list) else "",  # pyright: ignore
)
def test_usage(command: tuple[str, ...], options: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    _fails(message, 2, *command, *(option.format(tmp_path) for option in options))


def test_usage_of_peers(tmp_path: Path) -> None:
    _fails("Is a directory", 2, *PEERS, "--table", tmp_path)
    _fails("ends with .svg or .png", 2, *PEERS, "--picture", tmp_path / "run.jpg")
    _fails("--models is empty", 2, "benchmarks.peers", "--models", "")
    _fails("'none' is neither a network nor a file", 2, "benchmarks.peers", "--models", "mlp,none")


def test_networks_of_layers(tmp_path: Path) -> None:
    _fails("'' is neither a network nor a file", 2, "benchmarks.layers", "")
    _fails("'none' is neither a network nor a file", 2, "benchmarks.layers", "none")
    folder = ("--models-dir", tmp_path)
    _fails("mlp has no convolutions", 1, "benchmarks.layers", "mlp", *folder)
    text = tmp_path / "text.nnef"
    text.write_text("nothing")
    _fails("expected the version", 1, "benchmarks.layers", text, *folder)
    _fails("PyTorch does not report", 1, "benchmarks.layers", "mlp", "--engines", "torch,nnefc")


def test_nothing_to_compare(tmp_path: Path) -> None:
    few = ("--rounds", "1", "--turn", "0", "--models-dir", tmp_path)
    table = tmp_path / "table.md"
    done = _run(*PEERS, "--engines", "nnefc", "--table", table, *few)
    assert done.exit_code == 0, done.stderr
    assert "| MLP" in table.read_text()
    _fails("nothing can be compared", 1, "benchmarks.layers", "alexnet", "--engines", "nnefc,torch")


def test_processes_that_compile(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    _fails("--models is empty", 2, "benchmarks.compile", "--models", "")
    options = ("--models", "digits", "--rounds", "1", "--models-dir", tmp_path, "--json", file)
    done = _run("benchmarks.compile", *options)
    assert done.exit_code == 0, done.stderr
    (ways,) = json.loads(file.read_text())["digits"].values()
    assert ways["cold"]["compiler"]
    assert ways["cold"]["seconds"] > ways["warm"]["seconds"] > 0
