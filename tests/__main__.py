"""`python3 -m tests`: everything that must hold, on a machine that has Python alone.

Makes a virtual environment beside the checkout's files, installs the project with its test
tools, then runs the linter, the type checker and the tests.  `-m "not slow"` leaves out the type
checker and slow tests; all arguments go to pytest.  Uses the standard library only.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
import venv
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv"
INHERITED = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
"""Each of the hundreds of processes of the tests would compile all modules again."""

_TESTS_FAILED = 1
"""The exit status of pytest if tests ran and some failed."""
_SHOWN = 10
"""Failures that are shown with the values of their assertions."""
YOUNG_OBJECTS = "--max-semi-space-size=256"
"""With 256 MiB for young objects, pyright spends a quarter less time, most of it on garbage."""


def _run(*command: str | Path, settings: dict[str, str] | None = None) -> int:
    """Run a command, with `settings` as further environment variables."""
    print("$", " ".join(map(str, command)), flush=True)
    environment = INHERITED | (settings or {})
    return subprocess.run([str(c) for c in command], cwd=ROOT, env=environment).returncode


class _Beside:
    """A command that runs in the background; what it prints is shown when it is waited for."""

    def __init__(self, command: list[str | Path]) -> None:
        self._command = command

    def __enter__(self) -> _Beside:
        self._output = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [str(c) for c in self._command],
            cwd=ROOT,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()

    def wait(self) -> int:
        """Print the command and its output, and return its exit status."""
        status = self._process.wait()
        self._output.seek(0)
        print("$", " ".join(map(str, self._command)), flush=True)
        print(self._output.read().decode(), flush=True)
        return status


def _install(python: Path) -> bool:
    """Install the project and its tools, unless the same was installed before."""
    installed = ENVIRONMENT / "installed.toml"
    project = (ROOT / "pyproject.toml").read_bytes()
    if installed.exists() and installed.read_bytes() == project:
        return True
    what = ("--editable", ".[dev]")
    pip = (python, "-m", "pip", "install", "--quiet", "--no-compile")
    # uv takes a quarter of pip's time.  It does not know all that pip can be configured for.
    uv = python.parent / "uv", "pip", "install", "--quiet", "--python", python
    done = not _run(*pip, "uv") and not _run(*uv, *what, settings=_settings_for_uv(python))
    # Modules that are imported are compiled then; most of the packages' modules never are.
    if not done and _run(*pip, *what):
        return False
    installed.write_bytes(project)
    return True


def _settings_for_uv(python: Path) -> dict[str, str]:
    """What pip is configured for, as environment variables of uv, which reads no file of pip."""
    listed = subprocess.run(
        [python, "-m", "pip", "config", "list"], cwd=ROOT, capture_output=True, text=True
    )
    settings = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    """The newest version of all indexes, as pip chooses."""
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        option = name.rpartition(".")[2]
        # uv names its variables as pip names its options, and ignores those that it does not know.
        variable = f"UV_{option.upper().replace('-', '_')}"
        separator = "," if option == "find-links" else " "
        settings[variable] = separator.join(ast.literal_eval(value).split())
        if option == "cert":
            settings["SSL_CERT_FILE"] = settings[variable]
    return settings


def _failed_tests(python: Path) -> list[list[str | Path]]:
    """Run the tests; the command, if some failed, which run again and show what they compared.

    Rewriting the assertions of all modules takes each worker of pytest longer than compiling them,
    which only one does.
    """
    pytest: list[str | Path] = [python, "-m", "pytest"]
    command = [*pytest, "-n", "auto", "--dist", "worksteal", "--assert=plain", *sys.argv[1:]]
    if not (status := _run(*command)):
        return []
    if status == _TESTS_FAILED:
        # in a worker, because a test that ends its process would end pytest
        shown = (
            "-n",
            "1",
            "--last-failed",
            "--last-failed-no-failures=none",
            f"--maxfail={_SHOWN}",
        )
        _run(*pytest, *shown, *sys.argv[1:])
    return [command]


def main() -> int:
    """Run all checks; the exit status is 0 if every one passed."""
    if sys.version_info < (3, 11):  # noqa: UP036 (this is how an older one is told)
        print(f"nnefc needs Python 3.11 or newer, this is {sys.version.split()[0]}")
        return 1
    tools = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin")
    python = tools / "python"
    if not python.exists():
        venv.EnvBuilder(with_pip=True, clear=True).create(ENVIRONMENT)
    if not _install(python):
        return 1
    types: list[str | Path] = [tools / "pyright", "--pythonpath", python]
    checks: list[list[str | Path]] = [
        [tools / "ruff", "check", "."],
        [tools / "ruff", "format", "--check", "."],
    ]
    with ExitStack() as stack:
        # The type checker uses one processor, and not all of it: it runs beside the tests.
        type_checker = None if "not slow" in sys.argv else stack.enter_context(_Beside(types))
        failed = [check for check in checks if _run(*check)]
        failed += _failed_tests(python)
        if type_checker and type_checker.wait():
            failed.append(types)
    for check in failed:
        print("FAILED:", " ".join(map(str, check)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
