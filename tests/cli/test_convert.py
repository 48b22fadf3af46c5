"""`nnefc convert`, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nnefc.cli.convert import check
from tests.helpers.command_line import DIGITS, Cli
from tests.helpers.onnx.models import model, node, passing, save, tensor


def test_table_and_json(cli: Cli, tmp_path: Path) -> None:
    path = save(passing("batch"), tmp_path / "net.onnx")
    arguments = (path, "-o", tmp_path / "net.nnef.tgz", "--symbol", "batch=2", "--check")
    shown = cli("convert", *arguments)
    assert shown.status == 0, shown.err
    assert "NNEF 1.0.2" in shown.out
    assert "check: 2 results equal bit for bit" in shown.out
    facts = json.loads(cli("convert", *arguments, "--json").out)
    assert facts["format"] == "NNEF 1.0.2"
    assert facts["bytes"] == (tmp_path / "net.nnef.tgz").stat().st_size
    assert facts["weight_bytes"] == 12_000
    assert facts["inputs"] == [{"name": "x", "written": "x", "shape": [2, 3], "dtype": "float32"}]
    assert facts["check"]["first_difference"] is None
    assert cli("run", tmp_path / "net.nnef.tgz", "--random-inputs", 1).status == 0


def test_open_symbols_stay_in_the_dialect_of_tract(cli: Cli, tmp_path: Path) -> None:
    path = save(passing("batch"), tmp_path / "net.onnx")
    shown = cli("convert", path, "-o", tmp_path / "net", "--check", "--check-symbol", "batch=3")
    assert shown.status == 0, shown.err
    assert "NNEF in the dialect of tract" in shown.out
    assert "symbols: batch" in shown.out
    assert "x (float32[batch,3])" in shown.out
    shown = cli("convert", path, "-o", tmp_path / "other", "--to", "nnef")
    assert shown.status == 1
    assert "batch" in shown.err
    assert "--symbol" in shown.err
    assert not (tmp_path / "other").exists()
    shown = cli("convert", path, "-o", tmp_path / "other.onnx", "--to", "tract")
    assert "[input/option]" in shown.err


@pytest.mark.parametrize("name", ["net.zip", "net.nnefc", "-"])
def test_unknown_outputs(cli: Cli, tmp_path: Path, name: str) -> None:
    path = save(passing(), tmp_path / "net.onnx")
    shown = cli("convert", path, "-o", name if name == "-" else tmp_path / name)
    assert shown.status == 1
    assert "[input/option]" in shown.err
    assert [each.name for each in tmp_path.iterdir()] == ["net.onnx"]


def test_a_failure_leaves_existing_files(cli: Cli, tmp_path: Path) -> None:
    nodes = [node("Erf", ["x"], ["y"]), node("Erf", ["y"], ["z"])]
    path = save(model(nodes, [tensor("x", [3])], [tensor("z", [3])]), tmp_path / "net.onnx")
    output = tmp_path / "net.nnef.tgz"
    output.write_bytes(b"before")
    shown = cli("convert", path, "-o", output, "--to", "nnef")
    assert shown.status == 1
    assert "'erf' cannot be written in NNEF (2 times) [flatten/operation]" in shown.err
    assert output.read_bytes() == b"before"
    folder = tmp_path / "full"
    folder.mkdir()
    (folder / "file").touch()
    shown = cli("convert", save(passing(), path), "-o", folder)
    assert shown.status == 1
    assert "[container/exists]" in shown.err
    assert [each.name for each in folder.iterdir()] == ["file"]


def test_a_difference_is_a_failure(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(passing(), tmp_path / "net.onnx")
    compare = check.compare

    def changed(name: str, found: check.Array, expected: check.Array) -> check.Compared:
        return compare(name, found + np.float32(1e-3) * (name == "v"), expected)

    monkeypatch.setattr(check, "compare", changed)
    arguments = (path, "-o", tmp_path / "net.tgz", "--check")
    shown = cli("convert", *arguments)
    assert shown.status == 1
    assert "check: 1 of 2 results differ, the first one is 'v'" in shown.out
    shown = cli("convert", *arguments, "--json")
    assert shown.status == 1
    assert json.loads(shown.out)["check"]["first_difference"] == "v"
    assert cli("convert", *arguments, "--tolerance", 1e-3).status == 0


@pytest.mark.parametrize(
    ("output", "error", "rounds"),
    [("out.onnx", 3e-7, True), ("out.onnx", 3e-5, False), ("out.tgz", 3e-7, False)],
)
def test_a_difference_that_is_rounding(
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    output: str,
    error: float,
    rounds: bool,
) -> None:
    """NNEF 1.0.2 gives equal bits, so that no difference is rounding there."""
    path = save(passing(), tmp_path / "net.onnx")
    compare = check.compare

    def changed(name: str, found: check.Array, expected: check.Array) -> check.Compared:
        step = np.float32(error) * np.abs(expected).max() * (name == "v")
        return compare(name, found + step, expected)

    monkeypatch.setattr(check, "compare", changed)
    arguments = ("convert", path, "-o", tmp_path / output, "--check")
    shown = cli(*arguments)
    assert shown.status == 1
    assert f"the largest difference is {error:.0e}"[:-4] in shown.out
    assert ("which is rounding" in shown.out) == rounds
    assert ("--tolerance 1e-6 accepts it" in shown.out) == rounds
    assert cli(*arguments, "--tolerance", 1e-6).status == (0 if error < 1e-6 else 1)


@pytest.mark.parametrize("item", ["float16", "float32", "float64", "int32"])
def test_the_size_of_rounding_depends_on_the_item_type(item: str) -> None:
    expected = np.ones(3, item)
    found = np.nextafter(expected, 2) if item[0] == "f" else expected + 1
    assert check.compare("y", found, expected).is_rounding == (item[0] == "f")
    assert not check.compare("y", expected * np.float32(1.5).astype(item) + 1, expected).is_rounding


def test_both_directions_keep_names_and_bits(cli: Cli, tmp_path: Path) -> None:
    there, back = tmp_path / "digits.onnx", tmp_path / "digits.nnef.tgz"
    for source, output in ((DIGITS, there), (there, back)):
        facts = json.loads(cli("convert", source, "-o", output, "--check", "--json").out)
        assert [end["written"] for end in facts["inputs"]] == ["image"]
        assert [end["written"] for end in facts["results"]] == ["probabilities"]
        assert facts["check"]["first_difference"] is None


def test_external_data(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "digits.onnx"
    shown = cli("convert", DIGITS, "-o", path, "--external-data", "--check", "--json")
    facts = json.loads(shown.out)
    assert facts["check"]["first_difference"] is None
    assert facts["bytes"] == sum(each.stat().st_size for each in tmp_path.iterdir())
    assert (tmp_path / "digits.onnx.data").stat().st_size >= 0.9 * facts["weight_bytes"]
    shown = cli("convert", DIGITS, "-o", tmp_path / "net.tgz", "--external-data")
    assert "[input/option]" in shown.err


def test_no_empty_file_of_data_is_written(cli: Cli, tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["y"])]
    path = save(model(nodes, [tensor("x", [3])], [tensor("y", [3])]), tmp_path / "net.onnx")
    shown = cli("convert", path, "-o", tmp_path / "w.onnx", "--external-data", "--check")
    assert shown.status == 0, shown.err
    assert "no file of data is written" in shown.err
    assert not (tmp_path / "w.onnx.data").exists()


def _spellings(path: Path) -> dict[str, Path]:
    """Paths that name the same file or folder, each without touching it."""
    link = path.with_name(f"link-{path.name}")
    link.symlink_to(path)
    folder = path.with_name("linked")
    folder.symlink_to(path.parent)
    return {
        "same": path,
        "dots": path.parent / "." / ".." / path.parent.name / path.name,
        "link": link,
        "folder": folder / path.name,
    }


def _content(path: Path) -> dict[str, bytes]:
    files = [each for each in path.rglob("*") if each.is_file()]
    return {str(each): each.read_bytes() for each in files}


@pytest.mark.parametrize("spelling", ["same", "dots", "link", "folder"])
@pytest.mark.parametrize("kind", ["onnx", "archive", "folder", "document"])
def test_a_model_is_not_replaced_by_its_conversion(
    cli: Cli, tmp_path: Path, kind: str, spelling: str
) -> None:
    path = save(passing(), tmp_path / "net.onnx")
    if kind != "onnx":
        name = "net.nnef.tgz" if kind == "archive" else "net"
        assert cli("convert", path, "-o", tmp_path / name).status == 0
        path = tmp_path / name
    output = _spellings(path)[spelling]
    before = _content(tmp_path)
    read = path / "graph.nnef" if kind == "document" else path
    shown = cli("convert", read, "-o", output)
    assert shown.status == 1
    assert "[input/option]" in shown.err
    assert "would replace" in shown.err
    assert "another name" in shown.err
    assert _content(tmp_path) == before


def test_external_data_are_not_replaced_by_a_conversion(cli: Cli, tmp_path: Path) -> None:
    path = save(passing(), tmp_path / "net.onnx", external="other.onnx.data")
    before = _content(tmp_path)
    shown = cli("convert", path, "-o", tmp_path / "other.onnx", "--external-data")
    assert shown.status == 1
    assert "other.onnx.data" in shown.err
    assert _content(tmp_path) == before
    assert cli("convert", path, "-o", tmp_path / "more.onnx", "--external-data").status == 0


def test_a_document_is_not_replaced_by_its_flat_form(cli: Cli, tmp_path: Path) -> None:
    path = save(passing(), tmp_path / "net.onnx")
    assert cli("convert", path, "-o", tmp_path / "net").status == 0
    before = _content(tmp_path)
    shown = cli("flatten", tmp_path / "net", "-o", tmp_path / "net" / "graph.nnef")
    assert shown.status == 1
    assert "would replace" in shown.err
    assert _content(tmp_path) == before
