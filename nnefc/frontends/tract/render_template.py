"""Renders a document that is a template, before it is parsed."""

from __future__ import annotations

from nnefc.formats.container import Container
from nnefc.formats.paths import DOCUMENT, QUANTIZATION
from nnefc.support.limits import Limits
from nnefc.syntax import ast


def rendered(text: str, container: Container, limits: Limits) -> tuple[str, str]:
    """The text to parse, and the name of the document in messages.

    As in tract, a text with `{{` or `{%` is a template if its folder has JSON files.  Raises
    NnefError.
    """
    file = container.graph_file
    if ("{{" in text or "{%" in text) and container.json_names():
        from nnefc.frontends.tract.templates.document import render

        return render(text, file, container, limits), f"{file} (rendered)"
    return text, file


def texts_of(document: ast.Document, quantization: ast.QuantizationFile | None) -> dict[str, str]:
    """The texts of a document, rendered, and of its quantization, by path."""
    texts = {DOCUMENT: document.source.text}
    if quantization is not None:
        texts[QUANTIZATION] = quantization.source.text
    return texts
