"""Element-wise kernels: broadcasting, tiles, and accesses to memory."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (arrays of any type)

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Expression, Graph, Op, Step, TensorType
from nnefc.kernels.codegen.linker import link
from nnefc.kernels.codegen.object_code import emit
from nnefc.kernels.elementwise import map as kernels
from nnefc.kernels.elementwise.parameters import COPY, Access, AccessPattern
from nnefc.kernels.target import isa
from nnefc.kernels.target.isa import TABLE
from nnefc.kernels.vector.expression_argument import ELEMENTARY
from nnefc.kernels.vector.expression_argument import Expression as Key
from nnefc.lower import lower
from nnefc.lower.elementwise import expression as lowering
from nnefc.lower.elementwise.expression import coalesce, flatten_rows, strides
from nnefc.program.program import Program
from nnefc.runtime.compile.kernel_compiler import compile_kernels
from nnefc.runtime.plan.planner import make_plan
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.examples import examples
from tests.helpers.kernels.compiled_op import Array, evaluate, graph_of

F32, F64, I32, I64, BOOL = (DType(n) for n in ("float32", "float64", "int32", "int64", "bool"))


def aligned_left(*arrays: Array) -> list[Array]:
    """The arrays with trailing singular extents, so that NumPy broadcasts them as NNEF does."""
    rank = max(x.ndim for x in arrays)
    return [x.reshape(x.shape + (1,) * (rank - x.ndim)) for x in arrays]


@st.composite
def shapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast, of ranks up to 8; at least one is not singular."""
    full = draw(st.lists(st.sampled_from([1, 1, 2, 3, 5]), max_size=8))
    first = [n if draw(st.booleans()) else 1 for n in full]
    second = [n if m == 1 or draw(st.booleans()) else 1 for n, m in zip(full, first)]
    cut = draw(st.integers(0, len(full)))
    if all(n == 1 for n in second[cut:]):
        second = second[:cut]
    return (tuple(first), tuple(second)) if draw(st.booleans()) else (tuple(second), tuple(first))


@examples(1.2)
@given(shapes(), st.integers(0, 2**32 - 1))
def test_broadcasting(pair: tuple[tuple[int, ...], tuple[int, ...]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(-9, 9, shape).astype(np.int32) for shape in pair)
    a, b = aligned_left(x, y)
    (got,) = evaluate([Step("sub", (0, 1), I32)], [2], x, y)
    np.testing.assert_array_equal(got, a - b)


@examples(0.6)
@given(st.lists(st.integers(1, 4), max_size=8), st.data())
def test_joined_dimensions_find_every_item(shape: list[int], data: st.DataObject) -> None:
    """Joined loops visit the items of NumPy's broadcast."""
    inputs = [
        tuple(n if data.draw(st.booleans()) else 1 for n in shape[: data.draw(st.integers(0, 8))])
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    space = tuple(shape)
    dims, steps = coalesce(space, [strides(dense, space) for dense in inputs])
    assert len(dims) >= 2
    assert np.prod(dims) == np.prod(shape)
    for dense, along in zip(inputs, steps):
        items = np.arange(np.prod(dense, dtype=int)).reshape(
            dense + (1,) * (len(shape) - len(dense))
        )
        expected = np.broadcast_to(items, shape).ravel()
        grid = sum(i * s for i, s in zip(np.indices(dims), along))
        np.testing.assert_array_equal(np.ravel(grid), expected)


def joined(space: tuple[int, ...], *shapes: tuple[int, ...]) -> Any:
    return coalesce(space, [strides(shape, space) for shape in shapes])


def test_dense_operands_are_one_loop() -> None:
    assert joined((2, 3, 4), (2, 3, 4), (2, 3, 4)) == ([1, 24], [(0, 1), (0, 1)])
    assert joined((), ()) == ([1, 1], [(0, 1)])
    # a bias per channel: one row per channel
    dims, steps = joined((2, 3, 4, 5), (2, 3, 4, 5), (1, 3))
    assert (dims, steps) == ([2, 3, 20], [(60, 20, 1), (0, 1, 0)])


def pattern_of(
    space: tuple[int, ...], *shapes: tuple[int, ...], lanes: int = 16
) -> AccessPattern | None:
    dims, steps = joined(space, *shapes, space)
    return flatten_rows(dims, steps, len(shapes), lanes)


def test_short_rows_are_joined() -> None:
    access = Access
    assert pattern_of((9, 3), (9, 3), (9, 1)) == AccessPattern(
        (access.CONTIGUOUS, access.STRETCHED), 3
    )
    assert pattern_of((9, 5), (9, 5), (1, 5)) == AccessPattern((access.CONTIGUOUS, access.PERIODIC))
    assert pattern_of((9, 5), (9, 1), (1, 5)) == AccessPattern(
        (access.STRETCHED, access.PERIODIC), 5
    )
    assert pattern_of((9, 16), (9, 16), (1, 16)) == AccessPattern((access.CONTIGUOUS, access.BLOCK))
    assert pattern_of((9, 16), (9, 1), (1, 16)) == AccessPattern(
        (access.STRETCHED, access.BLOCK), 16
    )
    # long enough as separate rows, or no vector has such a factor
    assert pattern_of((9, 500), (9, 500), (1, 500)) is None
    assert pattern_of((9, 15), (9, 15), (9, 1)) is None


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
@pytest.mark.parametrize("inner", [*range(2, 10), 15, 16, 17, 32, 63, 64, 65])
def test_every_way_along_a_row(inner: int, dtype: str) -> None:
    """Operands per row, per column, of one item, and dense; rows end at any lane of a vector."""
    rng = np.random.default_rng(inner)
    op, oracle = ("and", np.logical_and) if dtype == "bool" else ("mul", np.multiply)
    kind = DType(dtype)
    for outer in (2, 7, 33):
        for rank in ((outer, inner), (3, outer, inner)):
            shapes = [
                rank,
                (*rank[:-1], 1),
                (*[1] * (len(rank) - 1), inner),
                (rank[0], *[1] * (len(rank) - 1)),
            ]
            xs = [rng.integers(0, 9, shape).astype(dtype) for shape in shapes]
            steps = [Step(op, (0, 1), kind), Step(op, (4, 2), kind), Step(op, (5, 3), kind)]
            got = evaluate(steps, [6, 4], *xs)
            first = oracle(xs[0], xs[1])
            np.testing.assert_array_equal(got[1], first)
            np.testing.assert_array_equal(got[0], oracle(oracle(first, xs[2]), xs[3]))


def test_large_operands_are_cut_into_tiles() -> None:
    rng = np.random.default_rng(0)
    shapes = [((300_001,), (300_001,)), ((3, 200_000), (3,)), ((7, 1, 300), (1, 211, 300))]
    for first, second in shapes:
        x, y = rng.normal(size=first), rng.normal(size=second)
        a, b = aligned_left(x, y)
        results = [TensorType(F64, np.broadcast_shapes(a.shape, b.shape))]
        assert lower(graph_of("mul", [x, y], results)).launches[0].tiles > 1
        (got,) = evaluate([Step("mul", (0, 1), F64)], [2], x, y)
        np.testing.assert_array_equal(got, a * b)


def test_several_results_literals_and_types() -> None:
    x = np.linspace(-2, 2, 37, dtype=np.float32)
    n = np.arange(37, dtype=np.int64)
    steps = [
        Step("literal", (), F32, 0.5),  # 2
        Step("mul", (0, 2), F32),  # 3
        Step("cast", (1,), F32),  # 4
        Step("add", (3, 4), F32),  # 5
        Step("literal", (), I64, 7),  # 6
        Step("gt", (1, 6), BOOL),  # 7
        Step("select", (7, 5, 0), F32),  # 8
        Step("literal", (), BOOL, True),  # 9
        Step("and", (7, 9), BOOL),  # 10
        Step("cast", (8,), I32),  # 11
    ]
    half, flag, chosen, whole = evaluate(steps, [3, 10, 8, 11], x, n)
    np.testing.assert_array_equal(half, x * np.float32(0.5))
    np.testing.assert_array_equal(flag, n > 7)
    expected = np.where(n > 7, x * np.float32(0.5) + n.astype(np.float32), x)
    np.testing.assert_array_equal(chosen, expected)
    np.testing.assert_array_equal(whole, expected.astype(np.int32))


def test_input_as_result_and_repeated_operand() -> None:
    x = np.arange(5, dtype=np.float64)
    same, square = evaluate([Step("mul", (0, 0), F64)], [0, 1], x)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(square, x * x)


@examples(0.1)
@given(st.data())
def test_random_expressions(data: st.DataObject) -> None:
    """Random straight-line programs over float64 against NumPy."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    x, y = rng.integers(-8, 8, (2, 3, 7)) / 4
    unary = {"neg": np.negative, "abs": np.abs, "sqr": np.square, "floor": np.floor}
    binary = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
    values: list[Any] = [x, y]
    steps: list[Step] = []
    for _ in range(data.draw(st.integers(1, 8))):
        operand = st.integers(0, len(values) - 1)
        if data.draw(st.booleans()):
            name, i = data.draw(st.sampled_from(sorted(unary))), data.draw(operand)
            steps.append(Step(name, (i,), F64))
            values.append(unary[name](values[i]))
        else:
            name = data.draw(st.sampled_from(sorted(binary)))
            i, j = data.draw(operand), data.draw(operand)
            steps.append(Step(name, (i, j), F64))
            values.append(binary[name](values[i], values[j]))
    results = [len(values) - 1, data.draw(st.integers(2, len(values) - 1))]
    for got, index in zip(evaluate(steps, results, x, y), results):
        np.testing.assert_array_equal(got, values[index])


class Guarded:
    """Memory next to an inaccessible page, before its start or after its end."""

    def __init__(self, nbytes: int, at_end: bool) -> None:
        pages = -(-nbytes // mmap.PAGESIZE)
        size = (pages + 2) * mmap.PAGESIZE
        self._map = mmap.mmap(-1, size)
        start = np.frombuffer(self._map, np.uint8).ctypes.data
        libc = ctypes.CDLL(None)
        for page in (start, start + size - mmap.PAGESIZE):
            assert libc.mprotect(ctypes.c_void_p(page), mmap.PAGESIZE, 0) == 0
        first = start + mmap.PAGESIZE
        self.address = first + pages * mmap.PAGESIZE - nbytes if at_end else first

    def array(self, shape: tuple[int, ...], dtype: str) -> Array:
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory: Any = (ctypes.c_uint8 * count).from_address(self.address)
        return np.frombuffer(memory, dtype).reshape(shape)


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bool"])
def test_nothing_outside_the_buffers_is_touched(dtype: str, at_end: bool) -> None:
    """An access outside the buffers would end the process."""
    op = "and" if dtype == "bool" else "add"
    for shape in ((1,), (7,), (63,), (65,), (3, 5), (2, 17, 9), (4, 33)):
        other = (shape[0], *([1] * (len(shape) - 1)))
        arrays = [np.zeros(shape, dtype), np.zeros(other, dtype)]
        result = TensorType(DType(dtype), shape)
        program = lower(graph_of(op, arrays, [result]))
        kernel = program.launches[0].kernel
        code = compile_kernels([kernel])
        plan = make_plan(program, 2, 1, code.offset)
        memory = [Guarded(a.nbytes, at_end) for a in (*arrays, arrays[0])]
        x, y, z = (m.array(s, dtype) for m, s in zip(memory, (shape, other, shape)))
        x[...], y[...] = 1, 1
        bases = np.array(
            [code.address, plan.params.ctypes.data, 0, 0, *(m.address for m in memory)]
        )
        code.call(kernel, bases.ctypes.data, plan.params.ctypes.data, 0, program.launches[0].tiles)
        assert (z == (1 if dtype == "bool" else 2)).all()


def patterns(program: Program) -> list[AccessPattern]:
    """The access patterns of the kernels of a program."""
    found = [launch.kernel.arguments[1] for launch in program.launches]
    return [pattern for pattern in found if isinstance(pattern, AccessPattern)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
def test_stores_past_the_caches(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that begin and end at any item."""
    monkeypatch.setattr(lowering, "STREAM_BYTES", 0)
    kind, rng = DType(dtype), np.random.default_rng(0)
    op, oracle = ("and", np.logical_and) if dtype == "bool" else ("add", np.add)
    step = Expression((kind, kind), (Step(op, (0, 1), kind),), (2,))
    for shape in ((1,), (5,), (64,), (1000,), (3, 77), (70_000,)):
        x, y = (rng.integers(0, 99, s).astype(dtype) for s in (shape, (shape[0],)))
        (y_there,) = aligned_left(x, y)[1:]
        graph = graph_of("fused", [x, y], [TensorType(kind, shape)], {"expression": step})
        program = lower(graph, cache_bytes=0)
        assert patterns(program)[0].stream
        model = CompiledModel.of(program, graph, threads=1)
        for skip in range(9):
            memory = np.full(x.nbytes + 64 + 2 * x.itemsize * 9, 0xAA, np.uint8)
            first = skip * x.itemsize
            out = memory[first : first + x.nbytes].view(dtype).reshape(shape)
            model(x, y, out=[out])
            np.testing.assert_array_equal(out, oracle(x, y_there))
            assert (memory[:first] == 0xAA).all()
            assert (memory[first + x.nbytes :] == 0xAA).all()


def test_only_large_results_are_stored_past_the_caches() -> None:

    def streams(items: int, *names: str) -> list[bool]:
        graph = Graph("g")
        value = graph.add_input(TensorType(F32, (items,)), "x")
        for name in names:
            value = graph.insert(Op(name, [value], {}, [TensorType(F32, (items,))])).output
        graph.add_output(value)
        return [pattern.stream for pattern in patterns(lower(graph, cache_bytes=0))]

    many = lowering.STREAM_BYTES // 4
    assert streams(many, "exp") == [True]
    assert streams(many - 1, "exp") == [False]
    # the second is computed in place of the first, which was read and is in the cache
    assert streams(many, "exp", "neg") == [True, False]


def test_copy_of_bytes_in_tiles() -> None:
    kernel = kernels.copy()
    code = compile_kernels([kernel])
    for size in (1, 63, 64, 1000):
        x = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
        memory = Guarded(size, at_end=True)
        y = memory.array((size,), "uint8")
        params = np.array(COPY.pack(x=0, y=1, nbytes=size, tile=100), object)
        words = np.array([0 if w is None else w for w in params], np.int64)
        bases = np.array([x.ctypes.data, memory.address])
        for tile in reversed(range(-(-size // 100))):
            code.call(kernel, bases.ctypes.data, words.ctypes.data, tile, tile + 1)
        np.testing.assert_array_equal(x, y)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_expressions_link_for_every_instruction_set(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code has no library calls and no relocations that the linker does not support."""
    monkeypatch.setattr(isa, "host", lambda: TABLE[name])
    steps = tuple(
        (op, tuple(range(2 if op == "pow" else 1)), dtype, None)
        for dtype in ("float32", "float64")
        for op in sorted(ELEMENTARY)
    )
    for dtype in ("float32", "float64"):
        key = Key((dtype, dtype), tuple(s for s in steps if s[2] == dtype), (7,))
        pattern = AccessPattern((Access.CONTIGUOUS, Access.PERIODIC))
        function = kernels.expression(key, pattern).function()
        assert list(link([emit(function, "f", TABLE[name])]).symbols) == ["f"]
