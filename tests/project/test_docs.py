"""The documentation is current: generated pages, links, anchors and paths."""

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


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_and_anchors_exist(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        if "://" in target:
            continue
        other = page.parent / target if target else page
        assert other.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in _anchors(other), f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_files_that_pages_name_exist(page: Path) -> None:
    if page.name in ("CHANGELOG.md", "CONTRIBUTING.md"):  # these name former or new files
        return
    folders = "nnefc|kernels|passes|runtime|tests|benchmarks|examples|docs"
    for path in re.findall(rf"`((?:{folders})/[\w/.*]*)`", page.read_text()):
        found = any(ROOT.glob(path.rstrip("/"))) or (ROOT / f"{path}.py").exists()
        assert found, f"{page.name} names {path}"
