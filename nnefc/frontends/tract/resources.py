"""JSON files beside a document, which operators and templates ask for; whether it is a template."""

from __future__ import annotations

from typing import Any

from nnefc.formats.container import Container
from nnefc.formats.files import printable
from nnefc.formats.json_text import parse_json
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits


def json_value(container: Container | None, label: str) -> Any:
    """What LABEL.json holds; raises NnefError `tract/resource` if it is not there, or no JSON."""
    data = None if container is None else container.resource(f"{label}.json")
    shown = f"{printable(label)}.json"
    if data is None:
        raise NnefError.of("tract/resource", f"there is no resource {shown}")
    try:
        return parse_json(data)
    except ValueError as error:
        raise NnefError.of("tract/resource", f"{shown} is not JSON: {error}") from None


def rendered(text: str, container: Container, limits: Limits) -> tuple[str, str]:
    """A document's text and what it is called in messages.

    One with `{{` or `{%` is a template where there are JSON files in its folder; then the text is
    what it gives.  Raises NnefError.
    """
    file = container.graph_file
    if ("{{" in text or "{%" in text) and container.json_names():
        from nnefc.frontends.tract.templates.document import render

        return render(text, file, container, limits), f"{file} (rendered)"
    return text, file
