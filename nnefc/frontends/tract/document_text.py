"""The text of a document, rendered if the document is a template."""

from __future__ import annotations

from nnefc.formats.container import Container
from nnefc.support.limits import Limits


def rendered(text: str, container: Container, limits: Limits) -> tuple[str, str]:
    """The text to parse, and the name of the document in messages.

    A text with `{{` or `{%` is a template if there are JSON files in the document's folder.  Raises
    NnefError.
    """
    file = container.graph_file
    if ("{{" in text or "{%" in text) and container.json_names():
        from nnefc.frontends.tract.templates.document import render

        return render(text, file, container, limits), f"{file} (rendered)"
    return text, file
