"""`nnefc inspect` with artifacts, and files that are no artifacts."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

import nnefc
from nnefc.runtime.artifact.artifact_file import open_file
from tests.helpers.artifacts.commands import ARTIFACTS, inspected, outputs
from tests.helpers.artifacts.saved import LARGE, TINY, compiled, write
from tests.helpers.command_line import DIGITS, Cli


def test_inspect(cli: Cli, made: Path) -> None:
    net = made / "mixed.nnefc"
    facts = json.loads(inspected(cli, net))
    assert facts["name"] == "mixed"
    assert [(t["name"], t["dtype"]) for t in facts["outputs"]] == [
        ("y", "float32"),
        ("z", "float32"),
        ("n", "int32"),
    ]
    assert facts["inputs"] == [{"name": "x", "dtype": "float32", "shape": [2, 3, 24, 24]}]
    assert {"conv", "deconv", "softmax"} <= {row["operation"] for row in facts["operations"]}
    assert facts["parameters"] > 40_000
    artifact = facts["artifact"]
    assert artifact["nnefc"] == nnefc.__version__
    assert artifact["format"] == 1
    assert artifact["bytes"] == net.stat().st_size
    assert 0 < artifact["head_bytes"] < artifact["bytes"] - artifact["weights_bytes"]
    (target,) = artifact["targets"]
    model = nnefc.load(net)
    assert target["arena_bytes"] == model.arena_bytes
    assert target["constant_bytes"] == model.constant_bytes
    assert target["launches"] == sum(launch.times for launch in model.launches)
    assert artifact["states"] == []
    shown = cli("inspect", net).out
    for text in ("name    mixed", artifact["digest"], "argmax_reduce", "used", "MACs"):
        assert text in shown


@pytest.mark.parametrize("name", ARTIFACTS)
def test_inspect_reads_weights_only_with_weights(
    cli: Cli, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from nnefc.runtime.artifact.read_static import Artifact

    net = made / f"{name}.nnefc"
    whole = json.loads(inspected(cli, net, "--weights"))
    assert "mean" in whole.pop("variables")[0]

    def fail(*_: object) -> None:
        raise AssertionError("weights are read")

    monkeypatch.setattr(Artifact, "array", fail)
    assert json.loads(inspected(cli, net)) == whole
    for option in ("--svg", "--html"):
        path = tmp_path / f"net.{option[2:]}"
        assert cli("inspect", net, option, path).status == 0
        assert path.stat().st_size > 500


def test_inspect_shows_weights_and_pictures(cli: Cli, made: Path, tmp_path: Path) -> None:
    facts = json.loads(inspected(cli, made / "counter.nnefc", "--weights"))
    whole = json.loads(cli("compile", made / "counter", "--random-weights", 3, "--json").out)
    assert sum(row["bytes"] for row in facts["variables"]) == whole["parameter_bytes"]
    assert {row["name"] for row in facts["variables"]} == {"Sum", "scale"}
    assert all("mean" in row for row in facts["variables"])
    assert cli("inspect", made / "mixed.nnefc", "--html", tmp_path / "net.html").status == 0
    assert "argmax_reduce" in (tmp_path / "net.html").read_text()


def test_inspect_does_not_run_code(cli: Cli, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nnefc.runtime.compile.executable_memory import ExecutableImage

    def fail(*_: object) -> None:
        raise AssertionError("code is mapped to be executed")

    monkeypatch.setattr(ExecutableImage, "__init__", fail)
    inspected(cli, made / "mixed.nnefc", "--weights", "--verify")


def test_verify_compares_checksums(cli: Cli, tmp_path: Path) -> None:
    net = tmp_path / "net.nnefc"
    compiled(tmp_path, LARGE).save(net)
    digest = open_file(net).digest
    assert "all checksums match" in cli("inspect", net, "--verify").out
    assert "checksums" not in cli("inspect", net).out
    facts = json.loads(inspected(cli, net, "--digest", digest.upper()))["artifact"]
    assert (facts["digest"], facts["verified"]) == (digest, True)
    other = cli("inspect", net, "--digest", digest[::-1])
    assert other.status == 1
    assert "[artifact/digest]" in other.err
    data = bytearray(net.read_bytes())
    data[4096 + 12345] ^= 1
    net.write_bytes(data)
    assert cli("inspect", net).status == 0
    for options in (["--verify"], ["--digest", digest]):
        result = cli("inspect", net, *options)
        assert result.status == 1
        assert "the checksum of the weights is wrong [artifact/damaged]" in result.err


def test_documents_have_no_checksums(cli: Cli, small: Path) -> None:
    for options in (["--verify"], ["--digest", "00"]):
        result = cli("inspect", small, *options)
        assert result.status == 1
        assert "is no artifact" in result.err


# -- what is none


TAKING = ["run", "bench", "profile", "compare", "inspect"]


@pytest.mark.slow
@pytest.mark.parametrize("command", TAKING)
def test_damaged_files_and_other_files(cli: Cli, net: Path, command: str) -> None:
    whole = net.read_bytes()
    for place in (0, 17, 30, 50, 90, 5000, len(whole) - 3000, len(whole) - 5):
        net.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        _refused(cli, command, net)
    for length in (0, 1, 16, 111, 112, 4096, len(whole) - 1):
        net.write_bytes(whole[:length])
        _refused(cli, command, net)
    for content in (b"version 1.0;\n", DIGITS.read_bytes(), os.urandom(10000), whole + b"\0"):
        net.write_bytes(content)
        _refused(cli, command, net)


@pytest.mark.parametrize("command", TAKING)
def test_missing_files(cli: Cli, tmp_path: Path, command: str) -> None:
    assert "no such file" in _refused(cli, command, tmp_path / "none.nnefc")
    (tmp_path / "empty.nnefc").mkdir()
    assert "graph.nnef" in _refused(cli, command, tmp_path / "empty.nnefc")
    (tmp_path / "loop.nnefc").symlink_to(tmp_path / "loop.nnefc")
    _refused(cli, command, tmp_path / "loop.nnefc")
    os.mkfifo(tmp_path / "pipe.nnefc")
    _refused(cli, command, tmp_path / "pipe.nnefc")


def _refused(cli: Cli, command: str, path: Path) -> str:
    result = cli(command, path)
    assert result.status == 1
    assert result.out == ""
    assert re.search(rf"^{re.escape(str(path))}: error: .* \[\w+/\w+\]$", result.err, re.M)
    assert "Traceback" not in result.err
    return result.err


def test_a_folder_may_be_named_like_an_artifact(cli: Cli, made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "net.nnefc"
    folder.mkdir()
    write(folder, TINY)
    assert outputs(cli, folder, "--random-weights", 3) == outputs(cli, made / "tiny.nnefc")
