"""Options of the test run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.command_line import SMALL, Cli, Result


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the passes give into tests/golden instead of comparing with it",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes more than a few seconds")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """`cli("run", path, ...)`: the status and what was printed."""
    from nnefc.cli import main

    def call(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["nnefc", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
            sys.exit(0)
        captured = capsys.readouterr()
        code = exit.value.code
        return Result(code if isinstance(code, int) else 0, captured.out, captured.err)

    return call


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A document of three operations, without data."""
    path = tmp_path / "graph.nnef"
    path.write_text(SMALL)
    return path
