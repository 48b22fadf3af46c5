"""The modules of nnefc, and the imports between them, read from the sources."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_BLOCKS = ast.stmt, ast.excepthandler, ast.match_case
"""Nodes that may be imports or contain some."""
Imports = Mapping[str, frozenset[str]]
"""Module -> the modules that it imports."""


@cache
def modules() -> dict[str, Path]:
    """Every module of nnefc by its name; the name of a package is that of its `__init__`."""
    found: dict[str, Path] = {}
    for folder, _, files in os.walk(ROOT / "nnefc", followlinks=True):
        for file in files:
            path = Path(folder, file)
            if path.suffix == ".py":
                name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                found[name.removesuffix(".__init__")] = path
    return dict(sorted(found.items()))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def _statements(module: ast.Module, types: bool) -> Iterator[ast.AST]:
    """All statements of a module; without `types`, omit blocks under `if TYPE_CHECKING`."""
    todo: list[ast.AST] = [module]
    while todo:
        yield (node := todo.pop())
        if not types and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo += node.orelse
        else:
            todo += (each for each in ast.iter_child_nodes(node) if isinstance(each, _BLOCKS))


def _imported(path: Path, types: bool) -> Iterator[str]:
    known = modules()
    for node in _statements(tree(path), types):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{path}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known or node.module in known:
                    yield inner if inner in known else node.module


@cache
def imports(types: bool = True) -> Imports:
    """Imports anywhere in a module, also in functions; `types`: include `if TYPE_CHECKING`."""
    return {name: frozenset(_imported(path, types)) - {name} for name, path in modules().items()}


def rings(graph: Imports) -> list[list[str]]:
    """The strongly connected components of an import graph that are cycles."""
    after = {name: _reached(graph, name) for name in graph}
    found = {
        tuple(sorted({other for other in after[name] if name in after[other]}))
        for name in graph
        if name in after[name]
    }
    return [list(ring) for ring in sorted(found)]


def _reached(graph: Imports, start: str) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        for name in graph[todo.pop()] - seen:
            seen.add(name)
            todo.append(name)
    return seen
