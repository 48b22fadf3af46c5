"""`nnefc compile --emit c`, and the names that C programs see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.emit.header import Interface, header
from nnefc.emit.names import identifiers
from nnefc.runtime.memory.caller_arrays import TensorSpec
from nnefc.support.errors import NnefError
from tests.helpers.artifacts.saved import MIXED, TINY, compiled, write
from tests.helpers.command_line import Cli

# -- the command


def test_compile_emits_c(cli: Cli, tmp_path: Path) -> None:
    document = write(tmp_path, MIXED)
    options = ("--random-weights", 3, "--emit", "c")
    result = cli("compile", document, *options, "-o", tmp_path / "c", "--name", "net")
    assert result.status == 0, result.err
    model = compiled(tmp_path, MIXED)
    names = model.emit_c(tmp_path / "other", name="net")
    assert f"{tmp_path / 'c'}: CMakeLists.txt (" in result.out
    for name in names:
        assert (tmp_path / "c" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    more = ("-o", tmp_path / "arm", "--target", "aarch64", "--json")
    result = cli("compile", document, *options, *more)
    emitted = json.loads(result.out)["emitted"]
    assert emitted["target"] == "aarch64"
    assert emitted["path"] == str(tmp_path / "arm")
    for name, nbytes in emitted["files"].items():
        assert (tmp_path / "arm" / name).stat().st_size == nbytes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--emit", "rust", "-o", "c"], "--emit rust: unknown format [input/option]"),
        (["--emit", "c"], "--emit c needs a folder to write [input/option]"),
        (["--name", "net"], "--name net needs --emit [input/option]"),
        (["--emit", "c", "-o", "c", "--name", "1"], "cannot begin the names of C functions"),
        (["--emit", "c", "-o", "no/c"], "its parent folder does not exist [data/write]"),
        (["--emit", "c", "-o", "full"], "this exists and is not an empty folder [data/write]"),
        (["--emit", "c", "-o", "c", "--target", "native,aarch64"], "has code for one target"),
        (["--emit", "c", "-o", "c", "--target", "vax"], "unknown instruction set 'vax'"),
    ],
)
def test_wrong_options_are_refused(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    result = cli("compile", "there-is-no-such-model", *options)
    assert result.status != 0
    assert message in result.err
    assert [p.name for p in tmp_path.iterdir()] == ["full"]


def test_a_model_replaces_its_earlier_version(
    cli: Cli, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """Its weights and library, too; files of the user and examples that were changed stay."""
    document, folder = write(tmp_path, MIXED), tmp_path / "c"
    options = ("--emit", "c", "-o", folder, "--name", "net")
    names = compiled(tmp_path, MIXED).emit_c(folder, name="net")
    first = {name: (folder / name).read_bytes() for name in names}
    (folder / "mine.c").write_text("mine")
    (folder / "net.weights").write_bytes(b"old")
    (folder / "libnet.so").write_bytes(b"old")
    assert cli("compile", document, "--random-weights", 3, *options).status == 0
    assert {name: (folder / name).read_bytes() for name in names} == first
    assert sorted(path.name for path in folder.iterdir()) == sorted([*names, "mine.c"])
    assert not recwarn.list

    (folder / "main.c").write_bytes(first["main.c"] + b"/* mine */")
    tiny = compiled(tmp_path, TINY)
    with pytest.warns(nnefc.NnefWarning, match=r"main\.c was changed and stays as it is"):
        names = tiny.emit_c(folder, name="net")
    assert (folder / "main.c").read_bytes() == first["main.c"] + b"/* mine */"
    assert (folder / "CMakeLists.txt").read_bytes() == first["CMakeLists.txt"]
    assert (folder / "net.h").read_bytes() != first["net.h"]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*names, "mine.c"])
    (folder / "main.c").unlink()
    tiny.emit_c(folder, name="net")
    tiny.emit_c(tmp_path / "fresh", name="net")
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes()

    with pytest.raises(NnefError, match="this folder has the model net, not other"):
        tiny.emit_c(folder, name="other")
    result = cli("compile", "there-is-no-such-model", *options[:-1], "other")
    assert "this folder has the model net, not other" in result.err
    (folder / "net.h").write_text("mine")
    result = cli("compile", document, *options)
    assert "this exists and is not an empty folder" in result.err


# -- names


def test_identifiers_are_valid_and_unique() -> None:
    names = ["x", "X", "int", "a/b.c", "a_b_c", "7", "äh", "", "class"]
    found = ["x", "X_2", "int_", "a_b_c", "a_b_c_2", "x7", "ah", "x_3", "class_"]
    assert identifiers(names) == found


def test_letters_of_other_alphabets_become_their_numbers() -> None:
    names = ["网络", "网络.2", "Größe", "×ⅳ²", "🙂", "naïve_名"]
    found = ["u7f51_u7edc", "u7f51_u7edc_2", "Gro_udf_e", "iv2", "x", "naive_u540d"]
    assert identifiers(names) == found


def test_types_and_ranks_that_c_lacks() -> None:
    def interface(shape: tuple[int, ...], dtype: Any) -> Interface:
        return Interface.of("net", [TensorSpec("x", shape, np.dtype(dtype))], [], [])

    with pytest.raises(nnefc.NnefError, match="C has no type"):
        interface((1,), np.complex64)
    with pytest.raises(nnefc.NnefError, match="more than 8 dimensions"):
        interface((1,) * 9, np.float32)
    text = header(interface((), np.float32), "*/ evil", True)
    assert "#define NET_X_ITEMS 1\n" in text and "X_DIMS" not in text


@pytest.mark.parametrize("name", ["main", "c", "M", "pthread"])
def test_names_of_files_and_libraries_are_refused(tmp_path: Path, name: str) -> None:
    model = compiled(tmp_path, TINY.replace("graph tiny", f"graph {name}"))
    names = model.emit_c(tmp_path / "c")
    assert f"{name}_.h" in names
    assert f"{name}.o" not in names
    with pytest.raises(NnefError, match="would be taken for others"):
        model.emit_c(tmp_path / "d", name=name)
