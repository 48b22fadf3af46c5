"""Dot products of words: all extremes, on every row of the table that this machine executes."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
import pytest

from nnefc.kernels.codegen.linker import link
from nnefc.kernels.codegen.object_code import emit
from nnefc.kernels.target.isa import TABLE, Isa, executable_variants, host, variants
from nnefc.kernels.vector import dot_words
from nnefc.kernels.vector.dot_words import pair_dot, word_dot
from nnefc.kernels.vector.vector_builder import Vector
from nnefc.kernels.vector.vector_kernel import VectorKernel
from nnefc.runtime.compile.executable_memory import ExecutableImage
from tests.helpers.kernels.compiled_op import Array

EVERY = {name: isa for row in TABLE.values() for name, isa in variants(row).items()}
LANES = 16
"""Lanes of the longest vectors; inputs are whole vectors of them."""


def dot_kernel(isa: Isa) -> bytes:
    """Object code of f(codes, weights, sums, count): adds the products of `count` words."""

    def code(builder: Any, codes: Any, weights: Any, sums: Any, count: Any) -> None:
        v, dot = Vector(builder, "int32", isa.vector_bits // 32), word_dot()
        codes, weights, sums = (v.pointer(x) for x in (codes, weights, sums))
        with v.loop(0, count, v.lanes) as turn:
            offset = builder.mul(turn.index, v.word(4))
            packed = v.at(weights, builder.mul(offset, v.word(dot.planes)))
            planes = [v.load(packed, plane * v.nbytes) for plane in range(dot.planes)]
            total = dot.add(v.load(sums, offset), dot.codes(v.load(codes, offset)), planes)
            total.store(v.at(sums, offset))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dot_words, "host", lambda: isa)
        return emit(VectorKernel(code), "f", isa)


def packed(weights: Array, isa: Isa) -> Array:
    """Weights [words, 4] as `dot_words` says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dot_words, "host", lambda: isa)
        dot = word_dot()
    planes = weights.reshape(-1, isa.vector_bits // 32, 4 // dot.planes, dot.planes)
    return np.ascontiguousarray(planes.transpose(0, 3, 1, 2), dot.weights)


def extremes(codes: str) -> tuple[Array, Array, Array]:
    """(codes [words, 4], weights [words, 4], sums [words])."""
    numbers = [0, 1, 127, 128, 255] if codes == "uint8" else [0, 1, 127, -128, -1]
    some = np.array(list(itertools.product(numbers, repeat=4)), codes)
    others = np.array(list(itertools.product([-128, -127, 0, 127], repeat=4)), np.int8)
    x = np.repeat(some, len(others), 0)
    w = np.tile(others, (len(some), 1))
    sums = np.resize(np.array([0, 5, -7, 2**31 - 1, -(2**31)], np.int32), len(x))
    return x, w, sums


def multiply(isa: Isa) -> None:
    """Compare the code for `isa`, run here, with NumPy's int64."""
    x, w, sums = extremes(isa.codes)
    assert len(x) % LANES == 0
    want = (sums + (x.astype(np.int64) * w).sum(1)).astype(np.int32)
    image = ExecutableImage(link([dot_kernel(isa)]))
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(image.entry("f"))
    weights = packed(w, isa)
    function(x.ctypes.data, weights.ctypes.data, sums.ctypes.data, len(x))
    np.testing.assert_array_equal(sums, want)


def pair_kernel(isa: Isa) -> bytes:
    """Object code of f(x, y, sums, count): adds the products of `count` pairs of int16."""

    def code(builder: Any, x: Any, y: Any, sums: Any, count: Any) -> None:
        v, dot = Vector(builder, "int32", isa.vector_bits // 32), pair_dot()
        x, y, sums = (v.pointer(p) for p in (x, y, sums))
        with v.loop(0, count, v.lanes) as turn:
            offset = builder.mul(turn.index, v.word(4))
            total = dot.add(v.load(sums, offset), dot.codes(v.load(x, offset)), [v.load(y, offset)])
            total.store(v.at(sums, offset))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dot_words, "host", lambda: isa)
        return emit(VectorKernel(code), "f", isa)


@pytest.mark.parametrize("name", [*executable_variants(), ""])
def test_sums_of_pairs_are_exact(name: str) -> None:
    """All pairs of extremes but two products of -2^15 with itself; sums wrap around."""
    isa = EVERY[name] if name else host()._replace(pair_products="")
    numbers = [0, 1, -1, 32767, -32768, 17340]
    every = np.array(list(itertools.product(numbers, repeat=4)), np.int16)
    every = every[~(every == -32768).all(1)]
    every = every[: len(every) // LANES * LANES]
    x, y = (np.ascontiguousarray(every[:, i::2]) for i in range(2))
    sums = np.resize(np.array([0, 5, -7, 2**31 - 1, -(2**31)], np.int32), len(x))
    want = (sums + (x.astype(np.int64) * y).sum(1)).astype(np.int32)
    image = ExecutableImage(link([pair_kernel(isa)]))
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(image.entry("f"))
    function(x.ctypes.data, y.ctypes.data, sums.ctypes.data, len(x))
    np.testing.assert_array_equal(sums, want)


@pytest.mark.parametrize("name", executable_variants())
def test_sums_are_exact(name: str) -> None:
    multiply(EVERY[name])


def test_sums_of_the_processor_are_exact() -> None:
    multiply(host())


def test_products_without_such_instructions_are_exact() -> None:
    """The code for NEON without dot products, with the vectors of this machine."""
    multiply(host()._replace(byte_dot="", pair_products="", codes="int8"))


@pytest.mark.parametrize("name", sorted(EVERY.keys() - executable_variants().keys()))
def test_rows_of_other_machines_link(name: str) -> None:
    link([dot_kernel(EVERY[name])])
    link([pair_kernel(EVERY[name])])
