"""Folders, files and functions are small enough to be read at once; packages say what they are."""

from __future__ import annotations

import ast

import pytest

from tests.helpers.sources import ROOT, modules, tree

FILES, LINES, STATEMENTS = 25, 400, 60

LONG_FUNCTIONS: set[str] = {
    "nnefc.kernels.product.attention.attend",
    "nnefc.kernels.product.matmul.run_blocks",
}
"""Functions that are longer: nests of loops of one kernel, or lists of options."""


def length(function: ast.FunctionDef) -> int:
    """Lines of the body, without docstring and without functions that are defined in it."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return sum(
        1 + (node.end_lineno or 0) - node.lineno
        for node in body
        if not isinstance(node, ast.FunctionDef)
    )


def test_functions() -> None:
    long = {
        f"{module}.{node.name}"
        for module, path in modules().items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef) and length(node) > STATEMENTS
    }
    assert sorted(long - LONG_FUNCTIONS) == [], f"more than {STATEMENTS} lines"
    assert sorted(LONG_FUNCTIONS - long) == [], "short now: take them off the list"


def test_files() -> None:
    long = {module for module, path in modules().items() if path.read_text().count("\n") > LINES}
    assert sorted(long) == [], f"more than {LINES} lines"


def test_folders() -> None:
    counts = {
        folder: sum(1 for path in folder.iterdir() if path.name != "__pycache__")
        for folder in {path.parent for path in modules().values()}
    }
    assert len(counts) > 40
    root = ROOT / "nnefc"  # of which py.typed and __main__ are no part of the pipeline
    many = {folder for folder, count in counts.items() if count > FILES + 2 * (folder == root)}
    assert not many, f"more than {FILES} files"


@pytest.mark.parametrize(
    "package", [name for name, path in modules().items() if path.name == "__init__.py"]
)
def test_packages_say_what_they_hold(package: str) -> None:
    assert ast.get_docstring(tree(modules()[package]))
