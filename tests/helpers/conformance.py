"""Where the conformance cases are, if they are here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def _find() -> Path | None:
    named = os.environ.get("NNEFC_CONFORMANCE")
    beside = Path(__file__).resolve().parents[3] / "shared" / "conformance" / "nnef"
    path = Path(named) if named else beside
    return path if path.is_dir() else None


CONFORMANCE: Path | None = _find()

needs_conformance = pytest.mark.skipif(
    CONFORMANCE is None,
    reason="the conformance cases are not here (set NNEFC_CONFORMANCE to their folder)",
)


def cases(pattern: str) -> list[Path]:
    """The files or folders of the collection that match, or none."""
    return sorted(CONFORMANCE.glob(pattern)) if CONFORMANCE else []
