"""Limits on the sizes of folders, files and functions; modules say what they hold."""

from __future__ import annotations

import ast

from tests.helpers.sources import ROOT, modules, tree

FOLDER_FILES, FILE_LINES, FUNCTION_LINES = 25, 400, 60

LONG_FUNCTIONS: set[str] = {
    "nnefc.kernels.convolution.direct.tiles_of_units",
    "nnefc.kernels.product.attention._attention_loops",
    "nnefc.kernels.product.attention.attend",
    "nnefc.kernels.product.matmul._gemm_loops",
    "nnefc.kernels.product.matmul.run_blocks",
}
"""Functions that are longer: each is one nest of loops of a kernel, or the function around it."""


def length(function: ast.FunctionDef) -> int:
    """Lines from `def` to the end, with signature, docstring and inner functions."""
    return 1 + (function.end_lineno or 0) - function.lineno


def test_functions_are_short() -> None:
    long = {
        f"{module}.{node.name}"
        for module, path in modules().items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef) and length(node) > FUNCTION_LINES
    }
    assert sorted(long - LONG_FUNCTIONS) == [], f"more than {FUNCTION_LINES} lines"
    assert sorted(LONG_FUNCTIONS - long) == [], "short now: take them off the list"


def test_files_are_short() -> None:
    long = {
        module for module, path in modules().items() if path.read_text().count("\n") > FILE_LINES
    }
    assert sorted(long) == [], f"more than {FILE_LINES} lines"


def test_folders_are_small() -> None:
    counts = {
        folder: sum(1 for path in folder.iterdir() if path.name != "__pycache__")
        for folder in {path.parent for path in modules().values()}
    }
    assert len(counts) > 40
    root = ROOT / "nnefc"  # py.typed and __main__ do not belong to the pipeline
    many = {
        folder for folder, count in counts.items() if count > FOLDER_FILES + 2 * (folder == root)
    }
    assert not many, f"more than {FOLDER_FILES} files"


def test_the_first_line_of_a_module_is_a_sentence() -> None:
    first = {
        module: (ast.get_docstring(tree(path)) or "").partition("\n")[0]
        for module, path in modules().items()
    }
    others = {m: line for m, line in first.items() if not line.endswith(".") or line.count(" ") < 2}
    assert not others
