"""`nnefc pack`: packages of one model."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tests.helpers.command_line import Cli
from tests.helpers.tflite.packages import binary, circle


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    path.write_bytes(binary("ADD", ["x", "y"], "z"))
    return path


def test_archives(cli: Cli, net: Path, tmp_path: Path) -> None:
    output = tmp_path / "package.zip"
    shown = cli("pack", net, "-o", output)
    assert shown.status == 0, shown.err
    folder = tmp_path / "package"
    assert shown.out == f"wrote {output}; for onert, which opens no archives: -o {folder}\n"
    with zipfile.ZipFile(output) as archive:
        assert archive.testzip() is None
        manifest = json.loads(archive.read("metadata/MANIFEST"))
        assert archive.read("net.tflite") == net.read_bytes()
    assert output.read_bytes().find(net.read_bytes()) % 16 == 0
    assert manifest["models"] == ["net.tflite"]
    assert manifest["model-types"] == ["tflite"]
    first = output.read_bytes()
    assert cli("pack", net, "-o", output).status == 0
    assert output.read_bytes() == first
    shown = cli("run", output, "--random-inputs", 1)
    assert shown.status == 0, shown.err
    facts = json.loads(cli("inspect", output, "--json").out)
    assert facts["tflite"]["package"] == ["net.tflite"]


def test_folders(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "net.model").write_bytes(circle("ADD"))
    output = tmp_path / "package"
    assert cli("pack", tmp_path / "net.model", "-o", output).out == f"wrote {output}\n"
    assert sorted(str(each.relative_to(output)) for each in output.rglob("*")) == [
        "metadata",
        "metadata/MANIFEST",
        "net.circle",
    ]
    assert cli("run", output, "--random-inputs", 1).status == 0
    shown = cli("pack", tmp_path / "net.model", "-o", output)
    assert "not an empty folder" in shown.err


def test_errors_write_nothing(cli: Cli, net: Path, tmp_path: Path) -> None:
    net.write_bytes(net.read_bytes()[:100])
    for output in (tmp_path / "package.zip", tmp_path / "package"):
        shown = cli("pack", net, "-o", output)
        assert shown.status == 1
        assert "tflite/flatbuffer" in shown.err
        assert not output.exists()
    assert "should end in .zip" in cli("pack", net, "-o", tmp_path / "net.tar").err
    assert "is packed already" in cli("pack", tmp_path, "-o", tmp_path / "new.zip").err
    assert [each.name for each in tmp_path.iterdir()] == ["net.tflite"]
