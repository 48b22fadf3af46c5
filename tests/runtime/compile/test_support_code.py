"""The digest of the binary interface changes with the interface."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nnefc.kernels.executor import team_state
from nnefc.runtime.compile import support_code

digest: Callable[[], str] = support_code.abi_digest.__wrapped__


@pytest.fixture
def without_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support_code, "source_file", lambda _: "/nowhere/module.py")  # pyright: ignore[reportUnknownLambdaType,reportUnknownArgumentType]


def test_the_digest_is_stable() -> None:
    assert digest() == digest() == support_code.abi_digest()


def test_the_digest_changes_with_a_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usual, changed = digest(), tmp_path / "changed.py"
    changed.write_text("BASES = 5")
    monkeypatch.setattr(support_code, "source_file", lambda _: str(changed))  # pyright: ignore[reportUnknownLambdaType,reportUnknownArgumentType]
    assert digest() != usual


@pytest.mark.usefixtures("without_sources")
def test_without_sources_the_digest_covers_the_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = digest()
    assert digest() == usual
    monkeypatch.setattr(team_state, "STATE_BYTES", team_state.STATE_BYTES + 8)
    assert digest() != usual


def test_the_digest_changes_with_the_version_of_packings(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = digest()
    monkeypatch.setattr(support_code, "PACKING_VERSION", support_code.PACKING_VERSION + 1)
    assert digest() != usual
