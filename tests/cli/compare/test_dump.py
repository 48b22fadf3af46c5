"""`nnefc compare --dump`: all values in files, with an index."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.test_sessions import DECODER, VALUES
from tests.helpers.command_line import Cli
from tests.helpers.onnx.models import model, node, save, tensor

DOCUMENT = """\
version 1.0;
extension KHR_enable_operator_expressions;
graph g( x ) -> ( y, Y )
{
    x = external(shape = [4]);
    a = exp(x);
    b = log(x) + a;
    y = b * 2.0;
    Y = b > 1.0;
}
"""
X = np.array([1, 2, 0.5, -1], np.float32)


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "graph.nnef"
    path.write_text(DOCUMENT)
    np.save(tmp_path / "x.npy", X)
    return path


def read(folder: Path) -> tuple[list[dict[str, Any]], dict[tuple[str, str], Any]]:
    """The entries of the index, and the arrays by (kind, name)."""
    index = json.loads((folder / "index.json").read_text())
    listed = [entry[key] for entry in index["values"] for key in entry if key.endswith("file")]
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert sorted(listed) == sorted(
        str(file.relative_to(folder)) for file in files if file.name != "index.json"
    )
    arrays = {(e["kind"], e["name"]): np.load(folder / e["file"]) for e in index["values"]}
    for entry in index["values"]:
        array = np.load(folder / entry["file"])
        assert (list(array.shape), str(array.dtype)) == (entry["shape"], entry["dtype"])
    return index["values"], arrays


def test_all_values_are_written(cli: Cli, net: Path, tmp_path: Path) -> None:
    folder = tmp_path / "values"
    found = cli("compare", net, "-i", tmp_path / "x.npy", "--dump", folder)
    assert found.status == 0
    values, arrays = read(folder)
    assert f"written: {folder}: {len(values)} values" in found.out
    with np.errstate(all="ignore"):
        b = np.log(X.astype(float)) + np.exp(X.astype(float))
    expected = {
        ("input", "x"): X,
        ("tensor", "a"): np.exp(X.astype(float)),
        ("tensor", "b"): b,
        ("tensor", "y"): 2 * b,
        ("output", "y"): 2 * b,
        ("tensor", "Y"): b > 1,
        ("output", "Y"): b > 1,
    }
    assert set(expected) <= set(arrays)
    for key, array in expected.items():
        np.testing.assert_allclose(arrays[key], array, rtol=1e-6)
    references = {
        (e["kind"], e["name"]): np.load(folder / e["reference_file"])
        for e in values
        if e["kind"] != "input"
    }
    assert references[("tensor", "b")].dtype == np.float64
    np.testing.assert_allclose(references[("tensor", "b")], b, rtol=1e-15)
    (entry,) = [e for e in values if (e["kind"], e["name"]) == ("tensor", "y")]
    assert entry["operation"] == "mul"
    assert entry["nan_in_both"] == 1
    assert entry["agrees"]
    deviation = np.nanmax(np.abs(arrays[("tensor", "y")] - references[("tensor", "y")]))
    assert entry["absolute"] == deviation
    names = [e["name"] for e in values if e["kind"] == "tensor"]
    assert names.index("a") < names.index("b") < names.index("y")


def test_json_tells_of_the_dump(cli: Cli, net: Path, tmp_path: Path) -> None:
    folder = tmp_path / "values"
    arguments = ("compare", net, "-i", tmp_path / "x.npy", "--dump", folder, "--json")
    facts = json.loads(cli(*arguments).out)["dump"]
    sizes = [np.load(file).nbytes for file in folder.rglob("*.npy")]
    assert facts["bytes"] == sum(sizes)
    assert facts["folder"] == str(folder)


def test_a_dump_is_written_where_results_differ(cli: Cli, net: Path, tmp_path: Path) -> None:
    options = ("-i", tmp_path / "x.npy", "--dump", tmp_path / "values", "--tolerance", 0)
    assert cli("compare", net, *options).status == 1
    values, _ = read(tmp_path / "values")
    assert not all(entry["agrees"] for entry in values if entry["kind"] != "input")


def test_outputs_of_a_dump_can_be_compared(cli: Cli, net: Path, tmp_path: Path) -> None:
    inputs = ("-i", tmp_path / "x.npy")
    cli("compare", net, *inputs, "--dump", tmp_path / "a")
    found = cli("compare", net, *inputs, "--against", tmp_path / "a" / "outputs", "--json")
    assert found.status == 0
    assert all(row["error"] == 0 for row in json.loads(found.out)["tensors"])
    both = ("--against", tmp_path / "a" / "outputs", "--dump", tmp_path / "b")
    kinds = {
        r["kind"] for r in json.loads(cli("compare", net, *inputs, *both, "--json").out)["tensors"]
    }
    assert kinds == {"tensor", "output", "against"}
    assert {e["kind"] for e in read(tmp_path / "b")[0]} == {"input", "tensor", "output"}


def test_sessions(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "decoder.nnef"
    path.write_text(DECODER)
    folder = tmp_path / "values"
    assert cli("compare", path, *VALUES, "--dump", folder).status == 0
    values, _ = read(folder)
    xs = [np.load(folder / "inputs" / f"turn_{turn}" / "x.npy") for turn in range(3)]
    keys = np.load(folder / "states" / "turn_2" / "keys.npy")
    np.testing.assert_array_equal(keys, np.concatenate(xs, axis=1))
    assert {e["call"] for e in values} == {1, 2, 3}
    y = np.load(folder / "reference" / "outputs" / "turn_1" / "y.npy")
    past = np.concatenate(xs[:2], axis=1).astype(float)
    np.testing.assert_allclose(y, xs[1].astype(float) @ past.transpose(0, 2, 1) / 2, rtol=1e-12)


def test_bfloat16_is_written_as_float32(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "half.nnef"
    path.write_text(
        "version 1.0;\nextension tract_registry tract_core;\ngraph g( x ) -> ( y )\n{\n"
        "    x = tract_core_external(shape = [3], datum_type = 'f32');\n"
        "    h = tract_core_cast(x, to = 'bf16');\n    y = tract_core_cast(h, to = 'f32');\n}\n"
    )
    folder = tmp_path / "values"
    found = cli("compare", path, "--dump", folder, "--tolerance", 0.01)
    assert found.status == 0, found
    (entry,) = [
        e
        for e in json.loads((folder / "index.json").read_text())["values"]
        if e["dtype"] == "bfloat16"
    ]
    assert np.load(folder / entry["file"]).dtype == np.float32


def test_folders_that_cannot_be_written(
    cli: Cli, net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is compiled."""
    from nnefc.cli.compare import tensors

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(tensors, "compile_graph", refuse)
    for folder, message in {
        tmp_path: "not an empty folder",
        net: "not an empty folder",
        tmp_path / "none" / "values": "create it first",
    }.items():
        found = cli("compare", net, "--dump", folder)
        assert found.status == 1
        assert message in found.err
        assert "data/write" in found.err


def test_a_dump_appears_whole_or_not_at_all(
    cli: Cli, net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nnefc.cli.compare.dump import Dump
    from nnefc.support.errors import NnefError

    before = sorted(tmp_path.iterdir())
    original = Dump.write

    def fail(self: Dump, *arguments: Any) -> None:
        original(self, *arguments)
        if len(self.values) > 3:
            raise NnefError.of("limit/memory", "no more")

    monkeypatch.setattr(Dump, "write", fail)
    assert cli("compare", net, "--dump", tmp_path / "values").status == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.slow
def test_a_full_disk(cli: Cli, net: Path, disk: Callable[[str], Path]) -> None:
    place = disk("32k")
    found = cli("compare", net, "--dump", place / "values")
    assert found.status == 1
    assert "there is room for" in found.err
    assert list(place.iterdir()) == []


def test_inputs_of_a_dump_are_inputs_again(cli: Cli, tmp_path: Path) -> None:
    """Names that no file can have, and the calls of a session."""
    named = model(
        [node("Sub", ["a/b", "a_b"], ["y"])],
        [tensor("a/b", ["rows", 3]), tensor("a_b", ["rows", 3])],
        [tensor("y", ["rows", 3])],
    )
    decoder = tmp_path / "decoder.nnef"
    decoder.write_text(DECODER)
    for path, options in ((save(named, tmp_path / "net.onnx"), ()), (decoder, VALUES)):
        first, again = tmp_path / f"{path.stem}.1", tmp_path / f"{path.stem}.2"
        seed = ("--random-inputs", 7)
        assert cli("compare", path, *options, *seed, "--dump", first).status == 0
        steps = ("--steps", 3) if options else ()
        found = cli("compare", path, *steps, "-i", first / "inputs", "--dump", again)
        assert found.status == 0, found.err
        assert {k: v.tolist() for k, v in read(first)[1].items()} == {
            k: v.tolist() for k, v in read(again)[1].items()
        }
    result = cli("run", tmp_path / "net.onnx", "-i", tmp_path / "net.1")
    assert "no .npy and no .dat file" in result.err
    assert "name a folder within: inputs, outputs, reference, tensors" in result.err
    result = cli("run", tmp_path / "net.onnx", "-i", f"a_b={tmp_path / 'net.1' / 'inputs'}")
    assert "the folder holds 2 arrays, not one" in result.err
