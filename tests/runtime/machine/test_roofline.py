"""The kernels that measure the roofline: their results, not their speed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from nnefc.kernels.abi import BASE_ARENA, BASE_CODE, BASE_PARAMS, BASES
from nnefc.kernels.codegen.object_code import emit_assembly
from nnefc.kernels.family import Kernel
from nnefc.kernels.measure import limits as kernels
from nnefc.kernels.parameters import Words
from nnefc.kernels.target.isa import TABLE, Isa, host, variants
from nnefc.kernels.vector import dot_words, lane_builder
from nnefc.kernels.vector.dot_words import word_dot
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.runtime.compile.kernel_compiler import compile_kernels
from nnefc.runtime.machine import roofline as machine
from nnefc.runtime.machine.roofline import Roofline, measure_dots, measure_roofline, memory_reader
from nnefc.runtime.run.team import Team
from tests.helpers.kernels.one_op import Array, guarded


def run(kernel: Kernel, words: Words, arrays: Sequence[Array], first: int, last: int) -> None:
    """Run some tiles of a kernel; references in `words` are indices into `arrays`."""
    code = compile_kernels([kernel])
    params = np.array([0 if word is None else word for word in words], np.int64)
    bases = np.zeros(BASES + len(arrays), np.int64)
    bases[[BASE_CODE, BASE_PARAMS, BASE_ARENA]] = code.address, params.ctypes.data, 0
    bases[BASES:] = [x.ctypes.data for x in arrays]
    code.call(kernel, bases.ctypes.data, params.ctypes.data, first, last)


def vector_sum(slots: Array, tile: int) -> float:
    """The total of the tile's vector of sums."""
    return float(slots[16 * tile :][: lanes_of("float32")].sum(dtype=np.float64))


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_every_chain_does_every_step(steps: int) -> None:
    sums = guarded((3 * 16,), np.float32)
    sums[:] = -1
    words = kernels.CHAIN.pack(sums=BASES, steps=steps)
    run(kernels.multiply_add("float32"), words, [sums], 1, 3)
    chains, lanes = kernels.chains(), lanes_of("float32")
    want = lanes * chains * (chains + 1) / 2 * (1 + 2.0**-14) ** steps
    assert vector_sum(sums, 1) == pytest.approx(want, rel=1e-5)
    assert vector_sum(sums, 2) == vector_sum(sums, 1)
    assert (sums[:16] == -1).all()
    assert kernels.step_flops("float32") == 2 * lanes * chains


def test_reading_sums_every_item_once() -> None:
    items = 4 * kernels.GROUP // 4
    x, sums = guarded((3 * items,), np.float32), guarded((3 * 16,), np.float32)
    x[:] = np.random.default_rng(1).integers(-8, 8, x.shape)
    sums[:] = -1
    words = kernels.STREAM.pack(x=BASES, y=BASES + 1, nbytes=4 * items)
    run(kernels.read(), words, [x, sums], 1, 3)
    assert vector_sum(sums, 1) == x[items : 2 * items].sum()
    assert vector_sum(sums, 2) == x[2 * items :].sum()
    assert (sums[:16] == -1).all()


def test_copying_copies_its_tiles() -> None:
    items = 3 * kernels.GROUP // 4
    x, y = guarded((3 * items,), np.float32), guarded((3 * items,), np.float32)
    x[:] = np.random.default_rng(2).random(x.shape)
    y[:] = -1
    words = kernels.STREAM.pack(x=BASES, y=BASES + 1, nbytes=4 * items)
    run(kernels.copy(), words, [x, y], 1, 3)
    assert (y[items:] == x[items:]).all()
    assert (y[:items] == -1).all()


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_every_chain_of_dot_products_does_every_step(steps: int) -> None:
    sums = guarded((3 * 16,), np.int32)
    sums[:] = -1
    words = kernels.CHAIN.pack(sums=BASES, steps=steps)
    run(kernels.dots(), words, [sums], 1, 3)
    (height, width), lanes, dot = kernels.dot_tile(), lanes_of("int32"), word_dot()
    assert kernels.step_dot_macs() == 4 * lanes * height * width
    words = np.array([kernels.dot_words(row) for row in range(height)], np.int32)
    codes = words.view(host().codes).reshape(height, -1, 4 // dot.planes, dot.planes)
    planes = [[kernels.dot_weights(i, plane) for plane in range(dot.planes)] for i in range(width)]
    weights = np.array(planes, np.int32).view(dot.weights).reshape(width, dot.planes, -1)
    products = np.einsum("rsjp,wpj->rsw", codes, weights, dtype=np.int64)
    taken = products[:, [i % kernels.DOT_WORDS for i in range(steps)]]
    want = taken.sum() + np.arange(1, height * width + 1).sum()
    assert sums[16] == want.astype(np.int32)
    assert (sums[16:][:lanes] == sums[16]).all()
    assert (sums[32:][:lanes] == sums[16]).all()
    assert (sums[:16] == -1).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_the_peak_of_dot_products_is_measured(threads: int) -> None:
    assert measure_dots(threads, seconds=0.01) > 0


@pytest.mark.parametrize("threads", [1, 2])
def test_limits_are_measured(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "largest_cache", lambda: 0)
    found = measure_roofline(threads, seconds=0.01)
    assert found.threads <= threads
    assert min(found.fma_gflops, found.read_gbps, found.copy_gbps) > 0


def test_every_limit_is_the_best_of_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for any time budget, because a single run may be interrupted."""
    launches: Counter[int] = Counter()
    really = Team.run

    def run(self: Team, first: int, count: int, bases: int) -> None:
        launches[first] += 1
        really(self, first, count, bases)

    monkeypatch.setattr(machine, "largest_cache", lambda: 0)
    monkeypatch.setattr(Team, "run", run)
    measure_roofline(1, seconds=0.0)
    arithmetic, *memory = (launches[first] for first in sorted(launches))
    assert arithmetic >= 20
    assert sum(memory) >= 2 * 20


def test_double_precision_has_half_the_peak() -> None:
    limits = Roofline(threads=1, fma_gflops=100.0, read_gbps=10.0, copy_gbps=15.0)
    assert limits.peak_gflops(4) == 100
    assert limits.peak_gflops(8) == 50


def test_the_largest_cache_has_a_plausible_size() -> None:
    assert machine.largest_cache() == 0 or machine.largest_cache() >= 1 << 18


@contextmanager
def compiling_for(isa: Isa) -> Generator[None]:
    """Measuring kernels are made for a row."""
    made = kernels._multiply_add, kernels._dots  # pyright: ignore[reportPrivateUsage]
    with pytest.MonkeyPatch.context() as patch:
        for module in (kernels, lane_builder, dot_words):
            patch.setattr(module, "host", lambda: isa)
        for each in made:
            each.cache_clear()
        yield
    for each in made:
        each.cache_clear()


@pytest.mark.parametrize("name", TABLE)
def test_every_chain_stays_in_a_register(name: str) -> None:
    """A spill in the loop would make memory the limit; a chain folded away is not counted."""
    isa = TABLE[name]
    with compiling_for(isa):
        text = emit_assembly(kernels.multiply_add.make("float32"), "f", isa)
    products = re.findall(r"^\s+(?:vfmadd\w+|mulps|fmla|fmul)\s.*$", text, re.M)
    assert len(products) >= isa.registers * 3 // 4
    assert not re.search(r"[xyz]mm\d+.*\(%rsp\)|\(%rsp\).*[xyz]mm|\bq\d+, \[sp", text)


PRODUCT = r"\t(?:v?pmaddwd|vpdpbusd|sdot|smull2?)\t"


@pytest.mark.parametrize("name", [name for row in TABLE.values() for name in variants(row)])
def test_every_chain_of_dot_products_stays_in_a_register(name: str) -> None:
    isa = variants(TABLE[name.partition("+")[0]])[name]
    with compiling_for(isa):
        text = emit_assembly(kernels.dots.make(), "f", isa)
        height, width = kernels.dot_tile()
    loops = re.findall(r"^\.LBB\w+:\n((?:\t.*\n)+?)\t(?:j[a-z]+|b\.\w+)\t", text, re.M)
    (loop,) = [loop for loop in loops if re.search(PRODUCT, loop)]
    assert len(re.findall(PRODUCT, loop)) >= height * width
    assert not re.search(r"[xyz]mm\d+, -?\d*\(%rsp\)|\bstr\tq\d+", loop)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("nbytes", [1, 20 << 20, 700 << 20])
def test_a_memory_reader_reads_about_the_requested_bytes(
    nbytes: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "largest_cache", lambda: 0)
    runs: list[int] = []
    run = Team.run

    def counted(self: Team, launches: int, count: int, bases: int, parallel: bool = True) -> None:
        runs.append(count)
        run(self, launches, count, bases, parallel)

    monkeypatch.setattr(Team, "run", counted)
    read = memory_reader(nbytes, threads)
    found = {read() for _ in range(3)}
    assert found == {runs[0] * (8 << 20)}
    assert len(set(runs)) == 1
    assert abs(runs[0] * (8 << 20) - nbytes) <= 8 << 20
