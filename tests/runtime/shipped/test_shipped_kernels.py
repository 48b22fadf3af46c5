"""Shipped kernels are used before all others; packs that cannot be used are told once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc.driver.compile import check_environment
from nnefc.driver.lower_graph import lower_graph
from nnefc.kernels.elementwise import map as elementwise
from nnefc.kernels.product import matmul
from nnefc.kernels.reduce import softmax
from nnefc.kernels.target.isa import Isa, host
from nnefc.options.compile_config import CompileConfig
from nnefc.runtime.compile import kernel_compiler, support_code
from nnefc.runtime.compile.compile_unit import CompileUnit, Function, shipped_key_of
from nnefc.runtime.compile.kernel_compiler import object_code_for, object_codes
from nnefc.runtime.shipped import pack_file, shipped_kernels
from nnefc.runtime.shipped.shipped_kernels import is_shipped, load_shipped
from nnefc.support.errors import NnefError, NnefWarning

COPY = elementwise.copy()
OTHER = support_code.functions("executor")[0]
Ship = Callable[[bytes], Path]


@pytest.fixture
def ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ship:
    """`ship(data)` writes a pack for this machine, and returns its path."""
    monkeypatch.setattr(shipped_kernels, "PACKAGE", str(tmp_path))
    monkeypatch.setattr(shipped_kernels, "_packs", {})
    monkeypatch.setattr(kernel_compiler, "_objects", {})
    monkeypatch.delenv("NNEFC_SHIPPED", raising=False)
    path = tmp_path.joinpath(shipped_kernels.FOLDER, f"{host().name}.pack")
    path.parent.mkdir(parents=True)

    def write(data: bytes) -> Path:
        path.write_bytes(data)
        return path

    return write


def packed(*units: CompileUnit, isa: Isa | None = None) -> bytes:
    """A pack whose object codes are the names of kernels."""
    codes = {shipped_key_of(unit, isa or host()): unit.symbol.encode() for unit in units}
    return pack_file.pack({key: [code] for key, code in codes.items() if key})


def test_shipped_kernels_are_used_first(ship: Ship, folder: Path) -> None:
    path = ship(packed(COPY, OTHER))
    mtime = path.stat().st_mtime_ns
    assert object_codes([OTHER, COPY]) == [OTHER.symbol.encode(), COPY.symbol.encode()]
    assert object_code_for(COPY, host()) == COPY.symbol.encode()
    assert not folder.exists() or not list(folder.glob("*.kernel"))
    assert path.stat().st_mtime_ns == mtime


def test_others_are_compiled(ship: Ship, folder: Path) -> None:
    ship(packed(OTHER))
    assert object_codes([COPY])[0].startswith(b"\x7fELF")
    assert len(list(folder.glob("*.kernel"))) == 1
    assert is_shipped(OTHER, host()) and not is_shipped(COPY, host())


def test_substitutes_are_used_under_the_name_of_the_kernel(ship: Ship) -> None:
    kernel = matmul.gemm("float32", (1, 2), (), stored="q8_1")
    (other,) = kernel.substitutes()
    ship(packed(other))
    assert is_shipped(kernel, host())
    assert load_shipped(kernel, host()) == kernel.symbol.encode()
    assert load_shipped(other, host()) == other.symbol.encode()
    assert load_shipped(matmul.gemm("float32", (1, 2), (), stored="float16"), host()) is None


PRODUCTS = """version 1.0;
extension KHR_enable_fragment_definitions, KHR_enable_operator_expressions;
graph G(x, k) -> (y, z)
{
    x = external(shape = [%(m)d, 70]); k = external(shape = [70, %(n)d]);
    y = matmul(x, k);
    z = matmul(softmax(matmul(x, x, transposeB = true) * 0.25, axes = [1]), x);
}
"""


@pytest.mark.parametrize(("m", "n"), [(3, 130), (5, 40), (9, 75), (64, 33), (75, 96)])
def test_substitutes_compute_the_same_to_the_bit(
    m: int, n: int, ship: Ship, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(PRODUCTS % {"m": m, "n": n})
    rng = np.random.default_rng(m)
    inputs = [rng.standard_normal(shape, np.float32) for shape in ((m, 70), (70, n))]
    graph = nnefc.import_model(path)
    kernels_of = lower_graph(graph, CompileConfig(1, algorithms={})).kernels
    others = [other for each in kernels_of for other in each.substitutes()[:1]]
    assert others
    want = nnefc.compile(graph, threads=1)(*inputs)
    codes = {shipped_key_of(other, host()): object_code_for(other, host()) for other in others}
    ship(pack_file.pack({key: [code] for key, code in codes.items() if key}))
    monkeypatch.setattr(shipped_kernels, "_packs", {})
    monkeypatch.setattr(kernel_compiler, "_objects", {})
    replaced = [each for each in kernels_of if each.substitutes()]
    assert all(is_shipped(each, host()) for each in replaced)
    got = nnefc.compile(graph, threads=1)(*inputs)
    for a, b in zip(got, want, strict=True):
        assert a.tobytes() == b.tobytes()


def test_functions_of_other_packages_are_not_shipped(ship: Ship) -> None:
    ship(packed(COPY))
    assert load_shipped(Function("other", lambda: 0), host()) is None


def test_packs_can_be_ignored(ship: Ship, monkeypatch: pytest.MonkeyPatch) -> None:
    ship(packed(COPY))
    monkeypatch.setenv("NNEFC_SHIPPED", "OFF")
    assert load_shipped(COPY, host()) is None
    monkeypatch.setenv("NNEFC_SHIPPED", "no")
    with pytest.raises(NnefError, match="expected on or off"):
        load_shipped(COPY, host())
    with pytest.raises(NnefError, match="NNEFC_SHIPPED is 'no'"):
        check_environment()


def shorter(data: bytes) -> bytes:
    return data[:-1]


def truncated(data: bytes) -> bytes:
    return data[:100]


def emptied(data: bytes) -> bytes:
    return b""


def of_another_format(data: bytes) -> bytes:
    return data.replace(pack_file.MAGIC, b"nnefc pack 0000\n")


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (shorter, "its size is wrong"),
        (truncated, "truncated"),
        (emptied, "empty"),
        (of_another_format, "another format"),
        (flipped, "the code of a kernel is damaged"),
    ],
)
def test_damaged_packs_are_told_once(
    damage: Callable[[bytes], bytes], why: str, ship: Ship, folder: Path
) -> None:
    path = ship(damage(packed(COPY)))
    with pytest.warns(NnefWarning, match=why) as told:
        assert object_codes([COPY])[0].startswith(b"\x7fELF")
    assert len(told) == 1 and str(path) in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_shipped(COPY, host()) is None
        assert load_shipped(OTHER, host()) is None


def test_damaged_kernels_are_not_called_shipped(ship: Ship) -> None:
    ship(flipped(packed(COPY)))
    with pytest.warns(NnefWarning, match="the code of a kernel is damaged"):
        assert not is_shipped(COPY, host())


def absent(name: str) -> None:
    """`find_spec` of a package that is not installed."""


def test_missing_kernels_are_all_named_without_a_compiler(
    ship: Ship, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(packed(COPY))
    monkeypatch.setattr(kernel_compiler, "find_spec", absent)
    with pytest.raises(NnefError) as caught:
        object_codes([COPY, OTHER, softmax.rows("float64")])
    (error,) = caught.value.errors
    assert error.message == (
        f"2 kernels are neither shipped nor cached ({OTHER.symbol}, "
        "reduce.softmax.rows('float64',)); compiling them needs numba and llvmlite, but "
        "numba and llvmlite are not installed"
    )
    assert error.hint == "pip install numba llvmlite"
    with pytest.raises(NnefError, match=r"1 kernel is neither .*; compiling it needs"):
        object_codes([OTHER])
    with pytest.raises(NnefError, match=r"9 kernels are .*f3, f4, and 4 more\); compiling"):
        object_codes([Function(f"f{i}", lambda: 0) for i in range(9)])
    assert object_codes([COPY]) == [COPY.symbol.encode()]
