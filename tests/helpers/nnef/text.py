"""Short documents for tests of the front end."""

from __future__ import annotations

from typing import Any

import pytest

from nnefc.frontends.nnef import import_text
from nnefc.ir import Graph
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError

HEAD = """version 1.0;
extension KHR_enable_fragment_definitions;
extension KHR_enable_operator_expressions;
"""
"""Three lines."""


def document(body: str, fragments: str = "", *, parameters: str = "x", results: str = "y") -> str:
    """A document with a graph of parameter x, of shape [2,3] unless `body` says otherwise."""
    if "external" not in body:
        body = "x = external(shape = [2,3]);\n" + body
    if fragments and not fragments.endswith("\n"):
        fragments += "\n"
    return f"{HEAD}{fragments}graph g( {parameters} ) -> ( {results} )\n{{\n{body}\n}}\n"


def load(body: str, fragments: str = "", **options: Any) -> Graph:
    """The graph of `document(body, fragments)`; no warning is expected."""
    diagnostics = Diagnostics()
    names = {k: options.pop(k) for k in ("parameters", "results") if k in options}
    text = document(body, fragments, **names)
    graph = import_text(text, config=ImportConfig(**options), diagnostics=diagnostics)
    assert not diagnostics.warnings
    return graph


def errors_of(text: str, **options: Any) -> tuple[Diagnostic, ...]:
    """The errors of a document, which must have some."""
    with pytest.raises(NnefError) as caught:
        import_text(text, config=ImportConfig(**options))
    return caught.value.errors


def rules_of(text: str) -> list[str]:
    return [error.rule for error in errors_of(text)]


def value_of(expression: str, dtype: str = "integer", fragments: str = "") -> tuple[Any, ...]:
    """The items of an array expression, as the front end evaluates it."""
    body = f"y = constant<{dtype}>(shape = [length_of({expression})], value = {expression});"
    graph = load(body, fragments, integer="int64", scalar="float64")
    (op,) = graph.ops
    return op.attributes["value"]
