"""docs/reference.md documents every public name, as it is now."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import nnefc
from nnefc.api.document import MODULES, document

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_is_current() -> None:
    """Run `python -m nnefc.api.document > docs/reference.md` after changing a public docstring."""
    assert (ROOT / "docs" / "reference.md").read_text() == document()


def test_every_public_name_has_a_description() -> None:
    entries = dict(entry.split("\n", 1) for entry in document().split("\n### ")[1:])
    others = [
        f"{module}.{name}"
        for module, names in MODULES.items()
        for name in names or import_module(module).__all__
    ]
    assert set(entries) == set(others)
    assert {f"nnefc.{name}" for name in nnefc.__all__} < set(entries)
    for name, text in entries.items():
        prose = [part for part in text.split("\n\n") if part.strip()[:3] not in ("", "```", "## ")]
        assert prose, name
