"""The diagrams of the documentation are those that `python -m benchmarks.diagrams` writes."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from benchmarks.diagrams import DIAGRAMS, DOCS, draw


@pytest.mark.parametrize("name", DIAGRAMS)
def test_diagrams_are_current_light_and_shown(name: str) -> None:
    diagram, text = DIAGRAMS[name], (DOCS / f"{name}.svg").read_text()
    assert text == draw(diagram)
    assert len(text) < 20_000
    assert "prefers-color-scheme:dark" in text
    texts = {each.text for each in ElementTree.fromstring(text).iter() if each.tag.endswith("text")}
    assert {diagram.title, *(box.title for box in diagram.boxes)} <= texts
    pages = [*DOCS.glob("*.md"), *(DOCS / "design").glob("*.md")]
    assert any(re.search(rf"!\[[^]]+\]\((\.\./)?{name}\.svg\)", page.read_text()) for page in pages)


@pytest.mark.parametrize("name", DIAGRAMS)
def test_arrows_join_boxes_of_one_row_or_column(name: str) -> None:
    diagram = DIAGRAMS[name]
    cells = [(box.column, box.row) for box in diagram.boxes]
    assert len(set(cells)) == len(cells)
    for arrow in diagram.arrows:
        (column, row), (to_column, to_row) = cells[arrow.start], cells[arrow.end]
        assert (row == to_row) != (column == to_column)
        assert row <= to_row
