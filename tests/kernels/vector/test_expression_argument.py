"""Every scalar function against NumPy: accuracy over the whole range, and the special cases."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (functions of any type; scipy is untyped)

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

from nnefc.ir import DType, Step
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.instructions import INSTRUCTIONS
from tests.helpers.kernels.compiled_op import Array, elementwise, evaluate

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 1e-45, -1e-45, 1.1754942e-38, 3e38]


STEP = 32749 if "NNEFC_ISA" in os.environ else 4093
"""Between bit patterns; fewer for other instruction sets than this machine's."""


def patterns(step: int = STEP) -> Array:
    """float32 values: evenly spaced bit patterns, a dense range, and special values."""
    bits = np.arange((1 << 32) // step + 1, dtype=np.uint32) * np.uint32(step)
    dense = np.linspace(-20, 20, 100_001, dtype=np.float32)
    return np.concatenate([np.array(SPECIAL, np.float32), bits.view(np.float32), dense])


def together(names: list[tuple[str, str]], *inputs: Array) -> list[Array]:
    """Results of several (operation, result type) pairs over the same operands, by one kernel."""
    count = len(inputs)
    steps = [Step(name, tuple(range(count)), DType(dtype)) for name, dtype in names]
    return list(evaluate(steps, range(count, count + len(steps)), *inputs))


def ulps(got: Array, exact: Array) -> Array:
    """Errors in units of the last place of the type of `got`; 0 where both are NaN or infinite."""
    rounded = exact.astype(got.dtype)
    unit = np.spacing(np.abs(rounded))
    error = np.abs(got - exact) / np.where(np.isfinite(unit), unit, 1)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same, 0, np.where(np.isnan(error), np.inf, error))


def check_errors(name: str, x: Array, got: Array) -> None:
    """Compare with the oracle of a function, in chunks that fit into the caches."""
    oracle, allowed = FUNCTIONS[name]
    for start in range(0, x.size, 1 << 18):
        part = slice(start, start + (1 << 18))
        errors = ulps(got[part], oracle(x[part].astype(np.float64)))
        worst = int(np.argmax(errors))
        assert errors[worst] <= allowed, f"{name}({x[part][worst]!r}): {errors[worst]} ulp"


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def _erf(x: Array) -> Array:
    return special.erf(x.astype(np.float64))


EXPONENTIAL = 1 if host().fma else 1.2
"""Largest error of exponentials in ulps."""

FUNCTIONS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "exp": (np.exp, EXPONENTIAL),
    "log": (np.log, 1),
    "log2": (np.log2, 1),
    "sin": (np.sin, 2),
    "cos": (np.cos, 2),
    "tan": (np.tan, 1),
    "sinh": (np.sinh, 1),
    "cosh": (np.cosh, 1),
    "tanh": (np.tanh, 4),
    "asin": (np.arcsin, 1),
    "acos": (np.arccos, 1),
    "atan": (np.arctan, 1),
    "asinh": (np.arcsinh, 1),
    "acosh": (np.arccosh, 1),
    "atanh": (np.arctanh, 1),
    "sigmoid": (_sigmoid, 3),
    "softplus": (lambda x: np.logaddexp(x, 0), 3),
    "rcp": (lambda x: 1 / x, 0),
    "sqrt": (np.sqrt, 0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5),
    "sqr": (lambda x: x * x, 0),
    "rsqr": (lambda x: 1 / (x * x), 2),
    "neg": (np.negative, 0),
    "abs": (np.abs, 0),
    "sign": (np.sign, 0),
    "floor": (np.floor, 0),
    "ceil": (np.ceil, 0),
    "round": (lambda x: np.floor(x + 0.5), 0),
    "round_even": (np.rint, 0),
    "erf": (_erf, 4),
    "copy": (np.array, 0),
    "relu": (lambda x: np.maximum(x, 0), 0),
}
"""The float64 oracle and the largest error in float32 ulps by operation."""

USUAL = ("exp", "log", "sin", "cos", "tanh", "sigmoid", "erf")
"""Functions that most models use."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_over_the_whole_range(name: str) -> None:
    """`tests/models/test_isa_rows.py` has other instruction sets."""
    x = patterns(STEP // 32) if name in USUAL else patterns()
    check_errors(name, x, elementwise(name, x))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_float64_over_the_range_of_float32() -> None:
    x = patterns(16381)[::7].astype(np.float64)
    results = together([(name, "float64") for name in FUNCTIONS], x)
    for (name, (oracle, _)), got in zip(FUNCTIONS.items(), results):
        errors = ulps(got, oracle(x.astype(np.longdouble)))
        worst = int(np.argmax(errors))
        assert errors[worst] <= 2.5, f"{name}({x[worst]!r}): {errors[worst]} ulp"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pow_matches_c(dtype: str) -> None:
    """Special cases in all combinations, then random pairs; against 80-bit arithmetic."""
    rng = np.random.default_rng(1)
    special = [*SPECIAL, 2, -2, 3, -3, 1e10, 1e30, 2**24 + 2, -8388609, 0.99999994, 1.0000001]
    a, b = (v.ravel() for v in np.meshgrid(special, special))
    bits = rng.integers(0, 1 << 32, (2, 200_000), dtype=np.uint64).astype(np.uint32)
    wild = bits.view(np.float32)
    mild = np.exp(rng.normal(size=200_000)), rng.normal(size=200_000) * 20
    whole = rng.integers(-20, 20, (2, 10_000))
    x = np.concatenate([a, wild[0], mild[0], whole[0]]).astype(np.float32).astype(dtype)
    y = np.concatenate([b, wild[1], mild[1], whole[1]]).astype(np.float32).astype(dtype)
    got = elementwise("pow", x, y)
    exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    errors = ulps(got, exact)
    worst = int(np.argmax(errors))
    assert errors[worst] <= 1, f"pow({x[worst]!r}, {y[worst]!r}) = {got[worst]!r}"
    signed = ~np.isnan(exact)
    assert (np.signbit(got) == np.signbit(exact))[signed].all()


def test_sine_of_the_hardest_arguments() -> None:
    """The float32 values nearest to multiples of pi/2, found with exact arithmetic."""
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.prec = 300
    # 16367173 * 2**72 is the float32 value nearest to a multiple of pi/2, relative to its size.
    hard = np.array([16367173.0 * 2.0**72, 11.0, 22.0, 355.0, 2.0**127], np.float32)
    for name, oracle in (("sin", mpmath.sin), ("cos", mpmath.cos), ("tan", mpmath.tan)):
        exact = np.array([float(oracle(mpmath.mpf(float(x)))) for x in hard])
        assert (ulps(elementwise(name, hard), exact) <= 1).all(), name


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.minimum,
    "max": np.maximum,
    "remainder": np.fmod,
}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "lt": np.less,
    "gt": np.greater,
    "le": np.less_equal,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}


def _pairs(dtype: str) -> tuple[Array, Array]:
    rng = np.random.default_rng(2)
    if dtype.startswith("float"):
        a = np.array([*SPECIAL, 2.5, -7.25, 1e30], dtype)
    elif dtype == "bool":
        a = np.array([False, True])
    else:
        info = np.iinfo(dtype)
        a = np.array([0, 1, -1, 7, -7, info.max, info.min, info.max - 1], dtype)
        a = np.concatenate([a, rng.integers(-1000, 1000, 10).astype(dtype)])
    x, y = np.meshgrid(a, a)
    return x.ravel(), y.ravel()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_binary_operations_match_numpy(dtype: str) -> None:
    x, y = _pairs(dtype)
    names = [name for name in BINARY if dtype in INSTRUCTIONS[name].types]
    if not dtype.startswith("float"):
        names.remove("div")  # of integers: tests/models/test_integers.py
    for name, got in zip(names, together([(name, dtype) for name in names], x, y)):
        np.testing.assert_array_equal(got, BINARY[name](x, y), name)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
def test_comparisons_match_numpy(dtype: str) -> None:
    x, y = _pairs(dtype)
    for name, got in zip(COMPARISONS, together([(name, "bool") for name in COMPARISONS], x, y)):
        np.testing.assert_array_equal(got, COMPARISONS[name](x, y), name)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_unary_integers_wrap_around(dtype: str) -> None:
    x, _ = _pairs(dtype)
    names = ["neg", "abs", "sign", "sqr", "relu", "copy"]
    for name, got in zip(names, together([(name, dtype) for name in names], x)):
        np.testing.assert_array_equal(got, FUNCTIONS[name][0](x).astype(dtype), name)


BITS: dict[str, Callable[[Any, Any], Any]] = {
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
}


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool"])
def test_bits(dtype: str) -> None:
    x, y = _pairs(dtype)
    for name, got in zip(BITS, together([(name, dtype) for name in BITS], x, y)):
        np.testing.assert_array_equal(got, BITS[name](x, y), name)
    np.testing.assert_array_equal(elementwise("bitnot", x), ~x)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_shift_counts_are_modulo_the_width(dtype: str) -> None:
    x, _ = _pairs(dtype)
    width = np.iinfo(dtype).bits
    for count in (0, 1, 7, width - 1, width, width + 3, -1):
        y = np.full_like(x, count)
        left, right = together([("shift_left", dtype), ("shift_right", dtype)], x, y)
        np.testing.assert_array_equal(left, x << (count % width))
        np.testing.assert_array_equal(right, x >> (count % width))


def test_logic() -> None:
    x, y = _pairs("bool")
    both, either = together([("and", "bool"), ("or", "bool")], x, y)
    np.testing.assert_array_equal(elementwise("xor", x, y), x ^ y)
    np.testing.assert_array_equal(both, x & y)
    np.testing.assert_array_equal(either, x | y)
    np.testing.assert_array_equal(elementwise("not", x), ~x)
    np.testing.assert_array_equal(elementwise("copy", x), x)


def test_logicals_of_any_byte_are_true() -> None:
    """Memory written by others may hold bytes other than 0 and 1."""
    x = np.array([0, 1, 2, 255], np.uint8).view(bool)
    got = elementwise("not", x)
    assert got.view(np.uint8).tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
def test_select(dtype: str) -> None:
    x, y = _pairs(dtype)
    condition = np.arange(x.size) % 3 == 0
    got = elementwise("select", condition, x, y, dtype=dtype)
    np.testing.assert_array_equal(got, np.where(condition, x, y))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("given", ["float32", "float64", "int32", "int64", "bool"])
def test_cast(given: str) -> None:
    x, _ = _pairs(given)
    targets = ["float32", "float64", "int32", "int64", "bool"]
    for dtype, got in zip(targets, together([("cast", dtype) for dtype in targets], x)):
        if given.startswith("float") and dtype.startswith("int"):
            info = np.iinfo(dtype)
            whole = [0 if np.isnan(v) else min(max(v, info.min), info.max) for v in x.tolist()]
            expected = np.array([int(v) for v in whole], dtype)
        else:
            expected = x.astype(dtype)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("exponent", [2.0, 3.0, 4.0, 5.0, -2.0])
def test_powers_with_a_known_exponent(dtype: str, exponent: float) -> None:
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, 1e-30, -1e-11]
    x = np.concatenate((np.linspace(-50, 50, 997), special)).astype(dtype)
    kind = DType(dtype)
    steps = [Step("literal", (), kind, exponent), Step("pow", (0, 1), kind)]
    (got,) = evaluate(steps, [2], x)
    errors = ulps(got, np.power(x.astype(np.longdouble), np.longdouble(exponent)))
    assert errors.max() <= 2
