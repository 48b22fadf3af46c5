"""Paths of options: empty ones, files that end with a slash, and folders for outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.command_line import DIGITS, Cli


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("run", "--output"),
        ("run", "--save"),
        ("compile", "--output"),
        ("inspect", "--html"),
        ("compare", "--dump"),
        ("flatten", "--output"),
    ],
)
def test_an_empty_path_is_refused(cli: Cli, command: str, option: str) -> None:
    result = cli(command, DIGITS, option, "")
    assert (result.status, result.out) == (1, "")
    assert f"{option} '': the path is empty" in result.err


def test_a_file_does_not_end_with_a_slash(cli: Cli, tmp_path: Path) -> None:
    result = cli("compile", DIGITS, "-o", f"{tmp_path}/net.nnefc/")
    assert result.status == 1
    assert f"--output {tmp_path}/net.nnefc/: a path that ends with / is a folder" in result.err
    assert not list(tmp_path.iterdir())


def test_run_lists_the_files_that_it_writes_to_a_folder(cli: Cli, tmp_path: Path) -> None:
    arguments = ("run", DIGITS, "--random-inputs", 1, "--reference")
    for folder in (f"{tmp_path}/out/", str(tmp_path / "out")):
        result = cli(*arguments, "-o", folder)
        assert result.status == 0
        assert result.out == f"wrote {tmp_path / 'out' / 'probabilities.dat'}\n"
    assert cli(*arguments, "-o", tmp_path / "y.npy").out == ""


@pytest.mark.parametrize("path", ["3.png", "-", "probabilities=y.txt"])
def test_other_results_are_arrays(cli: Cli, path: str) -> None:
    result = cli("compare", DIGITS, "--against", path)
    assert result.status == 1
    assert f"--against {path}: the results of another engine are in .npz, .npy" in result.err
    assert "png" not in result.err.replace(path, "")


def test_shapes_have_extents(cli: Cli) -> None:
    result = cli("run", DIGITS, "--shape", "image=", "--random-inputs", 1)
    assert result.status == 1
    assert "--shape image=: expected NAME=EXTENTS" in result.err


def test_random_inputs_that_do_not_fit_in_memory_are_named(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("Unable to allocate 1 TiB")

    monkeypatch.setattr("nnefc.runtime.memory.caller_arrays._random", fail)
    result = cli("run", DIGITS, "--random-inputs", 1)
    assert result.status == 1
    assert "random values for 'image' (float32[1,1,8,8]): Unable to allocate 1 TiB" in result.err
    assert "hint: a smaller batch" in result.err
