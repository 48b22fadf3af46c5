"""Documents in the dialect of tract on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.cli.cache.warm import graphs_to_warm
from nnefc.cli.support.options import parse_import
from tests.helpers.command_line import Cli

TEXT = """\
version 1.0;
extension tract_registry tract_core;
extension tract_registry tract_transformers;
extension tract_symbol B;
extension tract_symbol S;
extension tract_symbol P;
extension tract_assert S >= 3;
extension tract_assert B < S;
graph text( x ) -> ( y, n )
{
    x = tract_core_external(shape = [B, 2*S, 4], datum_type = 'f32');
    k = tract_transformers_dyn_kv_cache(x, name = 'keys', axis = 1, datum_type = 'f32',
        past_sequence_shape = [B, P, 4], input_sequence_shape = [B, 2*S, 4]);
    y = matmul(x, k, transposeB = true) / 2.0;
    n = max_pool(x, size = [1, 1, 1], border = 'constant');
}
"""
PLAIN = """\
version 1.0;
extension tract_registry tract_core;
graph plain( x ) -> ( y )
{
    x = tract_core_external(shape = [1, 3, 4, 4], datum_type = 'f32');
    w = variable(shape = [2, 3, 1, 1], label = 'conv.weight');
    s = tract_core_shape_of(x);
    h = relu(conv(x, w, stride = [2, 2])) * 2.0;
    y = reshape(h, shape = [1, -1]);
}
"""


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text.nnef"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture
def plain(tmp_path: Path) -> str:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "graph.nnef").write_text(PLAIN)
    return str(folder)


def x(batch: int, length: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(length).standard_normal((batch, length, 4)).astype(np.float32)


def test_check_gives_symbols_sample_values(cli: Cli, text: str) -> None:
    found = cli("check", text)
    assert found.status == 0
    # B < S and S >= 3 do not hold if both are the same
    assert "input/trial" in found.err
    values = dict(
        part.split(" = ") for part in found.err.split("with ")[1].split(":")[0].split(", ")
    )
    assert int(values["B"]) < int(values["S"]) >= 3


TRACED = """version 1.0;
extension tract_registry tract_core;
extension tract_symbol S;
graph traced( x ) -> ( y )
{
    x = tract_core_external(shape = [1, S, 4], datum_type = 'f32');
    y = reshape(x, shape = [16, 3, 4]) FAULT;
}
"""
"""Valid with S = 48 only: the traced extent is a literal."""


def test_other_sample_values_are_tried_after_errors(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(TRACED.replace(" FAULT", "").replace("48", "12").replace("16, 3", "4, 3"))
    found = cli("check", path)
    assert found.status == 0, found.err
    assert "checked with S = 12:" in found.err
    path.write_text(TRACED.replace(" FAULT", ""))
    found = cli("check", path)
    assert found.status == 1
    assert "[1, 4, 4] cannot be reshaped" in found.err  # of the first value
    path.write_text(TRACED.replace(" FAULT", " + unknown(x)"))
    assert "unknown" in cli("check", path).err
    assert cli("inspect", path, "--shape", "x=1,48,4").status == 1


def test_check_strict_refuses_the_dialect(cli: Cli, text: str) -> None:
    found = cli("check", text, "--strict")
    assert found.status == 1
    assert "tract/dialect" in found.err
    assert len(found.err.splitlines()) == 2  # nothing else is said
    assert "invocation/unknown" in cli("check", text, "--dialect", "nnef").err


def test_check_without_possible_sample_values(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(TEXT.replace("S >= 3", "S > S"))
    found = cli("check", str(path))
    assert found.status == 1
    assert "input/symbol" in found.err


def test_check_finds_errors_of_a_second_call(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(TEXT.replace("matmul(x, k, transposeB = true)", "(x + k)"))
    assert "argument/add" in cli("check", str(path)).err


def test_run_takes_the_shapes_of_arrays(cli: Cli, text: str, tmp_path: Path) -> None:
    given = x(1, 6)
    np.save(tmp_path / "x.npy", given)
    np.savez(tmp_path / "x.npz", x=given)
    want = given @ given.transpose(0, 2, 1) / 2
    for name in ("x.npy", "x.npz"):
        out = tmp_path / "out.npz"
        assert cli("run", text, "-i", str(tmp_path / name), "-o", str(out)).status == 0
        np.testing.assert_allclose(np.load(out)["y"], want, rtol=1e-5, atol=1e-5)


def test_run_keeps_states_over_steps(cli: Cli, text: str, tmp_path: Path) -> None:
    given = x(1, 6)
    np.save(tmp_path / "x.npy", given)
    out = tmp_path / "out.npz"
    run = ("run", text, "-i", str(tmp_path / "x.npy"), "-o", str(out), "--steps", "3")
    assert cli(*run).status == 0
    keys = np.concatenate([given] * 3, axis=1)
    want = given @ keys.transpose(0, 2, 1) / 2
    np.testing.assert_allclose(np.load(out)["y"], want, rtol=1e-5, atol=1e-5)
    assert "keep states" in cli(*run, "--save", str(tmp_path / "after.tgz")).err


def test_run_takes_shapes(cli: Cli, text: str) -> None:
    found = cli("run", text, "--shape", "x=2,8,4", "--random-inputs", "1", "--json")
    assert json.loads(found.out)["y"]["shape"] == [2, 8, 8]


COMMANDS = [
    ("run", "--random-inputs", "1"),
    ("compile",),
    ("flatten",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_symbols_without_values_are_named(cli: Cli, text: str, command: tuple[str, ...]) -> None:
    found = cli(command[0], text, *command[1:])
    assert found.status == 1
    assert "'B' and 'S' have no values [input/symbol]" in found.err
    assert "such as --shape x=4,16,4, or the symbols: --symbol" in found.err


def test_missing_data_is_reported_before_missing_values(cli: Cli, text: str) -> None:
    found = cli("run", text)
    assert found.status == 1
    assert "no data for x: [B,2*S,4]" in found.err
    assert "no value" not in found.err


def test_files_and_options_with_different_shapes(cli: Cli, text: str, tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    np.save(file, np.zeros((2, 8, 4), np.float32))
    assert cli("run", text, "-i", str(file), "--shape", "x=2,8,4").status == 0
    found = cli("run", text, "-i", str(file), "--shape", "x=2,10,4")
    assert found.status == 1
    assert "the file has shape [2, 8, 4], the options say [2, 10, 4]" in found.err


def test_shape_of_a_symbol(cli: Cli, text: str) -> None:
    found = cli("run", text, "--shape", "S=4")
    assert "has no input 'S'" in found.err
    assert "'S' is a symbol: x: [B,2*S,4]" in found.err


def test_the_reference_keeps_states(cli: Cli, text: str, tmp_path: Path) -> None:
    given = x(1, 6)
    np.save(tmp_path / "x.npy", given)
    run = ("run", text, "-i", tmp_path / "x.npy", "--steps", 3, "--json")
    found, want = (json.loads(cli(*run, *how).out) for how in (["--reference"], []))
    assert list(found) == list(want) == ["y", "n"]
    assert found["y"]["dtype"] == "float64"
    assert found["y"]["shape"] == [1, 6, 18]
    np.testing.assert_allclose(found["y"]["values"], want["y"]["values"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", [("-o", "net.nnefc"), ("--emit", "c", "-o", "net")])
def test_compile_refuses_to_write_states(
    cli: Cli, text: str, tmp_path: Path, how: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = cli("compile", text, "--shape", "x=1,8,4", *how)
    assert found.status == 1
    assert "keep states (keys)" in found.err
    assert "input/state" in found.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.nnef"]
    assert cli("compile", text, "--shape", "x=1,8,4").status == 0


def test_run_refuses_to_save_states(cli: Cli, text: str, tmp_path: Path) -> None:
    out = tmp_path / "after.nnefc"
    found = cli("run", text, "--shape", "x=1,8,4", "--random-inputs", "1", "--save", out)
    assert found.status == 1
    assert "--save: operators of this model keep states (keys)" in found.err
    assert "nnefc compile MODEL --dynamic -o net.nnefc" in found.err
    assert not out.exists()


def test_flatten_refuses_states(cli: Cli, text: str) -> None:
    found = cli("flatten", text, "--shape", "x=1,8,4")
    assert found.status == 1
    assert not found.out
    assert "state 'keys' cannot be written in NNEF" in found.err
    assert "[flatten/state]" in found.err


NON_ZERO = """version 1.0;
extension tract_registry tract_core;
extension tract_registry tract_onnx;
extension tract_symbol S;
graph places( x ) -> ( y )
{
    x = tract_core_external(shape = [S, 4], datum_type = 'f32');
    y = tract_onnx_non_zero(x);
}
"""


def test_counted_results(cli: Cli, tmp_path: Path) -> None:
    path, given = tmp_path / "places.nnef", tmp_path / "x.npy"
    path.write_text(NON_ZERO)
    for items, extents in ((np.eye(4), [2, 4]), (np.zeros((3, 4)), [2, 0])):
        np.save(given, items.astype(np.float32))
        for how in ([], ["--reference"]):
            found = json.loads(cli("run", path, "-i", given, "--json", *how).out)
            assert found["y"]["shape"] == extents
            assert found["y"]["max"] == (3 if extents[1] else None)
    assert "2x0" in cli("run", path, "-i", given).out
    out = tmp_path / "places.nnefc"
    found = cli("compile", path, "--shape", "x=4,4", "-o", out)
    assert found.status == 0
    assert "'count:1:y' counts the valid ones [artifact/count]" in found.err


def test_contradictory_shapes(cli: Cli, text: str) -> None:
    assert "input/shape" in cli("compile", text, "--shape", "x=1,7,4").err
    assert "tract/assert" in cli("compile", text, "--shape", "x=1,4,4").err


def test_compile_writes_artifacts(cli: Cli, plain: str, tmp_path: Path) -> None:
    out = tmp_path / "net.nnefc"
    assert cli("compile", plain, "--random-weights", "1", "-o", str(out)).status == 0
    given = np.ones((1, 3, 4, 4), np.float32)
    want = nnefc.compile(plain, random_weights=1)(given)
    np.testing.assert_array_equal(nnefc.load(out)(given), want)


def test_inspect_describes_the_dialect(cli: Cli, text: str) -> None:
    facts = json.loads(cli("inspect", text, "--json").out)
    assert facts["dialect"] == "tract"
    tract = facts["tract"]
    assert tract["registries"] == ["tract_core", "tract_transformers"]
    assert tract["symbols"] == ["B", "S", "P"]
    assert tract["assertions"] == ["S >= 3", "B < S"]
    assert tract["shapes"] == {"x": ["B", "2*S", "4"]}
    assert tract["tried"]
    assert tract["states"][0]["name"] == "keys"
    assert {row["operation"] for row in tract["readings"]} == {"matmul", "div", "max_pool"}
    shown = cli("inspect", text, "--shape", "x=1,6,4").out
    assert "registries tract_core, tract_transformers" in shown
    assert "(here: B = 1, S = 3)" in shown
    assert "border = 'constant' ignores the border" in shown


def test_inspect_names_the_standard_dialect(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text("version 1.0;\ngraph g(x) -> (y) { x = external(shape = [2]); y = relu(x); }")
    assert json.loads(cli("inspect", str(path), "--json").out)["dialect"] == "nnef"


def test_flatten_writes_a_standard_document(cli: Cli, plain: str, tmp_path: Path) -> None:
    flat = tmp_path / "flat.nnef"
    assert cli("flatten", plain, "-o", str(flat)).status == 0
    assert cli("check", str(flat), "--strict").status == 0
    given = np.linspace(-1, 1, 48, dtype=np.float32).reshape(1, 3, 4, 4)
    results = [nnefc.compile(path, random_weights=3)(given) for path in (plain, str(flat))]
    assert results[0].shape == results[1].shape == (1, 8)


def test_flatten_lists_everything_without_a_standard_form(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(
        """version 1.0;
        extension tract_registry tract_core;
        graph g( x, i ) -> ( a, b, c )
        {
            x = tract_core_external(shape = [2, 3], datum_type = 'f16');
            i = tract_core_external(shape = [2, 3], datum_type = 'i32');
            a = tract_core_erf(x);
            b = i + i;
            c = tract_core_cast(x, to = 'i8');
        }
        """
    )
    found = cli("flatten", str(path))
    assert found.status == 1
    assert "input 'x' has items of float16" in found.err
    assert "'erf' cannot be written in NNEF" in found.err
    assert "'add' has integer operands" in found.err
    assert "'cast'" in found.err


def test_batch_with_symbols(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(
        "version 1.0;\nextension tract_registry tract_core;\nextension tract_symbol B;\n"
        "graph g(x) -> (y) { x = tract_core_external(shape = [B, 3], datum_type = 'f32');"
        " y = relu(x); }"
    )
    found = cli("run", str(path), "--batch", "5", "--random-inputs", "1", "--json")
    assert json.loads(found.out)["y"]["shape"] == [5, 3]
    path.write_text(
        "version 1.0;\nextension tract_registry tract_core;\n"
        "extension tract_symbol B;\nextension tract_symbol S;\ngraph g(x, z) -> (y, t) {"
        " x = tract_core_external(shape = [B, S], datum_type = 'f32');"
        " z = tract_core_external(shape = [B, S + 1], datum_type = 'f32');"
        " y = relu(x); t = relu(z); }"
    )
    for command in ("run", "bench", "profile", "compile"):
        refused = cli(command, str(path), "--batch", "5")
        assert refused.status == 1, command
        assert "--batch 5 is one extent of x: [B,S]" in refused.err, command
        assert "--shape x=5,S with numbers for S" in refused.err, command
    both = cli(
        *("run", str(path), "--batch", "5", "--shape", "x=5,2", "--random-inputs", "1", "--json")
    )
    assert json.loads(both.out)["t"]["shape"] == [5, 3]


def test_warm_for_several_shapes(cli: Cli, folder: Path, tmp_path: Path) -> None:
    """Calls with this shape need no further kernels, with states and for `nnefc run` too."""
    path = tmp_path / "text.nnef"
    path.write_text(TEXT.replace("/ 2.0", "/ 2.0715243"))
    warm = ("cache", "warm", path, "-t", "1", "--json")
    shown = cli(*warm, "--shape", "x=1,8,4")
    assert shown.err == ""
    assert json.loads(shown.out)["compiled"] > 0
    assert json.loads(shown.out)["models_kept"] == 0
    missing: list[int] = []

    def progress(done: int, total: int, label: str) -> None:
        missing.append(total - done)

    model = nnefc.compile(path, threads=1, progress=progress)
    model(x(1, 8))
    model(x(1, 8))
    fixed = nnefc.compile(path, threads=1, shapes={"x": (1, 8, 4)}, progress=progress)
    assert model(x(1, 8))[0].shape == (1, 8, 24)
    assert fixed(x(1, 8))[0].shape == (1, 8, 8)
    assert not any(missing)
    found = cli(*warm)
    assert "kernels of text are compiled for B = 4, S = 8" in found.err
    assert "--shape NAME=EXTENTS" in found.err


def test_warm_covers_graphs_with_states(text: str) -> None:
    needed = list(graphs_to_warm({text: parse_import(shapes=["x=1,8,4"])}))
    assert [(len(each.graph.inputs), each.dynamic_shapes) for each in needed] == [
        (1, False),
        (1, True),
        (2, True),
    ]


def test_warm_refuses_wrong_arguments(cli: Cli, folder: Path, text: str) -> None:
    assert "nnefc cache warm net.nnef.tgz" in cli("cache", "warm", "--shape", "x=1,8,4").err
    assert "tract/assert" in cli("cache", "warm", "-m", text, "--shape", "x=1,4,4").err
    assert "has no input 'z'" in cli("cache", "warm", text, "--shape", "z=1").err
    assert "invocation/unknown" in cli("cache", "warm", text, "--dialect", "nnef").err
