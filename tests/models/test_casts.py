"""Conversions between all item types by kernels and the reference, against NumPy and ml_dtypes."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Graph, Step, TensorType, parse_graph, print_graph
from nnefc.kernels.target import isa
from nnefc.kernels.target.isa import TABLE, host
from nnefc.kernels.vector.lanes import half_bits
from nnefc.ops.core.arrays import widen
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.runtime.compile import kernel_compiler
from tests.helpers.examples import examples
from tests.helpers.kernels.compiled_op import Array
from tests.helpers.kernels.compiled_op import evaluate as compute
from tests.helpers.kernels.one_op import run_graph

TYPES = [t for t in DType if t is not DType.STRING]
FLOATS = [t for t in TYPES if t.is_float]
HALVES = [t for t in TYPES if t.is_half]


def all_halves(dtype: DType) -> Array:
    """All values of a 16-bit float type."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)


def wild(dtype: DType, count: int = 20_000, seed: int = 0) -> Array:
    """Random bit patterns; for wide floats also numbers near the ties of 16-bit rounding."""
    rng = np.random.default_rng(seed)
    if dtype is DType.BOOL:
        return rng.integers(0, 2, count).astype(bool)
    bits = rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype.numpy)
    mild = rng.standard_normal(count) * 10.0 ** rng.integers(-9, 10, count)
    if dtype in (DType.FLOAT32, DType.FLOAT64):
        return np.concatenate([bits, mild.astype(dtype.numpy), *near_ties(dtype)])
    return bits


def near_ties(dtype: DType) -> list[Array]:
    """The midpoints between adjacent halves, and the neighbours of these midpoints."""
    found: list[Array] = []
    for half in HALVES:
        every = all_halves(half).astype(np.float64)
        with np.errstate(all="ignore"):
            middle = ((every[:-1] + every[1:]) / 2).astype(dtype.numpy)
            found += [np.nextafter(middle, x).astype(dtype.numpy) for x in (-np.inf, 0, np.inf)]
        found.append(middle)
    return found


def rounded_once(x: Array, dtype: DType) -> Array:
    """Floats rounded once to the nearest half, by comparing distances; ties go to even."""
    half = dtype.numpy
    exact = x.astype(np.longdouble)
    with np.errstate(all="ignore"):
        near = x.astype(np.float64).astype(half)
        bits = near.view(np.uint16).astype(np.int64)
        top = 0x7C00 if dtype is DType.FLOAT16 else 0x7F80
        best = near
        distance = np.full(x.shape, np.inf, np.longdouble)
        # infinity counts as the next number after the largest finite one
        limit = np.ldexp(np.longdouble(1), 16 if dtype is DType.FLOAT16 else 128)
        for step in (-1, 0, 1):
            size = np.clip((bits & 0x7FFF) + step, 0, top)
            candidate = ((bits & 0x8000) | size).astype(np.uint16).view(half)
            value = candidate.astype(np.longdouble)
            value = np.where(np.isinf(value), np.copysign(limit, value), value)
            away = np.abs(value - exact)
            even = (size & 1) == 0
            better = (away < distance) | ((away == distance) & even)
            best, distance = np.where(better, candidate, best), np.where(better, away, distance)
    out = np.asarray(best, half)
    return np.where(np.isfinite(x.astype(np.float64)), out, near)


def numpy_cast(x: Array, dtype: DType) -> Array:
    """The expected result: floats saturate as by Rust's `as`, integers wrap around as in C."""
    kind = dtype.numpy
    if dtype is DType.BOOL:
        return x.astype(np.float64) != 0 if x.dtype.itemsize == 2 else x != 0
    source = DType(x.dtype.name)
    if dtype.is_half and (source.is_float or source.is_integer) and not source.is_half:
        return rounded_once(x, dtype)
    if dtype.is_integer and source.is_float:
        bounds = np.iinfo(kind)
        wide = [
            0
            if v != v
            else bounds.max
            if v >= bounds.max
            else bounds.min
            if v <= bounds.min
            else int(v)
            for v in x.astype(np.float64).tolist()
        ]
        return np.array(wide, kind)
    if source.is_half:
        x = x.astype(np.float32)
    return x.astype(kind)


def assert_same(got: Array, want: Array) -> None:
    """Assert equal items with equal signs; all NaN are equal."""
    assert got.dtype == want.dtype
    if got.dtype.itemsize == 2 and DType(got.dtype.name).is_float:
        got, want = got.astype(np.float32), want.astype(np.float32)
    np.testing.assert_array_equal(got, want)
    if got.dtype.kind == "f":
        numbers = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("source", TYPES, ids=str)
def test_kernels_convert_to_all_types(source: DType) -> None:
    x = all_halves(source) if source.is_half else wild(source)
    steps = [Step("cast", (0,), target) for target in TYPES]
    results = compute(steps, range(1, 1 + len(steps)), x)
    for target, got in zip(TYPES, results, strict=True):
        assert_same(got, numpy_cast(x, target))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("half", HALVES, ids=str)
def test_halves_are_converted_without_hardware_instructions(
    half: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    level = TABLE["x86-64-v2"]
    if host().triple != level.triple:
        pytest.skip("not an x86-64 machine")
    monkeypatch.setattr(isa, "host", lambda: level)
    monkeypatch.setattr(kernel_compiler, "_objects", {})
    assert not isa.host().float16
    x = wild(DType.FLOAT32)
    (narrow,) = compute([Step("cast", (0,), half)], [1], x)
    assert_same(narrow, numpy_cast(x, half))
    (wide,) = compute([Step("cast", (0,), DType.FLOAT32)], [1], all_halves(half))
    assert_same(wide, all_halves(half).astype(np.float32))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@examples(2)
@given(st.sampled_from(TYPES), st.sampled_from(TYPES), st.data())
def test_the_reference_converts_between_all_types(
    source: DType, target: DType, data: st.DataObject
) -> None:
    seed = data.draw(st.integers(0, 99))
    x = np.random.default_rng(seed).choice(wild(source, 50, seed), 60)
    graph = Graph("cast")
    value = graph.add_input(TensorType(source, x.shape), "x")
    graph.add_output(build(graph, "cast", [value], dtype=target).output, "y")
    assert print_graph(parse_graph(print_graph(graph))) == print_graph(graph)
    (got,) = evaluate(graph, {"x": x}).outputs.values()
    want = numpy_cast(x, target)
    if target.is_float and not target.is_half:
        want = widen(x, source)  # the reference does not round to these
    np.testing.assert_array_equal(got, widen(want, target))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_constants_of_all_types_survive_text_and_compilation(dtype: DType) -> None:
    """One constant becomes a literal of an expression, the other one is an array."""
    graph = Graph("constants")
    x = graph.add_input(TensorType(dtype, (100,)), "x")
    condition = graph.add_input(TensorType(DType.BOOL, (100,)), "c")
    numbers = np.array([1.1, 0, 3.7] * 30 + [1] * 10).astype(dtype.numpy)
    one = build(graph, "constant", [], {"shape": (), "value": numbers[:1]}, dtype=dtype).output
    many = build(graph, "constant", [], {"shape": (100,), "value": numbers}, dtype=dtype).output
    chosen = build(graph, "select", [condition, x, one]).output
    graph.add_output(chosen, "chosen")
    graph.add_output(build(graph, "select", [condition, many, chosen]).output, "both")
    data: dict[str, Array] = {}
    text = print_graph(graph, data=data)
    graph = parse_graph(text, data=data)
    assert print_graph(graph) == text
    given = np.arange(100).astype(dtype.numpy)
    where = np.arange(100) % 3 == 0
    first, second = run_graph(graph, given, where)
    want = np.where(where, given, numbers[:1])
    np.testing.assert_array_equal(first.view(np.uint8), want.view(np.uint8))
    want = np.where(where, numbers, want)
    np.testing.assert_array_equal(second.view(np.uint8), want.view(np.uint8))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("half", HALVES, ids=str)
def test_half_literals_round_as_numpy_does(half: DType) -> None:
    x = wild(DType.FLOAT32, 200)
    want = x.astype(half.numpy)
    for number, exact in zip(x.tolist(), want.view(np.uint16).tolist(), strict=True):
        if number == number:
            assert half_bits(str(half), number) == exact
    assert np.isnan(np.array([half_bits(str(half), np.nan)], np.uint16).view(half.numpy)[0])
