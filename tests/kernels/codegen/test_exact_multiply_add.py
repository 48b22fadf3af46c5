"""Multiply-adds that round once without an instruction for it, against `fmaf` of the C library."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnefc.kernels.codegen.linker import link
from nnefc.kernels.codegen.object_code import emit
from nnefc.kernels.target.isa import X86_64_V2, executable
from nnefc.kernels.vector.lanes import fma
from nnefc.kernels.vector.memory import LOAD, STORE
from nnefc.kernels.vector.memory import fma as fma_of_numbers
from nnefc.kernels.vector.vector_builder import Vector
from nnefc.kernels.vector.vector_kernel import VectorKernel
from nnefc.runtime.compile.executable_memory import ExecutableImage
from tests.helpers.kernels.compiled_op import Array

EXACT = X86_64_V2._replace(exact_fma=True)
LANES = 16
TINY = np.float32(1e-45)
SPECIAL = np.array(
    [0.0, 1.0, 3.0, 1 + 2**-23, 1e-45, 1.2e-38, 3.4028235e38, np.inf, np.nan], np.float32
)


def _vectors(lanes: int) -> Any:
    def code(builder: Any, place: Any, result: Any, count: Any, _: Any) -> None:
        v = Vector(builder, "float32", lanes)
        with v.loop(0, count, lanes) as turn:
            offset = builder.mul(turn.index, v.word(4))
            items = v.at(v.pointer(place), builder.mul(offset, v.word(3)))
            x, y, z = (v.of("float32").load(items, 4 * lanes * i) for i in range(3))
            fma(x, y, z).store(v.at(v.pointer(result), offset))

    return VectorKernel(code)


_load, _store = LOAD["float32"], STORE["float32"]


def _numbers(place: int, result: int, count: int, _: int) -> None:
    for i in range(count):
        x = _load(place, 3 * i)
        z = _load(place, 3 * i + 2)
        _store(result, i, fma_of_numbers(x, _load(place, 3 * i + 1), z))


def _operands() -> Array:
    """x, y and z in columns; products are beside halves of an ulp of z, and of float32's steps."""
    i = np.arange(1, 400)
    x = (1 + i * 2.0**-23).astype(np.float32)
    near: list[Array] = []
    for z in (1.0, 1 + 2**-23, 1.5, 2 - 2**-23, 2.0**-120, 2.0**-126, 5 * TINY, 6 * TINY):
        half = np.spacing(np.float32(z)).astype(np.float64) / 2
        scale = 2.0**60 if half < 2**-120 else 1.0
        y = ((1 - i * 2.0**-23) * half * scale).astype(np.float32)
        for signs in itertools.product((1, -1), repeat=2):
            operands = (x / np.float32(scale), signs[0] * y, np.full_like(x, signs[1] * z))
            near.append(np.stack(operands, 1))
    special = [*SPECIAL, *-SPECIAL]
    every = np.array(list(itertools.product(special, repeat=3)), np.float32)
    bits = np.random.default_rng(5).integers(0, 2**32, (3000, 3), np.uint32).view(np.float32)
    found = np.concatenate([*near, every, bits]).astype(np.float32)
    return found[: len(found) // LANES * LANES]


def _computed(operands: Array, function: Any, isa: Any, lanes: int) -> Array:
    image = ExecutableImage(link([emit(function, "f", isa)]))
    places = np.ascontiguousarray(operands.reshape(-1, lanes, 3).transpose(0, 2, 1))
    result = np.empty(len(operands), np.float32)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(image.entry("f"))
    call(places.ctypes.data, result.ctypes.data, len(operands), 0)
    return result


def _fused() -> Callable[[float, float, float], float]:
    function = ctypes.CDLL("libm.so.6").fmaf
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float] * 3
    return function


@pytest.mark.skipif(X86_64_V2.name not in [i.name for i in executable()], reason="for x86-64")
@pytest.mark.parametrize("lanes", [1, 4, LANES])
def test_multiply_adds_round_once(lanes: int) -> None:
    operands, function = _operands(), _numbers if lanes == 1 else _vectors(lanes)
    fused = _fused()
    want = np.array([fused(*row) for row in operands.tolist()], np.float32)
    got = _computed(operands, function, EXACT, lanes)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got)[want == 0], np.signbit(want)[want == 0])
    twice = _computed(operands, function, X86_64_V2, lanes)
    assert (twice != want)[~np.isnan(want)].sum() > 1000
    # the operands tell apart a sum in float64 that is rounded to nearest first
    with np.errstate(all="ignore"):
        x, y, z = operands.astype(np.float64).T
        nearest = (x * y + z).astype(np.float32)
    assert (nearest != want)[~np.isnan(want)].sum() > 100
