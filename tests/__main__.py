"""`python3 -m tests`: everything that must hold, on a machine that has Python alone.

Makes a virtual environment beside the checkout's files, installs the project with its test
tools, then runs the linter, the type checker and the tests.  `-m "not slow"` leaves out the type
checker and slow tests; all arguments go to pytest.  Uses the standard library only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv"


def _run(*command: str | Path) -> int:
    print("$", " ".join(map(str, command)), flush=True)
    return subprocess.run([str(c) for c in command], cwd=ROOT).returncode


def _install(python: Path) -> bool:
    """Install the project and its tools, unless the same was installed before."""
    installed = ENVIRONMENT / "installed.toml"
    project = (ROOT / "pyproject.toml").read_bytes()
    if installed.exists() and installed.read_bytes() == project:
        return True
    if _run(python, "-m", "pip", "install", "--quiet", "--editable", ".[dev]"):
        return False
    installed.write_bytes(project)
    return True


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
    checks: list[tuple[str | Path, ...]] = [
        (tools / "ruff", "check", "."),
        (tools / "ruff", "format", "--check", "."),
        (python, "-m", "pytest", "-n", "auto", "--dist", "worksteal", *sys.argv[1:]),
    ]
    if "not slow" not in sys.argv:
        checks.insert(2, (tools / "pyright", "--pythonpath", python))
    failed = [check for check in checks if _run(*check)]
    for check in failed:
        print("FAILED:", " ".join(map(str, check)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
