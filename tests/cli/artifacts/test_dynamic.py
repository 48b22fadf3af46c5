"""Artifacts that keep symbols and states, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc.dynamic.dynamic_model import DynamicModel
from tests.helpers.command_line import Cli

HEAD = "version 1.0;\nextension tract_registry tract_core;\n"
ROWS = f"""{HEAD}extension tract_symbol B;
extension tract_symbol S;
graph rows(x) -> (y)
{{
    x = tract_core_external(shape = [B, S, 4], datum_type = 'f32');
    y = matmul(x, x, transposeB = true);
}}
"""
CACHE = f"""{HEAD}extension tract_registry tract_transformers;
extension tract_symbol S;
extension tract_symbol P;
graph g(x) -> (all)
{{
    x = tract_core_external(shape = [1, S, 4], datum_type = 'f32');
    all = tract_transformers_dyn_kv_cache(x, name = 'kept', axis = 1, datum_type = 'f32',
        past_sequence_shape = [1, P, 4], input_sequence_shape = [1, S, 4]);
}}
"""
RANDOM = ("--random-inputs", "1")
LENGTHS = ("--symbol", "B=1", "--symbol", "S=20", "--symbol", "S=1")


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "rows.nnef"
    path.write_text(ROWS)
    return path


@pytest.fixture
def artifact(cli: Cli, document: Path) -> Path:
    path = document.with_suffix(".nnefc")
    found = cli("compile", document, "--dynamic", *LENGTHS, "-o", path)
    assert found.status == 0, found.err
    assert "plan    B = 1, S = " in found.out
    return path


def test_run(cli: Cli, artifact: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((1, 33, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    found = cli("run", artifact, "-i", tmp_path / "x.npy", "-o", tmp_path / "y.npz")
    assert (found.status, found.err) == (0, "")
    y = np.load(tmp_path / "y.npz")["y"]
    np.testing.assert_allclose(y, x @ x.transpose(0, 2, 1), rtol=1e-5, atol=1e-5)
    found = cli("run", artifact, "--symbol", "B=1", "--symbol", "S=25", *RANDOM, "--json")
    assert json.loads(found.out)["y"]["shape"] == [1, 25, 25]
    assert found.err == ""
    found = cli("run", artifact, "--shape", "x=3,7,4", *RANDOM, "--json")
    assert json.loads(found.out)["y"]["shape"] == [3, 7, 7]
    assert "no plan in the file fits x: [3,7,4]: compiling it now [artifact/shape]" in found.err
    found = cli("run", artifact, "--symbol", "B=1", "--symbol", "S=9", *RANDOM, "--reference")
    assert "1x9x9" in found.out


def test_inspect(cli: Cli, artifact: Path) -> None:
    facts = json.loads(cli("inspect", artifact, "--json", "--verify").out)
    assert facts["artifact"]["format"] == 2
    assert facts["artifact"]["verified"]
    assert len(facts["artifact"]["plans"]) == 2
    assert facts["tract"]["symbols"] == ["B", "S"]
    assert facts["name"] == "rows"
    assert "plan    B = 1, S = 1\n" in cli("inspect", artifact).out


WRONG = [
    (("--symbol", "S=3", "--symbol", "S=4"), "S is 3 already [input/option]"),
    (("--symbol", "B=1", "--symbol", "S=-1"), "S = -1: extents are at least 0"),
    (("--symbol", "B=1", "--symbol", f"S={1 << 70}"), "has at most 18 digits [input/option]"),
    (("--symbol", "B=1", "--symbol", f"S={1 << 63}"), "has at most 18 digits [input/option]"),
    (("--symbol", "B=1000", "--symbol", f"S={1 << 40}"), "bytes, more than"),
    (("--symbol", "Q=2"), "the document has no symbol 'Q'; it has B, S [input/symbol]"),
    (("--symbol", "B=1", "--symbol", "S=3", "--shape", "x=1,7,4"), "not 7, as S = 3"),
    (("--shape", "x=1,-3,4"), "a negative extent: [1, -3, 4] [input/shape]"),
    (("--shape", "q=1,3,4"), "the graph has no input 'q'"),
]
COMMANDS = {
    "run": RANDOM,
    "compare": RANDOM,
    "bench": ("--duration", "0.01"),
    "profile": ("--duration", "0.01"),
    "inspect": (),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_symbols_and_shapes(cli: Cli, artifact: Path, document: Path, command: str) -> None:
    """The same errors for an artifact and for its document."""
    for options, expected in WRONG:
        for path in (artifact, document):
            found = cli(command, path, *options, *COMMANDS[command])
            assert found.status == 1, (options, found)
            is_known = path is document and "expected whole numbers of at most 63 bits" in found.err
            assert is_known or expected in found.err


@pytest.mark.parametrize("emit", [(), ("--emit", "c")], ids=["artifact", "c"])
def test_wrong_symbols_of_compiled_models(
    cli: Cli, document: Path, tmp_path: Path, emit: tuple[str, ...]
) -> None:
    out = tmp_path / "out.nnefc"
    for options, _ in WRONG:
        found = cli("compile", document, "--dynamic", *options, *emit, "-o", out)
        assert found.status == 1, options
        assert "error: " in found.err
        assert not out.exists()


def test_measurements(cli: Cli, artifact: Path) -> None:
    shape = ("--symbol", "B=1", "--symbol", "S=20")
    facts = json.loads(cli("bench", artifact, *shape, "--duration", "0.01", "--json").out)
    assert facts["results"][0]["runs"]
    assert facts["cold_start_ms"]["load"] > 0
    found = cli("profile", artifact, *shape, "--duration", "0.01")
    assert (found.status, found.err) == (0, "")
    found = cli("compare", artifact, *shape, *RANDOM)
    assert (found.status, found.err) == (0, "")
    assert "no divergence" in found.out


def test_states(cli: Cli, tmp_path: Path) -> None:
    document, path = tmp_path / "cache.nnef", tmp_path / "cache.nnefc"
    document.write_text(CACHE)
    found = cli("compile", document, "--symbol", "S=1", "-o", path)
    assert found.status == 1
    assert "add --dynamic: the artifact then keeps them" in found.err
    kernel = ("compile", document, "--emit", "openvx", "-o", tmp_path / "kernel")
    assert "a kernel of OpenVX is made for known shapes" in cli(*kernel).err
    found = cli(*kernel, "--symbol", "S=1")
    assert "--emit openvx: operators of this model keep states" in found.err
    assert "--dynamic --emit c: a C program keeps them" in found.err
    lengths = ("--symbol", "S=8", "--symbol", "S=1")
    assert cli("compile", document, "--dynamic", *lengths, "-o", path).status == 0
    found = cli("run", path, "--symbol", "S=1", *RANDOM, "--steps", "5", "--json")
    assert found.err == ""
    assert json.loads(found.out)["all"]["shape"] == [1, 5, 4]


def test_c_programs(cli: Cli, document: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    found = cli("compile", document, "--dynamic", *LENGTHS, "--emit", "c", "-o", folder)
    assert found.status == 0, found.err
    assert "rows_set_shape" in (folder / "rows.h").read_text()


def test_targets_and_shapes(cli: Cli, document: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.nnefc"
    shapes = ("--shape", "x=1,20,4", "--shape", "x=1,1,4")
    target = ("--target", "native,x86-64-v2")
    found = cli("compile", document, "--dynamic", *shapes, *target, "-o", path, "--json")
    facts = json.loads(found.out)
    assert len(facts["artifact"]["targets"]) == 2
    assert len(facts["artifact"]["plans"]) == 2
    assert isinstance(nnefc.load(path), DynamicModel)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "--dynamic needs a file to write"),
        (("-o", "x.nnefc"), "name them, as in --symbol B=16 --symbol S=16"),
        (("-o", "x.nnefc", "--batch", "2"), "--batch does not apply"),
        (("-o", "x.nnefc", "--tune"), "not with --dynamic"),
        (("-o", "x.nnefc", "--plan"), "not with --dynamic"),
        (("-o", "x.nnefc", "--symbol", "S=4"), "gives 'B' no value"),
        (("-o", "x.nnefc", "--symbol", "S=4", "--shape", "x=1,2,4"), "both name shapes"),
        (("-o", "x.nnefc", *LENGTHS, "--symbol", "S=2", "--symbol", "B=2"), "B has 2 values"),
    ],
)
def test_wrong_options(
    cli: Cli, document: Path, options: tuple[str, ...], words: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    found = cli("compile", document, "--dynamic", *options)
    assert found.status == 1
    assert words in found.err
    assert not (tmp_path / "x.nnefc").exists()


def test_documents_and_options_that_do_not_fit(cli: Cli, artifact: Path, tmp_path: Path) -> None:
    found = cli("run", artifact, "--batch", "2", *RANDOM)
    assert found.status == 1
    assert "an artifact is compiled already: --batch cannot apply" in found.err
    found = cli("run", artifact, "--symbol", "Q=2", *RANDOM)
    assert found.status == 1
    assert "the document has no symbol 'Q'" in found.err
    plain = tmp_path / "plain.nnef"
    plain.write_text(ROWS.replace("B, S, 4", "1, 3, 4"))
    found = cli("compile", plain, "--dynamic", "-o", tmp_path / "plain.nnefc")
    assert found.status == 1
    assert "has neither symbols in its shapes nor states" in found.err
