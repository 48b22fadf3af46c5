"""docs/torch-operators.md lists the registered operators."""

from __future__ import annotations

from pathlib import Path

from nnefc.frontends.torch.operator_pages import page

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_the_table_of_operators_is_current() -> None:
    """Run `python -m nnefc.frontends.torch.operator_pages > docs/torch-operators.md`."""
    assert (DOCS / "torch-operators.md").read_text() == page()
