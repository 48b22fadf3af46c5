"""Elementary functions on vectors of any number of lanes, and functions without an operation."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (functions of any type; llvmlite and scipy are untyped)

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnefc.kernels.target.isa import host
from nnefc.kernels.vector import math as vector_math
from nnefc.kernels.vector.lanes import Lanes
from nnefc.kernels.vector.vector_builder import Vector
from nnefc.kernels.vector.vector_kernel import VectorKernel
from nnefc.runtime.compile.kernel_compiler import compile_functions
from tests.helpers.kernels.compiled_op import Array
from tests.kernels.vector.test_expression_argument import (
    EXPONENTIAL,
    USUAL,
    check_errors,
    patterns,
    ulps,
)

COUNT = 64
"""Lanes of the widest vector of these tests."""


def mapped(function: Callable[[Lanes], Lanes], x: Array, width: int = COUNT) -> Array:
    """`function` of every item, `width` lanes at a time."""

    def emit(builder: Any, source: Any, target: Any, count: Any, _: Any) -> None:
        v = Vector(builder, "float32", width)
        with v.loop(0, count, width) as turn:
            offset = builder.mul(turn.index, v.word(4))
            value = function(v.of("float32").load(v.at(v.pointer(source), offset)))
            value.store(v.at(v.pointer(target), offset))

    code = compile_functions([("f", VectorKernel(emit))])
    given = np.resize(x, -(-x.size // COUNT) * COUNT)
    result = np.empty_like(given)
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
    kind(code.entry("f"))(given.ctypes.data, result.ctypes.data, given.size, 0)
    return result[: x.size]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", USUAL)
def test_errors_in_units_of_the_last_place(name: str) -> None:
    x = patterns()
    check_errors(name, x, mapped(getattr(vector_math, name), x))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["tanh", "erf", "sin"])
def test_odd_functions_keep_signs_of_zeros_and_denormals(name: str) -> None:
    x = np.array([0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-40], np.float32)
    got = mapped(getattr(vector_math, name), x)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(x))
    np.testing.assert_array_equal(got[:2], [0, 0])


@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid"])
def test_bounded_functions_do_not_exceed_one(name: str) -> None:
    x = np.linspace(0, 30, 1_000_003, dtype=np.float32)
    got = mapped(getattr(vector_math, name), x)
    assert got.max() == 1


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_exponential_of_nonpositive_numbers() -> None:
    x = patterns()
    x = x[~(x > 0)]
    exact = np.exp(x.astype(np.float64))
    got = mapped(vector_math.exp_nonpositive, x)
    normal = ~(exact < 2.0**-126)
    assert ulps(got, exact)[normal].max() <= EXPONENTIAL
    assert (got[~normal] <= 2.0**-126).all()
    assert (mapped(vector_math.exp_nonpositive, x[x == -np.inf]) == 0).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 32])
def test_results_do_not_depend_on_the_number_of_lanes(width: int) -> None:
    """Some vectors have only a few lanes that need the slow path."""
    x = np.concatenate([np.linspace(-9, 9, 999), [1e30, np.nan, np.inf]]).astype(np.float32)
    for name in ("exp", "sin", "tan"):
        function = getattr(vector_math, name)
        if name == "sin" and not host().fma:
            continue
        wide, narrow = mapped(function, x), mapped(function, x, width)
        close = np.isclose(wide, narrow, rtol=3e-7, atol=1e-45, equal_nan=True)
        assert close.all(), (name, x[~close][:3])
