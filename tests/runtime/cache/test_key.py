"""Names of cache entries depend on everything that the code depends on, and nothing else."""

from __future__ import annotations

import ast
import contextlib
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import nnefc
from nnefc.kernels.family import Kernel
from nnefc.kernels.target.isa import TABLE, Isa, host, variants
from nnefc.runtime.cache import key as cache_key
from nnefc.runtime.compile.compile_unit import key_of, row_for, shipped_key_of

PACKAGE = Path(nnefc.__file__).parent


def forget() -> None:
    """Clear the caches of keys."""
    for known in (
        cache_key.module_dependencies,
        cache_key._row_digest,  # pyright: ignore[reportPrivateUsage]
        cache_key._source,  # pyright: ignore[reportPrivateUsage]
        cache_key.version_of,
    ):
        known.cache_clear()


@pytest.fixture(autouse=True)
def keys_of_this_machine() -> Iterator[None]:
    """Later tests of the process do not find keys that a test made from changed facts."""
    yield
    forget()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of sources to compute keys from."""
    folder = tmp_path / "package"
    (folder / "kernels").mkdir(parents=True)
    (folder / "support").mkdir()
    monkeypatch.setattr("nnefc.support.package.PACKAGE", str(folder))
    forget()
    return folder


def name_of(
    family: str = "convolution.direct.convolve", arguments: str = "()", isa: Isa | None = None
) -> str:
    """The name of a cache entry as a new process computes it."""
    forget()
    key = cache_key.key_of(family, arguments, isa or host())
    assert key is not None
    return key.name


def test_names_depend_on_the_kernel() -> None:
    names = {
        name_of(),
        name_of(arguments="(1,)"),
        name_of("convolution.direct.other"),
        name_of("tile.register_tile.convolve"),
    }
    assert len(names) == 4
    assert name_of() in names
    assert all(len(name) == 64 and int(name, 16) >= 0 for name in names)


def test_family_and_arguments_are_not_mixed_up() -> None:
    assert name_of("convolution.direct.a", "b") != name_of("convolution.direct.ab", "")


def test_kernels_outside_the_package_have_no_key() -> None:
    assert cache_key.key_of("no_module_of_ours.kernel", "()", host()) is None
    assert cache_key.key_of(".function", "", host()) is None


@pytest.mark.parametrize("field", list(Isa._fields))
def test_names_depend_on_each_fact_of_the_instruction_set(field: str) -> None:
    isa = TABLE["x86-64-v2"]
    old: Any = getattr(isa, field)
    other = {
        **dict.fromkeys(("fma", "exact_fma", "float16", "halves"), True),
        "tile": (9, 9),
    }
    new = other[field] if field in other else old + (old or "x")
    assert name_of(isa=isa._replace(**{field: new})) != name_of(isa=isa)


# -- sources


def imported(path: Path) -> set[str]:
    """The nnefc modules that a file imports anywhere, by Python's parser."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        found |= {name.removeprefix("nnefc.") for name in names if name.startswith("nnefc.")}
    root = next(folder for folder in path.parents if (folder / "kernels").is_dir())
    return {name for name in found if root.joinpath(*name.split(".")).with_suffix(".py").exists()}


def reached(folder: Path, *modules: str) -> set[str]:
    found: set[str] = set()
    waiting = [*modules]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += imported(folder.joinpath(*name.split(".")).with_suffix(".py"))
    return found - {"support.errors", "symbolic.sym_int_base"}  # messages, and words of plans


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        "convolution.direct",
        "elementwise.map",
        "reduce.local_response",
        "executor.executor",
        "vector.rows",
    ],
)
def test_a_kernel_depends_on_the_modules_that_it_reaches(package: Path, module: str) -> None:
    shutil.copytree(PACKAGE / "kernels", package / "kernels", dirs_exist_ok=True)
    for name in ("support", "symbolic"):
        shutil.copytree(PACKAGE / name, package / name, dirs_exist_ok=True)
    before = name_of(f"{module}.kernel")
    needed: set[str] = set()
    for path in package.rglob("*.py"):
        text = path.read_bytes()
        path.write_bytes(text + b"#")
        if name_of(f"{module}.kernel") != before:
            needed.add(".".join(path.relative_to(package).with_suffix("").parts))
        path.write_bytes(text)
    assert name_of(f"{module}.kernel") == before
    assert needed == reached(package, f"kernels.{module}", "kernels.codegen.object_code")


def test_modules_shared_by_all_machines_are_dependencies() -> None:
    key = cache_key.key_of("convolution.direct.convolve", "()", host())
    assert key is not None
    assert {
        "source support/alignment.py",
        "source kernels/convolution/direct.py",
    } <= key.facts.keys()
    assert key.facts.keys().isdisjoint(
        {"source support/errors.py", "source symbolic/sym_int_base.py"}
    )


def files_imported(path: Path) -> set[str]:
    """The nnefc files that a file imports anywhere, located by Python's import system."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    found: set[str] = set()
    for name in names:
        with contextlib.suppress(ModuleNotFoundError):  # what is imported from a module
            spec = find_spec(name)
            if spec is not None and spec.origin is not None:
                origin = Path(spec.origin)
                if origin.is_relative_to(PACKAGE):
                    found.add(origin.relative_to(PACKAGE).as_posix())
    return {name for name in found if not name.endswith("__init__.py")}


def test_kernels_import_nothing_that_names_do_not_depend_on() -> None:
    forget()
    kernels = PACKAGE / "kernels"
    every = sorted(path for path in kernels.rglob("*.py") if path.name != "__init__.py")
    assert len(every) > 40
    for path in every:
        module = ".".join(path.relative_to(kernels).with_suffix("").parts)
        key = cache_key.key_of(f"{module}.kernel", "()", host())
        assert key is not None
        known = {fact.removeprefix(cache_key.SOURCE) for fact in key.facts}
        assert files_imported(path) - known <= {"support/errors.py", "symbolic/sym_int_base.py"}, (
            path
        )


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
        "from nnefc.support.alignment import LINE",
        "from nnefc.support import alignment",
        "from nnefc.support import (\n    alignment as c,\n)",
    ],
)
def test_every_form_of_import_is_seen(package: Path, statement: str) -> None:
    a = package / "kernels" / "a.py"
    a.write_text(f'"""A comment names nnefc.kernels.c."""\n{statement}\n')
    others = {name: package / "kernels" / f"{name}.py" for name in "bcd"}
    others["alignment"] = package / "support" / "alignment.py"
    for path in others.values():
        path.write_text("")
    needed = {name.rpartition(".")[2] for name in imported(a)}
    if "alignment" in statement:
        needed = {"alignment"}
    assert len(needed) >= 1
    before = name_of("a.kernel")
    for name, path in others.items():
        path.write_text("1")
        assert (name_of("a.kernel") != before) == (name in needed), name
        path.write_text("")


# -- the machine and what is installed


def test_names_depend_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NNEFC_ISA", raising=False)
    isa, other = host.__wrapped__(), TABLE["x86-64-v2"]
    native, plain = name_of(isa=isa), name_of(isa=other)
    monkeypatch.setattr(cache_key, "identity", lambda: "another one")
    assert name_of(isa=isa) != native
    assert name_of(isa=other) == plain


@pytest.mark.parametrize("package_name", ["numba", "llvmlite"])
def test_names_depend_on_the_versions_of_the_translators(
    monkeypatch: pytest.MonkeyPatch, package_name: str
) -> None:
    before, real = name_of(), cache_key.version_of.__wrapped__

    @cache_key.cache
    def other(package: str) -> str:
        return "0.1" if package == package_name else real(package)

    monkeypatch.setattr(cache_key, "version_of", other)
    assert name_of() != before


def test_names_depend_on_our_version_and_on_that_of_the_bytecode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = name_of()
    with monkeypatch.context() as patch:
        patch.setattr(cache_key, "VERSION", "0.0.1")
        assert name_of() != before
    with monkeypatch.context() as patch:
        patch.setattr(sys.implementation, "cache_tag", "cpython-399")
        assert name_of() != before
    assert name_of() == before


def test_names_do_not_depend_on_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    before = name_of()
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setattr(sys, "argv", ["other"])
    assert name_of() == before


def test_versions_are_those_of_the_installed_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = cache_key.version_of
    assert version("numba") == metadata.version("numba")
    (tmp_path / "some_package").mkdir()
    (tmp_path / "some_package" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType]
    for number in ("1.2", "1.3"):
        folder = tmp_path / f"some_package-{number}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: some_package\nVersion: {number}\n")
        version.cache_clear()
        if number == "1.2":
            assert version("some_package") == "1.2"
    assert version("some_package") == metadata.version("some_package")


# -- keys of shipped object code


def shipped(
    family: str = "convolution.direct.convolution",
    arguments: str = "()",
    isa: Isa = TABLE["x86-64-v4"],
) -> bytes | None:
    """The key of shipped code as a new process computes it."""
    forget()
    return cache_key.shipped_key(family, arguments, isa)


def test_shipped_keys_depend_on_kernel_row_and_sources(package: Path) -> None:
    shutil.copytree(PACKAGE / "kernels", package / "kernels", dirs_exist_ok=True)
    keys = {
        shipped(),
        shipped(arguments="(1,)"),
        shipped("convolution.direct.other"),
        shipped("tile.zero_halo.zero_halo"),
        *(shipped(isa=row) for row in TABLE.values()),
    }
    assert len(keys) == 4 + len(TABLE) - 1
    before = shipped()
    assert before and len(before) == 32
    with (package / "kernels" / "codegen" / "object_code.py").open("a") as file:
        file.write("#")
    assert shipped() != before


def test_shipped_keys_do_not_depend_on_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    isa = TABLE["x86-64-v4"]
    before = shipped(isa=isa._replace(cpu="native"))
    assert before == shipped(isa=isa)
    forget()
    monkeypatch.setattr(cache_key, "identity", lambda: "another one")
    monkeypatch.setattr(cache_key, "version_of", str)
    monkeypatch.setattr(sys.implementation, "cache_tag", "cpython-399")
    native = isa._replace(cpu="native")
    assert cache_key.shipped_key("convolution.direct.convolution", "()", native) == before


def test_shipped_keys_depend_on_optional_fields_that_are_read() -> None:
    row = TABLE["x86-64-v4"]
    direct, bytes_, plain = (
        "convolution.direct.convolution",
        "product.compressed_weights.rows",
        "elementwise.map.copy",
    )
    halves, dots = row._replace(halves=True), row._replace(byte_dot="llvm.x")
    assert shipped(direct, isa=halves) != shipped(direct, isa=row)
    assert shipped(bytes_, isa=dots) != shipped(bytes_, isa=row)
    assert shipped(plain, isa=halves) == shipped(plain, isa=dots) == shipped(plain, isa=row)


@pytest.mark.parametrize("name", TABLE)
def test_all_variants_of_a_row_share_kernels_that_read_no_optional_field(name: str) -> None:
    row = TABLE[name]
    fields = ("matrix_dot", "matrix_byte_dot", "bfloat16_dot", "byte_dot")
    every = [*variants(row).values(), row._replace(**dict.fromkeys(fields, "x"))]
    assert {shipped("elementwise.map.copy", isa=isa) for isa in every} == {
        shipped("elementwise.map.copy", isa=row)
    }


def test_nothing_is_shipped_for_rows_outside_the_table() -> None:
    row = TABLE["x86-64-v4"]
    assert shipped(isa=row._replace(registers=7)) is None
    assert shipped(isa=row._replace(name="other")) is None
    assert shipped("no.module.kernel") is None
    assert shipped(".function") is None


def test_exact_kernels_have_names_of_their_own() -> None:
    kernel = Kernel("elementwise.map.expression", (1,))
    exact, isa = kernel._replace(exact=True), TABLE["x86-64-v2"]
    assert exact.symbol != kernel.symbol
    assert key_of(exact, isa) != key_of(kernel, isa)
    assert shipped_key_of(exact, isa) != shipped_key_of(kernel, isa)
    assert row_for(exact, isa).exact_fma and row_for(kernel, isa) == isa
    assert row_for(exact, TABLE["x86-64-v3"]) == TABLE["x86-64-v3"]
