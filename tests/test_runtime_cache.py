"""Object code on disk: found again, and never believed blindly."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from nnefc.kernels.isa import TABLE, host
from nnefc.runtime import cache
from tests.command_line import SMALL

PROGRAM = """
from nnefc.kernels.template import Kernel
from nnefc.runtime import code
from nnefc.kernels import codegen
real, count = codegen.emit, []
codegen.emit = lambda *given: (count.append(1), real(*given))[1]
code.compile_kernels([Kernel("blocked.zero_halo")])
print(len(count))
"""

MODEL = """
import sys
import numpy as np
import nnefc
model = nnefc.compile(nnefc.import_model("small.nnef", random_weights=1), threads=2)
print(model(np.ones((1, 3, 8, 8), np.float32)).ravel().tolist())
print([name for name in ("numba", "llvmlite.binding") if name in sys.modules])
"""
COMMAND = """
import sys
from nnefc.cli import main
try:
    main()
finally:
    print([name for name in ("numba", "llvmlite.binding") if name in sys.modules])
"""
KERNELS = Path(cache.__file__).parents[1] / "kernels"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = tmp_path / "kernels"
    monkeypatch.setenv("NNEFC_CACHE", str(place))
    cache._folder.cache_clear()  # pyright: ignore[reportPrivateUsage]
    yield place
    cache._folder.cache_clear()  # pyright: ignore[reportPrivateUsage]


def compiled(folder: Path | str) -> int:
    """How many kernels a new process compiles."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "NNEFC_CACHE": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert [compiled(tmp_path / "a") for _ in range(2)] == [1, 0]
    assert compiled("off") == 1


def test_entries_come_back(folder: Path) -> None:
    cache.keep("k", b"code")
    assert cache.find("k") == b"code"
    assert cache.find("other") is None
    assert [p.name for p in folder.iterdir()] == ["k"]


@pytest.mark.parametrize("size", [0, 5, 20, -1])
def test_damaged_entries_are_none(folder: Path, size: int) -> None:
    cache.keep("k", b"code")
    entry = folder / "k"
    entry.write_bytes(entry.read_bytes()[:size])
    assert cache.find("k") is None
    cache.keep("k", b"code")
    changed = bytearray(entry.read_bytes())
    changed[-1] ^= 1
    entry.write_bytes(changed)
    assert cache.find("k") is None


def test_folders_of_others_are_not_used(folder: Path) -> None:
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    cache.keep("k", b"code")
    assert cache.find("k") is None
    assert not list(folder.iterdir())


def test_folders_that_cannot_be(folder: Path) -> None:
    folder.write_text("a file")
    cache.keep("k", b"code")
    assert cache.find("k") is None


def test_names_depend_on_what_the_code_does() -> None:
    isa = host()
    name = cache.key_of("direct", "kernel", isa)
    assert name is not None
    assert name == cache.key_of("direct", "kernel", isa)
    assert name != cache.key_of("direct", "other", isa)
    assert name != cache.key_of("tile", "kernel", isa)
    assert cache.key_of("no_module_of_ours", "kernel", isa) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of the processor")
@pytest.mark.parametrize("program", [MODEL, COMMAND])
def test_a_warm_process_loads_no_compiler(tmp_path: Path, program: str) -> None:
    (tmp_path / "small.nnef").write_text(SMALL)
    arguments = ["run", "small.nnef", "--random-weights", "1", "--random-inputs", "1", "--json"]

    def lines() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**os.environ, "NNEFC_CACHE": str(tmp_path / "kernels"), "NNEFC_JOBS": "1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    *cold, loaded = lines()
    assert loaded == "['numba', 'llvmlite.binding']"
    *warm, loaded = lines()
    assert loaded == "[]"
    assert warm == cold


# -- what a name depends on


def fresh(patch: pytest.MonkeyPatch, kernels: Path) -> None:
    """The next names are made from the sources in a folder."""
    patch.setattr(cache, "_KERNELS", kernels)
    cache._source.cache_clear()  # pyright: ignore[reportPrivateUsage]
    cache._sources.cache_clear()  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def kernels(tmp_path: Path) -> Iterator[Path]:
    """A folder of kernel modules that names are made from."""
    folder = tmp_path / "sources"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        fresh(patch, folder)
        yield folder
    cache._source.cache_clear()  # pyright: ignore[reportPrivateUsage]
    cache._sources.cache_clear()  # pyright: ignore[reportPrivateUsage]


def name_after(folder: Path, module: str) -> str | None:
    with pytest.MonkeyPatch.context() as patch:
        fresh(patch, folder)
        return cache.key_of(module, "kernel", host())


def imported(path: Path) -> set[str]:
    """Kernel modules that a file imports anywhere, by Python's own parser."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        found |= {
            parts[2]
            for name in names
            if len(parts := name.split(".")) > 2 and parts[:2] == ["nnefc", "kernels"]
        }
    return {name for name in found if path.with_name(f"{name}.py").exists()}


def reached(folder: Path, *modules: str) -> set[str]:
    found: set[str] = set()
    waiting = [*modules]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += imported(folder / f"{name}.py")
    return found


@pytest.mark.parametrize("module", ["direct", "elementwise", "normalization", "executor", "rows"])
def test_a_kernel_depends_on_the_modules_that_it_reaches(kernels: Path, module: str) -> None:
    shutil.copytree(KERNELS, kernels, dirs_exist_ok=True)
    before = name_after(kernels, module)
    needed: set[str] = set()
    for path in kernels.glob("*.py"):
        text = path.read_bytes()
        path.write_bytes(text + b"#")
        if name_after(kernels, module) != before:
            needed.add(path.stem)
        path.write_bytes(text)
    assert name_after(kernels, module) == before
    assert needed == reached(kernels, module, "codegen")


@pytest.mark.parametrize(
    "statement",
    [
        "from nnefc.kernels.b import name",
        "from nnefc.kernels import b",
        "from nnefc.kernels import b as c",
        "from nnefc.kernels import d, b  # both",
        "from nnefc.kernels import (\n    d,\n    b as c,\n)",
        "from nnefc.kernels import (  # (these)\n    d,  # c)\n    b,\n)",
        "def f():\n    from nnefc.kernels import b",
        "import nnefc.kernels.b",
        "import nnefc.kernels.b as d",
    ],
)
def test_every_form_of_import_is_seen(kernels: Path, statement: str) -> None:
    (kernels / "a.py").write_text(f'"""A comment names nnefc.kernels.c."""\n{statement}\n')
    for name in "bcd":
        (kernels / f"{name}.py").write_text("")
    needed = imported(kernels / "a.py")
    assert "b" in needed
    before = name_after(kernels, "a")
    for name in "bcd":
        (kernels / f"{name}.py").write_text("1")
        assert (name_after(kernels, "a") != before) == (name in needed), name
        (kernels / f"{name}.py").write_text("")


def test_names_depend_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NNEFC_ISA", raising=False)
    isa, other = host.__wrapped__(), TABLE["x86-64-v2"]
    native, plain = (cache.key_of("direct", "kernel", row) for row in (isa, other))
    monkeypatch.setattr(cache, "identity", lambda: "another one")
    assert cache.key_of("direct", "kernel", isa) != native
    assert cache.key_of("direct", "kernel", other) == plain


def test_names_depend_on_the_versions_of_the_translators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = cache._version  # pyright: ignore[reportPrivateUsage]
    assert metadata.version("numba") in version("numba")
    (tmp_path / "some_package").mkdir()
    (tmp_path / "some_package" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType]
    for number in ("1.2", "1.3"):
        folder = tmp_path / f"some_package-{number}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: some_package\nVersion: {number}\n")
        if number == "1.2":
            assert version("some_package") == folder.name
    assert version("some_package") == metadata.version("some_package")
