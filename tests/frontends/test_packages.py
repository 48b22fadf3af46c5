"""Front ends import neither each other nor the packages that use them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "nnefc"
FRONTENDS = sorted(
    path.name for path in (ROOT / "frontends").iterdir() if (path / "__init__.py").is_file()
)


def _front_ends_of(path: Path) -> set[str]:
    """The packages of `nnefc.frontends` that a file imports anywhere, also inside functions."""
    modules: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules += [f"{node.module}.{alias.name}" for alias in node.names]
    parts = [module.split(".") for module in modules if module.startswith("nnefc.frontends.")]
    return {each[2] for each in parts}


@pytest.mark.parametrize("package", FRONTENDS)
def test_front_ends_do_not_import_each_other(package: str) -> None:
    files = sorted((ROOT / "frontends" / package).rglob("*.py"))
    assert files
    for path in files:
        others = _front_ends_of(path) - {package, "common"}
        assert not others, f"{path} imports {others}"


@pytest.mark.parametrize("package", ["dynamic", "api", "artifacts", "model_cache", "driver", "cli"])
def test_only_read_model_knows_the_dialect_of_a_source(package: str) -> None:
    """`nnefc ops --registry` lists operators of tract, and nothing else of it."""
    files = [path for path in sorted((ROOT / package).rglob("*.py")) if path.stem != "ops"]
    assert files
    for path in files:
        assert "tract" not in _front_ends_of(path), path
