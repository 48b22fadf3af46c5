"""Functions whose results are rounded to bfloat16, against float64."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite and scipy are untyped)

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import special

from nnefc.driver.precision import half_kernels
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector import quick_halves
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.lanes import Lanes
from nnefc.options.compile_config import CompileConfig
from tests.helpers.kernels.compiled_op import Array
from tests.kernels.vector.test_expression_argument import ulps
from tests.kernels.vector.test_math import mapped

LANES = host().float32_lanes
LEAST = float(np.finfo(np.float32).tiny)


def numbers(low: float, high: float) -> Array:
    """Float32 in this range: equally spaced, and of all sizes."""
    sizes = np.geomspace(1e-30, max(-low, high), 200_000)
    x = np.concatenate([np.linspace(low, high, 400_000), sizes, -sizes]).astype(np.float32)
    return x[(low <= x) & (x <= high)]


@pytest.mark.parametrize(
    ("function", "exact", "low", "high", "bound"),
    [
        (quick_halves.exp, np.exp, quick_halves.LOWEST, quick_halves.LARGEST, 6),
        (quick_halves.sigmoid, special.expit, -87, 100, 8),
        (quick_halves.tanh, np.tanh, -20, 20, 8),
        (quick_halves.erf, special.erf, -10, 10, 8),
    ],
)
def test_errors_in_units_of_the_last_place(
    function: Callable[[Lanes], Lanes],
    exact: Callable[[Array], Array],
    low: float,
    high: float,
    bound: float,
) -> None:
    x = numbers(low, high)
    want = exact(x.astype(np.float64))
    got = mapped(function, x, LANES)
    normal = np.abs(want) >= LEAST
    assert normal.mean() > 0.9
    assert ulps(got[normal], want[normal]).max() <= bound


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "erf"])
def test_ends(name: str) -> None:
    x = np.array([np.nan, -np.inf, np.inf, -1e30, 1e30], np.float32)
    got = mapped(getattr(quick_halves, name), x, LANES)
    assert np.isnan(got[0])
    np.testing.assert_allclose(got[1:], [0 if name == "sigmoid" else -1, 1] * 2, atol=1e-37)
    assert abs(got).max(where=~np.isnan(got), initial=0) <= 1


@pytest.mark.skipif(
    half_kernels(CompileConfig(1, precision="bfloat16")) is None,
    reason="the processor has no such conversions",
)
def test_conversions_round_to_nearest() -> None:
    def there_and_back(x: Lanes) -> Lanes:
        return convert(quick_halves.narrow(x, "bfloat16"), "float32")

    bits = np.random.default_rng(1).integers(0, 1 << 32, 500_000, np.uint32)
    halfway = np.arange(0, 1 << 32, 1 << 16, dtype=np.uint32) + np.uint32(1 << 15)
    x = np.concatenate([bits, halfway, halfway - 1, halfway + 1]).view(np.float32)
    x = x[np.abs(x) >= LEAST]
    kept = x.view(np.uint32).astype(np.uint64)
    want = ((kept + 0x7FFF + (kept >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    got = mapped(there_and_back, x, LANES)
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))
    assert np.isnan(mapped(there_and_back, np.array([np.nan], np.float32), LANES)).all()
