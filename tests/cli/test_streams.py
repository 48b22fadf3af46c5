"""Standard streams: missing characters, full disks, closed pipes, interrupts, completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import DIGITS, Cli

COMMAND = [sys.executable, "-c", "from nnefc.cli import main; main()", "ops"]


def test_unencodable_names_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "größe.nnef"
    path.write_text("version 1.0;\ngraph größe( x ) -> ( y )\n{ }\n")
    for command in ("check", "inspect"):
        done = subprocess.run(
            [*COMMAND[:-1], command, str(path)],
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert "gr\\xf6\\xdfe.nnef:2" in done.stderr


def test_unencodable_block_characters_are_replaced() -> None:
    code = "import nnefc.cli as c; c.prepare_output(); print('\u2588 ok')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"? ok\n"


def test_shades_of_the_demo_depend_on_the_encoding() -> None:
    from nnefc.cli.demo import _shades  # pyright: ignore[reportPrivateUsage]

    assert _shades("utf-8") == " ░▒▓█"
    assert _shades("ascii") == " .:*#"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_error() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(COMMAND, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == ("error: cannot write the output: No space left on device [data/write]\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", DIGITS, "--random-inputs", 1, "-o", "/dev/null"),
        ("flatten", DIGITS, "-o", "/dev/null"),
        ("inspect", DIGITS, "--svg", "/dev/null", "--html", "/dev/null"),
    ],
)
def test_a_device_is_written_to_and_stays_one(cli: Cli, arguments: tuple[Any, ...]) -> None:
    result = cli(*arguments)
    assert (result.status, result.out) == (0, ""), result.err
    assert Path("/dev/null").is_char_device()


def test_outputs_go_to_pipes_and_to_standard_output(cli: Cli, tmp_path: Path) -> None:
    arguments = ("run", str(DIGITS), "--random-inputs", "1", "-o")
    assert cli(*arguments, tmp_path / "y.npy").status == 0
    expected = (tmp_path / "y.npy").read_bytes()
    command = [*COMMAND[:-1], *arguments]
    with (tmp_path / "log").open("wb+") as log:
        log.write(b"before")
        log.flush()
        subprocess.run([*command, "/dev/stdout"], stdout=log, check=True)
        assert (tmp_path / "log").read_bytes() == b"before" + expected
    assert subprocess.run([*command, "-"], capture_output=True, check=True).stdout == expected
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE)
    assert cli(*arguments, tmp_path / "pipe").status == 0
    assert reader.communicate()[0] == expected
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("nnefc pro", ["profile"]),
        ("nnefc profile --so", ["--sort"]),
        ("nnefc profile --sort ", ["time", "order", "loss"]),
        ("nnefc run --scalar ", ["float32", "float64"]),
        ("nnefc compile --target nat", ["native"]),
        ("nnefc compile --target native,x86-64-v2,aa", ["native,x86-64-v2,aarch64"]),
    ],
)
def test_the_shell_completes(words: str, expected: list[str]) -> None:
    """The requests of the script that `nnefc --install-completion` writes."""
    code = "import sys; sys.argv[0] = 'nnefc'; from nnefc.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "_NNEFC_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == expected, done.stderr


def test_completion_under_python_m() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "nnefc", "--show-completion", "bash"],
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "_NNEFC_COMPLETE=complete_bash" in shown
    assert shown.strip().endswith("_nnefc_completion nnefc")


@pytest.mark.parametrize("module", ["typer", "nnefc.cli.support.streams", "nnefc.cli.ops", "json"])
def test_interrupts_while_the_command_line_is_imported(module: str) -> None:
    code = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.modules.pop('json', None)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from nnefc.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "ops", "--json"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_interrupts_that_typer_turns_into_a_status(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(**_: object) -> int:
        return 130

    monkeypatch.setattr("nnefc.cli.app", interrupted)
    result = cli("ops")
    assert (result.status, result.err) == (130, "interrupted\n")


def test_interrupts_have_their_own_status() -> None:
    """Ctrl-C at any point of a command."""
    code = "from unittest import mock\n" + (
        "with mock.patch('nnefc.ops.tools.table.operations', side_effect=KeyboardInterrupt):\n"
        "    from nnefc.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "ops"], capture_output=True, text=True, check=False
    )
    assert done.stderr == "interrupted\n"
    assert done.returncode == 130


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["ops"], 0),
        (["ops", "--json"], 0),
        (["cache", "path"], 0),
        (["--help"], 0),
        (["check", "none.nnef", "--json"], 1),
        (["ops", "--none"], 2),
    ],
)
def test_a_closed_pipe(command: list[str], status: int) -> None:
    """The status is that of the command, whoever reads its output, as in `nnefc ops | head`."""
    reading, writing = os.pipe()
    os.close(reading)
    for error in (subprocess.PIPE, writing):
        done = subprocess.run(
            [*COMMAND[:-1], *command], stdout=writing, stderr=error, text=True, check=False
        )
        assert done.returncode == status
        assert "Traceback" not in (done.stderr or "")
        assert "BrokenPipe" not in (done.stderr or "")
    os.close(writing)


def test_closed_streams() -> None:
    shell = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *COMMAND]
    assert subprocess.run(shell, check=False).returncode == 0
