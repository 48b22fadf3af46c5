"""The documentation says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nnefc.frontends.tract.operator_pages import page as page_of_operators
from nnefc.ops.tools.document import document

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]


def test_operations_page_is_current() -> None:
    """Run `python -m nnefc.ops.tools.document > docs/operations.md` after changing an operation."""
    assert (ROOT / "docs" / "operations.md").read_text() == document()


def test_page_of_tracts_operators_is_current() -> None:
    """Run `python -m nnefc.frontends.tract.operator_pages > docs/tract-operators.md`."""
    assert (ROOT / "docs" / "tract-operators.md").read_text() == page_of_operators()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
