"""`--symbol`: values of the symbols of a document, on the command line."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import nnefc
from tests.helpers.command_line import Cli

ROWS = """\
version 1.0;
extension tract_registry tract_core;
extension tract_symbol B;
extension tract_symbol S;
extension tract_symbol Past;
extension tract_assert S >= 2;
graph rows( x, past ) -> ( y, z )
{
    x = tract_core_external(shape = [B, 2*S, 4], datum_type = 'f32');
    past = tract_core_external(shape = [Past + S, 4], datum_type = 'f32');
    y = matmul(x, x, transposeB = true);
    z = past * 2.0;
}
"""
ALL = ("--symbol", "B=2", "--symbol", "S=3", "--symbol", "Past=1")
RANDOM = ("--random-inputs", "1")


@pytest.fixture
def rows(tmp_path: Path) -> str:
    path = tmp_path / "rows.nnef"
    path.write_text(ROWS)
    return str(path)


def test_run(cli: Cli, rows: str) -> None:
    found = json.loads(cli("run", rows, *ALL, *RANDOM, "--json").out)
    assert found["y"]["shape"] == [2, 6, 6]
    assert found["z"]["shape"] == [4, 4]


def test_run_checks_the_values_against_the_files(cli: Cli, rows: str, tmp_path: Path) -> None:
    file = tmp_path / "x.npz"
    x = np.random.default_rng(1).standard_normal((1, 6, 4)).astype(np.float32)
    np.savez(file, x=x, past=np.zeros((5, 4), np.float32))
    out = tmp_path / "y.npz"
    run = ("run", rows, "-i", file, "-o", out)
    assert cli(*run, "--symbol", "S=3").status == 0
    np.testing.assert_allclose(np.load(out)["y"], x @ x.transpose(0, 2, 1), rtol=1e-5, atol=1e-5)
    found = cli(*run, "--symbol", "S=4", "--symbol", "Past=0")
    assert found.status == 1
    assert "axis 1 has to be 8, not 6, as S = 4 [input/shape]" in found.err
    assert "axis 0 has to be 4, not 5, as Past = 0 and S = 4 [input/shape]" in found.err


def test_with_shapes_and_a_batch(cli: Cli, rows: str) -> None:
    command = ("run", rows, *RANDOM, "--json")
    found = cli(*command, "--symbol", "S=3", "--shape", "past=4,4", "--batch", "5")
    assert json.loads(found.out)["y"]["shape"] == [5, 6, 6]
    refused = cli(*command, "--symbol", "S=3", "--symbol", "B=4", "--shape", "past=4,4", "-b", "5")
    assert "axis 0 has to be 4, not 5, as B = 4" in refused.err


def test_missing_values_are_suggested(cli: Cli, rows: str) -> None:
    found = cli("run", rows, "--symbol", "S=3", *RANDOM)
    assert found.status == 1
    assert "but 'B' has no value [input/symbol]" in found.err
    assert "or the symbols: --symbol B=4" in found.err
    assert "but 'Past' has no value" in found.err


def test_wrong_options(cli: Cli, rows: str) -> None:
    typed = ("S", "=3", "S=x", "S=-1", "B=2", "B=3")
    found = cli("run", rows, *(word for each in typed for word in ("--symbol", each)))
    assert found.status == 1
    assert found.err.count("expected NAME=VALUE with a whole number, as in S=16") == 3
    assert "--symbol B=3: B is 2 already" in found.err
    assert "a value has at most 18 digits" in cli("run", rows, "--symbol", f"S={10**18}").err
    found = cli("run", rows, *RANDOM, *("--symbol", "s=1", "--symbol", "S=1", "--shape", "x=1,4,4"))
    assert found.status == 1
    assert "the document has no symbol 's'" in found.err
    assert "did you mean 'S'?" in found.err
    assert "axis 1 has to be 2, not 4, as S = 1" in found.err
    assert "S >= 2 does not hold: S = 1" in found.err


def test_standard_documents_have_no_symbols(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text("version 1.0;\ngraph g(x) -> (y) { x = external(shape = [2]); y = relu(x); }")
    found = cli("inspect", path, "--symbol", "S=2")
    assert found.status == 1
    assert "S: a document in standard NNEF has no symbols [input/symbol]" in found.err


def test_compile_writes_the_model_for_the_values(cli: Cli, rows: str, tmp_path: Path) -> None:
    out = tmp_path / "rows.nnefc"
    assert cli("compile", rows, *ALL, "-o", out).status == 0
    assert [spec.shape for spec in nnefc.load(out).inputs] == [(2, 6, 4), (4, 4)]
    found = cli("run", out, "--symbol", "S=3", *RANDOM)
    assert "an artifact is compiled already: --symbol cannot apply" in found.err
    assert "nnefc compile MODEL --symbol S=3 -o rows.nnefc" in found.err


def test_inspect(cli: Cli, rows: str) -> None:
    facts = json.loads(cli("inspect", rows, "--symbol", "S=5", "--json").out)
    assert facts["tract"]["values"]["S"] == 5
    assert facts["inputs"][0]["shape"][1:] == [10, 4]


def test_inspect_shows_expressions(cli: Cli, rows: str) -> None:
    facts = json.loads(cli("inspect", rows, "--json").out)
    x, past = facts["inputs"]
    assert (x["shape"][2], x["symbolic_shape"]) == (4, ["B", "2*S", "4"])
    assert past["symbolic_shape"] == ["Past + S", "4"]
    (y, z) = facts["outputs"]
    assert (y["symbolic_shape"], z["symbolic_shape"]) == (["B", "2*S", "2*S"], ["Past + S", "4"])
    assert facts["operations"][0]["outputs"] == [y]
    assert facts["chosen_symbols"] == ["B", "S", "Past"]
    b, s = facts["symbols"]["B"], facts["symbols"]["S"]
    assert (y["shape"], facts["macs"]) == ([b, 2 * s, 2 * s], b * (2 * s) ** 2 * 4)
    shown = cli("inspect", rows).out
    assert "input   x: float32[B, 2*S, 4], past: float32[Past + S, 4]" in shown
    assert "output  y: float32[B, 2*S, 2*S], z: float32[Past + S, 4]" in shown
    assert f"MACs and activations are for B = {b}, S = {s}" in shown
    assert "?" not in shown


def test_inspect_shows_numbers_for_given_symbols(cli: Cli, rows: str) -> None:
    facts = json.loads(cli("inspect", rows, *ALL, "--json").out)
    assert "symbolic_shape" not in facts["inputs"][0]
    assert facts["chosen_symbols"] == []
    shown = cli("inspect", rows, *ALL).out
    assert "x: float32[2x6x4]" in shown
    assert "activations are for" not in shown
    mixed = cli("inspect", rows, "--shape", "past=7,4").out
    assert "x: float32[B, 2*S, 4], past: float32[7x4]" in mixed


def test_inspect_marks_extents_without_an_expression(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "net.nnef"
    body = "slice(x * 2.0, axes = [0], begin = [0], end = [2 if S < 8 else 3])"
    path.write_text(
        "version 1.0;\nextension tract_registry tract_core;\nextension tract_symbol S;\n"
        "graph net( x ) -> ( y ) {\n"
        "    x = tract_core_external(shape = [S], datum_type = 'f32');\n"
        f"    y = {body};\n}}\n"
    )
    facts = json.loads(cli("inspect", path, "--json").out)
    assert facts["outputs"][0]["symbolic_shape"] == [None]
    (extent,) = facts["outputs"][0]["shape"]
    shown = cli("inspect", path).out
    assert f"y: float32[{extent}?]" in shown
    assert "is an extent that varies but is no expression of the symbols" in shown


def test_pictures_show_expressions(cli: Cli, rows: str, tmp_path: Path) -> None:
    svg, html = tmp_path / "net.svg", tmp_path / "net.html"
    assert cli("inspect", rows, "--svg", svg, "--html", html).status == 0
    for path in (svg, html):
        text = path.read_text()
        assert "float32[B, 2*S, 4]" in text
        assert "[B, 2*S, 2*S]" in text
    assert "<td>[B, 2*S, 2*S]</td>" in html.read_text()


def test_flatten_writes_the_extents(cli: Cli, rows: str) -> None:
    assert "shape = [2, 6, 4]" in cli("flatten", rows, *ALL).out


def test_cache_commands(cli: Cli, folder: Path, rows: str) -> None:
    # a kernel that this process has not compiled before
    Path(rows).write_text(ROWS.replace("past * 2.0", "tanh(past * 2.0361548) * 1.7 + past"))
    shown = cli("cache", "warm", rows, *ALL, "-t", "1", "--json")
    assert re.fullmatch(r"(compiling \d+ kernels, .*\n)?", shown.err)  # if it takes long
    assert json.loads(shown.out)["compiled"] > 0
    kernels = json.loads(cli("cache", "explain", rows, *ALL, "-t", "1", "--json").out)
    hits = {each["family"]: each["hit"] for each in kernels}
    assert hits["elementwise.map.expression"]
    assert "--symbol needs a model" in cli("cache", "warm", "--symbol", "S=3").err


def test_names_are_completed(rows: str) -> None:
    from nnefc.cli.support.symbol_option import symbols_of

    assert symbols_of(rows) == ["B", "S", "Past"]
    assert symbols_of(os.devnull) == []
