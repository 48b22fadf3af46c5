"""Imports run one way along the pipeline, and heavy ones only where they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.helpers.sources import imports, modules, rings

# Every package, in order, with the packages that it may import beside nnefc.support.
ALLOWED: dict[str, set[str]] = {
    "support": set(),
    "symbolic": set(),
    "syntax": set(),
    "formats": set(),
    "ir": {"symbolic"},
    "options": {"formats", "ir"},
    "ops": {"symbolic", "syntax", "ir"},
    "frontends": {"symbolic", "syntax", "formats", "ir", "options", "ops"},
    "kernels": {"symbolic"},
    "program": {"symbolic", "ir", "ops", "kernels"},
    "passes": {"symbolic", "ir", "ops"},
    "lower": {"symbolic", "ir", "ops", "kernels", "program"},
    "runtime": {"symbolic", "formats", "ir", "kernels", "program"},
    "emit": {
        *("symbolic", "syntax", "formats", "ir", "ops", "frontends", "kernels", "program"),
        *("passes", "runtime"),
    },
    "driver": {
        *("formats", "ir", "options", "ops", "kernels", "program", "passes", "lower", "runtime"),
    },
    "artifacts": {"formats", "ir", "options", "kernels", "runtime", "emit", "driver"},
    "dynamic": {
        *("symbolic", "formats", "ir", "options", "frontends", "kernels", "program", "runtime"),
        *("emit", "driver", "artifacts"),
    },
    "model_cache": {
        *("formats", "ir", "options", "ops", "frontends", "kernels", "runtime", "driver"),
        *("artifacts", "dynamic"),
    },
    "api": {
        *("formats", "ir", "options", "frontends", "runtime", "emit", "driver", "artifacts"),
        *("model_cache", "dynamic"),
    },
    "onnx": {
        *("formats", "ir", "options", "frontends", "runtime", "driver", "artifacts", "dynamic"),
        "api",
    },
    "tflite": {
        *("formats", "ir", "options", "frontends", "runtime", "driver", "artifacts", "dynamic"),
        "api",
    },
    "cli": {
        *("formats", "ir", "options", "ops", "frontends", "kernels", "passes", "runtime", "emit"),
        *("driver", "artifacts", "model_cache", "dynamic", "api"),
    },
    "openvx": {"formats", "ir", "options", "frontends", "runtime", "emit", "artifacts", "api"},
    "pytorch": {
        *("syntax", "formats", "ir", "options", "frontends", "runtime", "emit", "driver"),
        *("artifacts", "dynamic"),
    },
}


def package(module: str) -> str:
    """The package below nnefc that contains a module; "" for modules outside of packages."""
    name = module.partition(".")[2].partition(".")[0]
    return name if len(module.split(".")) > 2 or is_package(module) else ""


def is_package(module: str) -> bool:
    return modules()[module].name == "__init__.py"


def test_every_package_is_in_the_order() -> None:
    assert set(map(package, modules())) - {""} == set(ALLOWED)
    beside = {module for module in modules() if not package(module)}
    assert beside == {"nnefc", "nnefc.__main__"}, "modules belong into a package"


def test_packages_import_only_earlier_ones() -> None:
    before: set[str] = set()
    for name, allowed in ALLOWED.items():
        assert allowed <= before, f"{name} may not import {allowed - before}, which come later"
        before.add(name)


@pytest.mark.parametrize("name", ALLOWED)
def test_modules_import_only_allowed_packages(name: str) -> None:
    allowed = ALLOWED[name] | {name, "support"}
    strays = {
        f"{module} imports {other}"
        for module, others in imports().items()
        if package(module) == name
        for other in others
        if package(other) not in allowed
    }
    assert not strays


@pytest.mark.parametrize("types", [False, True])
def test_imports_have_no_cycles(types: bool) -> None:
    assert rings(imports(types)) == []


def test_imports_and_cycles_are_detected() -> None:
    """Detected imports include those in functions, for types, of modules and of names."""
    graph = imports()
    assert len(graph) > 400
    assert "nnefc.runtime.compile.worker" in graph["nnefc.runtime.compile.worker_pool"]
    assert "nnefc.support.errors" in graph["nnefc"]
    assert "nnefc.runtime.run.compiled_model" in graph["nnefc"]
    assert "nnefc.runtime.run.compiled_model" not in imports(types=False)["nnefc"]
    links = {"a": "b", "b": "c", "c": "a", "d": "a", "e": "f", "f": "e", "g": ""}
    assert rings({a: frozenset(b) for a, b in links.items()}) == [["a", "b", "c"], ["e", "f"]]


@pytest.mark.parametrize(
    ("statement", "banned"),
    [
        ("import nnefc", ["numpy", "numba", "llvmlite", "typer", "rich", "PIL"]),
        ("import nnefc.cli", ["numpy", "numba", "llvmlite", "rich", "PIL"]),
        ("import nnefc.runtime.run.compiled_model", ["numba", "llvmlite", "typer", "rich", "PIL"]),
        ("import nnefc.frontends.nnef", ["numba", "llvmlite", "typer", "rich", "PIL"]),
        # `compile` with a model from the cache reads no document.
        (
            "import nnefc.api.compile, nnefc.model_cache.entry",
            ["numpy", "dataclasses", "tempfile", "hashlib", "nnefc.ir", "nnefc.frontends"],
        ),
    ],
)
def test_heavy_modules_are_imported_on_use(statement: str, banned: list[str]) -> None:
    code = f"import sys; {statement}; print([m for m in {banned} if m in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert output.stdout.strip() == "[]", output.stdout + output.stderr
