"""Help texts: in 80 columns, nothing cut off, and commands that start at once."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest

from nnefc.cli import COMMANDS
from tests.helpers.command_line import Cli

SUBCOMMANDS = [f"cache {name}" for name in ("path", "list", "explain", "verify", "clear", "warm")]


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("group", [(), ("cache",)], ids=["nnefc", "nnefc cache"])
def test_each_command_has_one_line(cli: Cli, group: tuple[str, ...]) -> None:
    lines = cli(*group, "--help").out.partition("Commands:\n")[2].splitlines()
    named = [line.split()[0] for line in lines]
    assert named == ([*COMMANDS] if not group else [name.split()[1] for name in SUBCOMMANDS])
    assert all(len(line) <= 80 and line.endswith(".") and "..." not in line for line in lines)


@pytest.mark.parametrize("command", [*COMMANDS, *SUBCOMMANDS])
def test_help_fits_and_every_option_is_described(cli: Cli, command: str) -> None:
    shown = cli(*command.split(), "--help")
    assert (shown.status, shown.err) == (0, "")
    assert all(len(line) <= 80 for line in shown.out.splitlines())
    lines = shown.out.partition("Options:\n")[2].splitlines()
    for line, following in pairwise([*lines, ""]):
        if line.startswith("  -"):
            name, _, described = line[2:].partition("  ")
            assert described.strip() or following.startswith("        "), name


def test_help_imports_no_command() -> None:
    code = (
        "import sys; sys.argv = ['nnefc', '--help']\n"
        "from nnefc.cli import main\n"
        "try: main()\n"
        "finally: print([m for m in sys.modules if m.startswith('nnefc.cli.') and "
        "not m.startswith('nnefc.cli.support')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_commands_import_the_compiler_when_they_run() -> None:
    code = (
        "import sys\nfrom nnefc.cli import COMMANDS, load_command\n"
        "for name in COMMANDS: load_command(name)\n"
        "print([m for m in ('numpy', 'numba', 'llvmlite', 'rich', 'PIL') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
