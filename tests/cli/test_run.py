"""`nnefc run`: inputs from files, printed and written outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from tests.helpers.command_line import DIGITS, ROOT, Cli
from tests.helpers.onnx.models import passing, save


def test_run_and_reference_agree(cli: Cli, small: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    common = ("run", small, "-i", tmp_path / "x.npy", "--random-weights", 3)
    assert cli(*common, "-o", tmp_path / "a.npz").status == 0
    assert cli(*common, "-o", tmp_path / "b.npz", "--reference").status == 0
    a, b = (np.load(tmp_path / f"{name}.npz")["y"] for name in "ab")
    assert a.shape == (1, 4, 1, 1)
    assert a.dtype == np.float32
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert cli(*common, "-o", tmp_path / "out").status == 0
    np.testing.assert_array_equal(nnefc.read_tensor(tmp_path / "out" / "y.dat"), a)


def test_tensors_without_items_are_printed_written_and_read(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(
        "version 1.0;\nextension tract_registry tract_core;\nextension tract_symbol N;\n"
        "graph net( x, i ) -> ( y, j, n )\n{\n"
        "    x = tract_core_external(shape = [N, 3], datum_type = 'f32');\n"
        "    i = tract_core_external(shape = [N], datum_type = 'i64');\n"
        "    y = relu(x); j = i + 1; n = sum_reduce(x, axes = [0]);\n}\n"
    )
    out = tmp_path / "out"
    result = cli("run", path, "--symbol", "N=0", "--random-inputs", 1, "-o", out, "--json")
    assert json.loads(result.out)["y"]["shape"] == [0, 3]
    given = ("-i", f"x={out / 'y.dat'}", "-i", f"i={out / 'j.dat'}")
    assert cli("run", path, *given, "-o", tmp_path / "again.npz").status == 0
    with np.load(tmp_path / "again.npz") as arrays:
        found = {name: (arrays[name].shape, str(arrays[name].dtype)) for name in arrays}
        np.testing.assert_array_equal(arrays["n"], np.zeros((1, 3)))
    assert found == {"y": ((0, 3), "float32"), "j": ((0,), "int64"), "n": ((1, 3), "float32")}
    assert cli("compare", path, *given).status == 0


def test_run_recognises_an_image(cli: Cli) -> None:
    image = ROOT / "examples" / "digits" / "images" / "7.png"
    result = cli("run", DIGITS, "-i", image, "--json")
    first = json.loads(result.out)["probabilities"]["values"]
    assert int(np.argmax(first)) == 7


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "no data for x"),
        (("-i", "z=x.npy"), "z"),
        (("-i", "none.npy"), "none.npy"),
        (("--shape", "x=1,4,8,8", "--random-inputs", 1), "conv"),
        (("--shape", "z=1"), "z"),
        (("--shape", "x"), "NAME="),
        (("--random-inputs", 1, "-o", "y.txt"), "y.txt"),
        (("--random-inputs", 1, "--scalar", "float16"), "float32 or float64"),
        (("--random-inputs", 1, "--limit", "recursion=0"), "positive"),
        (("--random-inputs", 1, "-o", "/dev/null/folder"), "cannot create the folder"),
        (("--random-inputs", 1, "-o", "/dev/full"), "/dev/full: error: cannot write: No space"),
        (("--random-inputs", 1, "-o", "-", "--json"), "give one of them"),
        (("--random-inputs", 1, "-o", "/proc/version"), "this is a file, not a folder"),
        (("--random-inputs", 1, "--limit", "patience=1"), "patience"),
    ],
)
def test_wrong_arguments_are_refused(
    cli: Cli, small: Path, arguments: tuple[Any, ...], says: str
) -> None:
    result = cli("run", small, "--random-weights", 1, *arguments)
    assert result.status == 1
    assert says in result.err
    assert "Traceback" not in result.err


def test_missing_data_names_every_variable(cli: Cli, small: Path) -> None:
    result = cli("run", small, "--random-inputs", 1)
    assert result.status == 1
    assert "conv/filter" in result.err
    assert "conv/bias" in result.err
    assert "--random-weights" in result.err


COUNTER = """\
version 1.0;
graph counter( x ) -> ( y )
{
    x = external(shape = [2]);
    n = variable(shape = [2], label = 'n');
    y = add(n, x);
    u = update(n, y);
}
"""


def test_steps_keep_variables(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "graph.nnef").write_text(COUNTER)
    nnefc.write_tensor(tmp_path / "n.dat", np.array([10, 20], np.float32))
    np.save(tmp_path / "x.npy", np.array([1, 2], np.float32))
    common = ("run", tmp_path, "-i", tmp_path / "x.npy", "--json")
    for extra in ((), ("--reference",)):
        result = cli(*common, "--steps", 3, *extra)
        assert json.loads(result.out)["y"]["values"] == [13, 26]
    after = tmp_path / "after.nnef.tgz"
    assert cli(*common, "--steps", 2, "--save", after).status == 0
    result = cli("run", after, "-i", tmp_path / "x.npy", "--json")
    assert json.loads(result.out)["y"]["values"] == [13, 26]
    assert "--reference" in cli(*common, "--reference", "--save", after).err
    assert cli(*common, "--steps", 0).status == 2


def picture(path: Path, mode: str, size: tuple[int, int]) -> Path:
    from PIL import Image

    Image.new(mode, size).save(path)
    return path


def test_run_reports_conversions_of_pictures(cli: Cli, tmp_path: Path) -> None:
    notes = {
        ("L", (8, 8)): "",
        ("1", (8, 8)): "",
        ("L", (9, 7)): "resized from 9×7 to 8×8 pixels",
        ("RGB", (8, 8)): "converted from colour to grey",
        ("P", (8, 8)): "converted from colour to grey",
        ("LA", (8, 8)): "stripped of its transparency",
        ("I;16", (8, 8)): "reduced from 16 to 8 bits",
    }
    for (mode, size), note in notes.items():
        path = picture(tmp_path / "a.png", mode, size)
        result = cli("run", DIGITS, "-i", path)
        assert result.status == 0
        expected = f"{path}: note: the picture is {note} [data/image]\n" if note else ""
        assert result.err == expected, mode


def test_run_reports_conversions_of_types(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    for dtype, notes in (("float32", 0), ("float64", 1), ("uint8", 1), ("bool", 1)):
        np.save(path, np.zeros((1, 1, 8, 8), dtype))
        result = cli("run", DIGITS, "-i", path)
        assert result.status == 0
        assert result.err.count(f"converted from {dtype} to float32") == notes
        assert len(result.err.splitlines()) == notes


@pytest.mark.parametrize(
    ("values", "fits"),
    [
        (np.array([0.0, 2.0, -128.0]), True),
        (np.array([True, False, True]), True),
        (np.array([0.0, 0.5, 1.0]), False),
        (np.array([0.0, 128.0, 1.0]), False),
        (np.array([0.0, np.nan, np.inf]), False),
        (np.array([0, -129, 1]), False),
        (np.array([0, 1, 1j]), False),
    ],
)
def test_arrays_become_integers_if_no_value_changes(
    cli: Cli, tmp_path: Path, values: np.ndarray[Any, Any], fits: bool
) -> None:
    path, x = tmp_path / "graph.nnef", tmp_path / "x.npy"
    path.write_text(
        "version 1.0;\nextension tract_registry tract_core;\ngraph net( x ) -> ( y )\n{\n"
        "    x = tract_core_external(shape = [3], datum_type = 'i8');\n    y = x + 0;\n}\n"
    )
    np.save(x, values)
    result = cli("run", path, "-i", x, "-o", tmp_path / "y.npy")
    assert result.status == (0 if fits else 1)
    if fits:
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), values)
    else:
        assert f"input 'x' is {values.dtype}, expected int8" in result.err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("=x.npy", "--input =x.npy: there is no name before ="),
        ("picture=x.npy", "--input picture=x.npy: no input named picture"),
        ("image=", "--input 'image=': the path is empty"),
        ("", "--input '': the path is empty"),
    ],
)
def test_inputs_without_a_name_or_path(cli: Cli, option: str, message: str) -> None:
    result = cli("run", DIGITS, "-i", option)
    assert result.status == 1
    assert message in result.err


@pytest.mark.parametrize("suffix", ["", ".nnefc", "/b.nnefc"])
def test_names_that_are_too_long_for_the_system(cli: Cli, tmp_path: Path, suffix: str) -> None:
    output = str(tmp_path / ("a" * 300)) + suffix
    options = ("--emit", "c") if not suffix else ()
    result = cli("compile", DIGITS, *options, "-o", output)
    assert result.status == 1
    assert "error: " in result.err and "Traceback" not in result.err
    assert not list(tmp_path.iterdir())


def test_run_reports_unused_arrays(cli: Cli, tmp_path: Path) -> None:
    image = np.zeros((1, 1, 8, 8), np.float32)
    np.savez(tmp_path / "both.npz", image=image, label=7)
    np.savez(tmp_path / "none.npz", label=7)
    result = cli("run", DIGITS, "-i", tmp_path / "both.npz")
    assert result.status == 0
    assert "without an input of that name are not used: label" in result.err
    assert "no input named label" in cli("run", DIGITS, "-i", tmp_path / "none.npz").err


def test_a_file_that_is_no_picture(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_text("no picture")
    result = cli("run", DIGITS, "-i", path)
    assert f"{path}: error: this is no picture in a known format" in result.err
    assert "BufferedReader" not in result.err


def test_an_ambiguous_file_lists_the_inputs(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "graph.nnef").write_text(ADD.format(n=3))
    result = cli("run", tmp_path, "-i", "a.png")
    assert "NAME: x, y" in result.err


def test_single_outputs_are_written_to_a_file(cli: Cli, tmp_path: Path) -> None:
    common = ("run", DIGITS, "--random-inputs", 1, "-o")
    assert cli(*common, tmp_path / "y.npz").status == 0
    y = np.load(tmp_path / "y.npz")["probabilities"]
    for name, read in (("y.npy", np.load), ("Y.NPY", np.load), ("y.dat", nnefc.read_tensor)):
        assert cli(*common, tmp_path / name) == (0, "", "")
        np.testing.assert_array_equal(read(tmp_path / name), y)
    (tmp_path / "v1.0").mkdir()
    assert cli(*common, tmp_path / "v1.0").status == 0
    assert (tmp_path / "v1.0" / "probabilities.dat").exists()


def test_several_outputs_do_not_fit_an_npy(cli: Cli, tmp_path: Path) -> None:
    text = ADD.format(n=3).replace("( z )", "( z, w )").replace("z = ", "w = sub(x, y); z = ")
    (tmp_path / "graph.nnef").write_text(text)
    result = cli("run", tmp_path, "--random-inputs", 1, "-o", tmp_path / "z.npy")
    assert result.status == 1
    assert "holds one output; the model has 2 (z, w)" in result.err
    assert "z.npz" in result.err
    assert not (tmp_path / "z.npy").exists()


ADD = """\
version 1.0;
graph sum( x, y ) -> ( z )
{{
    x = external(shape = [{n}]);
    y = external(shape = [{n}]);
    z = add(x, y);
}}
"""


@pytest.mark.parametrize(("n", "shown", "listed"), [(32, 32, 32), (33, 8, 33), (1001, 8, 8)])
def test_large_outputs_are_abbreviated(
    cli: Cli, tmp_path: Path, n: int, shown: int, listed: int
) -> None:
    (tmp_path / "graph.nnef").write_text(ADD.format(n=n))
    x = np.arange(n, dtype=np.float32) / 8
    np.savez(tmp_path / "x.npz", x=x, y=np.zeros_like(x))
    common = ("run", tmp_path, "-i", tmp_path / "x.npz", "--reference")
    facts = json.loads(cli(*common, "--json").out)["z"]
    assert facts["values" if listed == n else "first"] == x[:listed].tolist()
    text = cli(*common).out
    values = " ".join(f"{v:.5g}" for v in x[:shown])
    assert values in text
    assert (f"{values} …" in text) == (shown < n)


@pytest.mark.parametrize("name", ["y.npy", "y.npz", "y.dat"])
def test_outputs_that_cannot_be_written_are_told_first(cli: Cli, tmp_path: Path, name: str) -> None:
    """Before the model is read; a folder for outputs is created with those around it."""
    result = cli("run", tmp_path / "nothing.nnef", "-o", tmp_path / "no" / name)
    assert "cannot write: No such file or directory" in result.err
    assert "nothing.nnef" not in result.err
    result = cli("run", tmp_path / "nothing.nnef", "-o", tmp_path / "no" / "folder")
    assert "nothing.nnef" in result.err


def test_a_file_of_another_shape_than_the_options_say(cli: Cli, tmp_path: Path) -> None:
    path = save(passing("batch"), tmp_path / "net.onnx")
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    result = cli("run", path, "-i", tmp_path / "x.npy", "--symbol", "batch=4")
    assert "input 'x' has shape [2, 3], expected [4, 3]" in result.err
    assert "fixed by the document, by --shape, --symbol or --batch" in result.err


def _bytes_in(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


@pytest.mark.parametrize(
    "options",
    [
        ["-i", "x.npy", "-o", "x.npy"],
        ["-i", "x=x.npy", "-o", "sub/../x.npy"],
        ["-i", "x.npy", "-o", "link.npy"],
        ["-i", "link.npy", "-o", "x.npy"],
        ["-i", "both.npz", "-o", "both.npz"],
        ["-i", "folder", "-o", "folder"],
        ["-i", "x=folder/y.dat", "-o", "folder"],
        ["-i", "x.npy", "-o", "net"],
    ],
    ids=" ".join,
)
def test_files_that_are_read_are_not_replaced(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    text = (
        "version 1.0;\ngraph g(x) -> (y)\n{\n    x = external<scalar>(shape = [2]);\n"
        "    w = variable<scalar>(shape = [2], label = 'y');\n    y = add(x, w);\n}\n"
    )
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "graph.nnef").write_text(text)
    (tmp_path / "folder").mkdir()
    (tmp_path / "sub").mkdir()
    x = np.ones(2, np.float32)
    nnefc.write_tensor(tmp_path / "net" / "y.dat", x)
    nnefc.write_tensor(tmp_path / "folder" / "x.dat", x)
    nnefc.write_tensor(tmp_path / "folder" / "y.dat", x)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "both.npz", x=x, z=x)
    (tmp_path / "link.npy").symlink_to("x.npy")
    monkeypatch.chdir(tmp_path)
    before = _bytes_in(tmp_path)
    shown = cli("run", "net", *options)
    assert shown.status == 1
    assert "this would replace" in shown.err
    assert "another name" in shown.err
    assert _bytes_in(tmp_path) == before
    other = cli("run", "net", *options[:2], "-o", "other.npy")
    assert other.status == 0, other.err
