"""Products in float64 whose sums are those of multiply-adds, against `fmaf` of the C library."""

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# (helpers of kernels are not typed)

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import pytest

from nnefc.kernels.codegen.linker import link
from nnefc.kernels.codegen.object_code import emit
from nnefc.kernels.product.attention import tiled_panel_product
from nnefc.kernels.product.exact_product import exact_panel_product
from nnefc.kernels.target.isa import X86_64_V2, executable
from nnefc.kernels.tile.register_tile import CHAIN
from nnefc.kernels.vector.memory import LOAD
from nnefc.runtime.compile.executable_memory import ExecutableImage

Array = np.ndarray[Any, Any]

ROWS, COLUMNS, PITCH = 7, 21, 32
RANDOM = np.random.default_rng(8)
EXACT = X86_64_V2._replace(exact_fma=True)


@cache
def _code() -> ExecutableImage:
    multiply, load = exact_panel_product(tiled_panel_product(), ROWS), LOAD["int64"]

    def product(a: int, b: int, c: int, numbers: int) -> None:
        depth, a_step = load(numbers), load(numbers + 8)
        multiply(
            *(ROWS, 1, 0, 1, 0, a, depth * a_step, a_step, depth, b, 4 * PITCH),
            *(c, 4 * PITCH, COLUMNS, 1, 0, COLUMNS, depth, True),
        )

    return ExecutableImage(link([emit(product, "product", EXACT)]))


def product(a: Array, b: Array, step: int = 1) -> Array:
    """The product of a matrix, whose items are `step` items apart in memory, and a panel."""
    result = np.full((ROWS, PITCH), np.nan, np.float32)
    given = np.full((*a.shape, step), np.nan, np.float32)
    given[..., 0] = a
    panel = np.full((len(b), PITCH), np.nan, np.float32)
    panel[:, :COLUMNS] = b
    numbers = np.array([a.shape[1], 4 * step], np.int64)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(_code().entry("product"))
    call(*(x.ctypes.data for x in (given, panel, result, numbers)))
    assert np.isnan(result[:, COLUMNS:]).all()
    return result[:, :COLUMNS]


def chains(a: Array, b: Array, multiply_add: Any) -> Array:
    """Sums of chains of multiply-adds, which are added."""
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for k in range(0, len(b), CHAIN):
        value = np.zeros_like(total)
        for i in range(k, min(k + CHAIN, len(b))):
            with np.errstate(all="ignore"):
                value = multiply_add(a[:, i, None], b[i], value).astype(np.float32)
        total += value
    return total


def fused() -> Any:
    function = ctypes.CDLL("libm.so.6").fmaf
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float] * 3
    return np.frompyfunc(function, 3, 1)


def rounded_twice(x: Array, y: Array, z: Array) -> Array:
    return x.astype(np.float64) * y + z


def _normal(depth: int, scale: float = 1.0) -> tuple[Array, Array]:
    a, b = RANDOM.normal(0, scale, (ROWS, depth)), RANDOM.normal(0, scale, (depth, COLUMNS))
    return a.astype(np.float32), b.astype(np.float32)


def _powers() -> tuple[Array, Array]:
    """Exponentials of a softmax, with a 1 in every row, and zeros."""
    a, b = _normal(60)
    a = np.exp(9 * a - 9 * a.max(1, keepdims=True))
    return np.where(RANDOM.random(a.shape) < 0.2, 0, a).astype(np.float32), b


def _near_ties() -> tuple[Array, Array]:
    """Sums below the middle between two float32, by less than float64 tells where i = j.

    A block of rows has a column with a 1, the other does not.
    """
    i, j = (1 + 16 * np.arange(1, n + 1) * 2.0**-23 for n in (ROWS, COLUMNS))
    i[0] = 1
    a, b = np.stack([np.ones(ROWS), i], 1), np.stack([0 * j + 1 + 2.0**-23, (2 - j) * 2.0**-24])
    return a.astype(np.float32), b.astype(np.float32)


def _sprinkled(*numbers: float) -> tuple[Array, Array]:
    a, b = _normal(9)
    for x in (a, b):
        x[RANDOM.random(x.shape) < 0.1] = RANDOM.choice(numbers)
    return a, b


CASES = {
    "normal": _normal(64),
    "several chains": _normal(2 * CHAIN + 44),
    "small integers": tuple(np.rint(3 * x) for x in _normal(50)),
    "rounded integers": tuple(np.rint(9999 * x) for x in _normal(50)),
    "exponentials": _powers(),
    "near ties": _near_ties(),
    "subnormal sums": _normal(40, 2.0**-73),
    "tiny sums": _normal(40, 2.0**-64),
    "infinite sums": _normal(40, 2.0**63),
    "infinities": _sprinkled(np.inf, -np.inf),
    "no numbers": _sprinkled(np.nan),
    "subnormal": _sprinkled(1e-45, -1e-39),
}


@pytest.mark.skipif(X86_64_V2.name not in [i.name for i in executable()], reason="for x86-64")
@pytest.mark.parametrize("name", CASES)
def test_sums_are_those_of_multiply_adds(name: str) -> None:
    a, b = CASES[name]
    want = chains(a, b, fused())
    got = product(a, b)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got)[want == 0], np.signbit(want)[want == 0])


def test_sums_near_ties_differ_if_they_are_rounded_twice() -> None:
    a, b = CASES["near ties"]
    assert (chains(a, b, fused()) != chains(a, b, rounded_twice)).sum() == ROWS - 1


@pytest.mark.skipif(X86_64_V2.name not in [i.name for i in executable()], reason="for x86-64")
def test_items_of_rows_may_lie_apart() -> None:
    a, b = CASES["exponentials"]
    np.testing.assert_array_equal(product(a, b, step=3), product(a, b))
