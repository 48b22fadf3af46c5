"""Imports run one way along the pipeline, and heavy ones only where they are used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# What each package may import of ours, beside itself, nnefc.support.errors and
# nnefc.support.limits.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "limits": set(),
    "syntax": set(),
    "formats": set(),
    "ir": set(),
    "ops": {"syntax", "ir"},
    "frontends": {"syntax", "formats", "ir", "ops"},
    "passes": {"ir", "ops"},
    "kernels": set(),
    "packing": {"kernels"},
    "runtime": {"formats", "kernels", "ir", "packing"},
    "lower": {"ir", "ops", "kernels", "packing", "runtime"},
    "digits": set(),
}


def _imports(path: Path) -> set[str]:
    """Packages of ours that a file imports anywhere, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            if parts[0] == "nnefc" and len(parts) > 1:
                found.add(parts[1])
    return found


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_run_one_way(package: str) -> None:
    base = ROOT / "nnefc" / package
    files = sorted(base.rglob("*.py")) if base.is_dir() else [base.with_suffix(".py")]
    assert files
    allowed = ALLOWED[package] | {package, "errors", "limits"}
    for path in files:
        if path.name == "train.py":  # a script beside a package, not part of it
            continue
        strays = (_imports(path) & (set(ALLOWED) | {"api", "cli"})) - allowed
        assert not strays, f"{path.relative_to(ROOT)} imports nnefc.{', nnefc.'.join(strays)}"


@pytest.mark.parametrize(
    ("statement", "banned"),
    [
        ("import nnefc", ["numpy", "numba", "llvmlite", "typer", "rich", "PIL"]),
        ("import nnefc.cli", ["numpy", "numba", "llvmlite", "rich", "PIL"]),
        ("import nnefc.runtime.run.model", ["numba", "llvmlite", "typer", "rich", "PIL"]),
        ("import nnefc.frontends.nnef", ["numba", "llvmlite", "typer", "rich", "PIL"]),
    ],
)
def test_heavy_imports_wait(statement: str, banned: list[str]) -> None:
    code = f"import sys; {statement}; print([m for m in {banned} if m in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert output.stdout.strip() == "[]", output.stdout + output.stderr
