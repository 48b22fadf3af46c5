"""Properties of the tract front end on random documents, against NumPy."""

from __future__ import annotations

import operator
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import nnefc
from nnefc.frontends.common import bind_symbols, extents
from nnefc.frontends.read_model import read_model
from nnefc.frontends.tract.declared_symbols import signature_of
from nnefc.frontends.tract.source import TractSource
from nnefc.ir import Graph
from nnefc.ops.tools.reference import evaluate
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import NnefError
from nnefc.syntax.parser import parse
from tests.helpers.examples import examples

Array = np.ndarray[Any, Any]
HEAD = "version 1.0;\nextension tract_registry tract_core;\n"
SETTINGS = examples(0.6)


def read(body: str, shapes: Mapping[str, Sequence[int]] | None = None) -> Graph:
    """The graph of a document whose fragments and graph are `body`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.nnef"
        path.write_text(HEAD + body)
        found = read_model(path, ImportConfig(shapes=shapes or {}), dynamic=False)
    assert isinstance(found, Graph)
    return found


def external(name: str, shape: Sequence[int], datum: str = "f32") -> str:
    extents = ", ".join(map(str, shape))
    return f"    {name} = tract_core_external(shape = [{extents}], datum_type = '{datum}');\n"


def document(inputs: Mapping[str, tuple[Sequence[int], str]], y: str) -> str:
    body = "".join(external(name, *how) for name, how in inputs.items())
    return f"graph net( {', '.join(inputs)} ) -> ( y )\n{{\n{body}    y = {y};\n}}\n"


def result(graph: Graph, **inputs: Array) -> Array:
    return evaluate(graph, inputs).outputs["y"]


# -- symbols

NAMES = ("B", "S", "T")
EXTENTS: dict[str, Callable[[int, int], int]] = {
    "{0}": lambda a, b: a,
    "2*{0}": lambda a, b: 2 * a,
    "{0}+{1}": lambda a, b: a + b,
    "3*{0}+1": lambda a, b: 3 * a + 1,
    "{0}/2+1": lambda a, b: a // 2 + 1,
    "{0}*{1}": lambda a, b: a * b,
    "{0}-1": lambda a, b: a - 1,
    "7": lambda a, b: 7,
}


@st.composite
def shapes_of_symbols(draw: st.DrawFn) -> tuple[dict[str, list[str]], dict[str, list[int]]]:
    """Extents of inputs as expressions, and their values for random values of the symbols."""
    values = {name: draw(st.integers(2, 40)) for name in NAMES}
    written: dict[str, list[str]] = {}
    shapes: dict[str, list[int]] = {}
    for name in ("x", "y")[: draw(st.integers(1, 2))]:
        for _ in range(draw(st.integers(1, 3))):
            form = draw(st.sampled_from(sorted(EXTENTS)))
            first, second = draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMES))
            written.setdefault(name, []).append(form.format(first, second))
            shapes.setdefault(name, []).append(EXTENTS[form](values[first], values[second]))
    return written, shapes


def with_inputs(written: Mapping[str, Sequence[str]]) -> str:
    body = "".join(
        f"    {name} = tract_core_external(shape = [{', '.join(extents)}], datum_type = 'f32');\n"
        for name, extents in written.items()
    )
    names = ", ".join(written)
    return f"{HEAD}graph net( {names} ) -> ( {names} )\n{{\n{body}}}\n"


@SETTINGS
@given(shapes_of_symbols())
def test_bound_symbols_reproduce_the_shapes(
    how: tuple[dict[str, list[str]], dict[str, list[int]]],
) -> None:
    written, shapes = how
    tree = parse(with_inputs(written), tract=True)
    try:
        values = bind_symbols.bind(signature_of(tree), shapes)
    except NnefError:
        # only quotients have several solutions; the smallest may contradict another extent
        assert any("/" in extent for extents in written.values() for extent in extents)
        return
    for each in signature_of(tree).inputs:
        for extent, given_ in zip(each.extents, shapes[each.name], strict=True):
            try:
                assert extents.extent_of(extent, values) == given_
            except extents.NoValue:
                # symbols without a value occur only together in this extent
                left = {n for n in extents.names_of([extent]) if n not in values}
                assert len(left) > 1


@SETTINGS
@given(shapes_of_symbols(), st.lists(st.integers(2, 40), min_size=3, max_size=3), st.booleans())
def test_symbols_are_recovered(
    how: tuple[dict[str, list[str]], dict[str, list[int]]], values: list[int], first: bool
) -> None:
    """Symbols that are an extent of their own get their values, wherever that extent is."""
    written, _ = how
    wanted: dict[str, int] = dict(zip(NAMES, values, strict=True))
    plain = {"w": list(NAMES)}
    every = {**plain, **written} if first else {**written, **plain}
    tree = parse(with_inputs(every), tract=True)
    shapes = {
        each.name: [extents.extent_of(extent, wanted) for extent in each.extents]
        for each in signature_of(tree).inputs
    }
    assert bind_symbols.bind(signature_of(tree), shapes) == wanted


@SETTINGS
@given(st.integers(0, 60), st.sampled_from(["2*S+1", "S*S", "3*S-1", "S/3+2", "S*S+S", "40-S"]))
def test_a_symbol_has_the_least_value_that_an_extent_allows(value: int, extent: str) -> None:
    tree = parse(with_inputs({"x": [extent]}), tract=True)
    ((expression,),) = (each.extents for each in signature_of(tree).inputs)
    given_ = extents.extent_of(expression, {"S": value})
    assume(given_ > 0)
    least = next(n for n in range(61) if extents.extent_of(expression, {"S": n}) == given_)
    assert bind_symbols.bind(signature_of(tree), {"x": [given_]}) == {"S": least}


@SETTINGS
@given(shapes_of_symbols(), st.integers(1, 5))
def test_inconsistent_extents_are_reported(
    how: tuple[dict[str, list[str]], dict[str, list[int]]], more: int
) -> None:
    written, shapes = how
    written = {name: [*extents, "B"] for name, extents in written.items()}
    shapes = {name: [*shape, 5] for name, shape in shapes.items()}
    assume(len(shapes) == 2)
    shapes["y"][-1] += more
    with pytest.raises(NnefError) as error:
        bind_symbols.bind(signature_of(parse(with_inputs(written), tract=True)), shapes)
    assert any(e.rule == "input/shape" and e.line for e in error.value.errors)


@SETTINGS
@given(shapes_of_symbols())
def test_sample_shapes_are_valid(
    how: tuple[dict[str, list[str]], dict[str, list[int]]],
) -> None:
    written, _ = how
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.nnef"
        path.write_text(with_inputs(written))
        found = read_model(path, sources=True)
        assert isinstance(found, TractSource)
        graph = found.graph(next(found.sample_shapes({}))[0])
    assert [v.name for v in graph.inputs] == list(written)


# -- Einstein sums


@st.composite
def einsums(draw: st.DrawFn) -> tuple[str, list[Array]]:
    letters = "abcde"
    extent = {letter: draw(st.integers(1, 4)) for letter in letters}
    terms = [
        "".join(draw(st.lists(st.sampled_from(letters), min_size=1, max_size=4, unique=unique)))
        for unique in [True] * draw(st.integers(1, 2)) + [draw(st.booleans())]
    ]
    used = sorted(set("".join(terms)))
    kept = draw(st.lists(st.sampled_from(used), max_size=len(used), unique=True))
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    arrays = [random.integers(-4, 5, [extent[c] for c in t]).astype(np.float64) for t in terms]
    return f"{','.join(terms)}->{''.join(kept)}", arrays


@SETTINGS
@given(einsums())
def test_einsum_matches_numpy(case: tuple[str, list[Array]]) -> None:
    expression, arrays = case
    inputs = {f"x{i}": (array.shape, "f32") for i, array in enumerate(arrays)}
    graph = read(
        document(inputs, f"tract_core_einsum([{', '.join(inputs)}], expr = '{expression}')")
    )
    got = result(graph, **{f"x{i}": a.astype(np.float32) for i, a in enumerate(arrays)})
    want = np.einsum(expression, *arrays)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


# -- slices and shapes


@SETTINGS
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(-8, 8), st.integers(-8, 8), st.integers(1, 3)), min_size=3),
)
def test_slice(dims: list[int], bounds: list[tuple[int, int, int]]) -> None:
    """Negative bounds count from the end, bounds are clamped, and a literal end of 0 is the end of
    the dimension.
    """
    where: list[slice] = []
    for extent, (begin, end, stride) in zip(dims, bounds, strict=False):
        first = min(max(begin + extent if begin < 0 else begin, 0), extent)
        last = extent if end == 0 else min(max(end + extent if end < 0 else end, 0), extent)
        where.append(slice(first, max(first, last), stride))
    x = np.arange(np.prod(dims), dtype=np.float32).reshape(dims)
    want = x[tuple(where)]
    assume(want.size)
    axes = list(range(len(dims)))
    begin, end, stride = ([b[i] for b in bounds[: len(dims)]] for i in range(3))
    call = f"slice(x, axes = {axes}, begin = {begin}, end = {end}, stride = {stride})"
    got = result(read(document({"x": (dims, "f32")}, call)), x=x)
    np.testing.assert_array_equal(got, want)


@SETTINGS
@given(st.data())
def test_reshape(data: st.DataObject) -> None:
    """0 copies the extent of the input at the same index, -1 is inferred."""
    dims = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    start = data.draw(st.integers(0, len(dims)))
    count = data.draw(st.integers(0, len(dims) - start))
    inner = dims[start : start + count]
    shape = [data.draw(st.sampled_from((0, n, n))) for n in inner]
    left = data.draw(st.integers(0, max(count - 1, 0)))
    if count:
        shape[left] = -1
    want = [*dims[:start], *inner, *dims[start + count :]]
    split = data.draw(st.booleans())
    if split and count and left == count - 1:  # a last extent in two parts
        shape[left : left + 1] = [1, -1]
        want.insert(start + left, 1)
    x = np.arange(np.prod(dims), dtype=np.float32).reshape(dims)
    call = f"reshape(x, shape = {shape}, axis_start = {start}, axis_count = {count})"
    got = result(read(document({"x": (dims, "f32")}, call)), x=x)
    np.testing.assert_array_equal(got, x.reshape(want))


# -- constant folding

FLOATS = (-2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, 3.5, 100.0, 1e9, 3e38)
INTEGERS = (-(2**31), -300, -100, -7, -2, -1, 0, 1, 2, 3, 8, 31, 127, 255, 2**31 - 1)
PAIRS = ("add", "sub", "mul", "min", "max", "lt", "ge", "eq")
OF_REALS = ("div(a, b)", "sqrt(a)", "exp(a)", "floor(a)", "round(a)", "tract_core_round_even(a)",
            "tract_core_cast(a, to = 'i64')", "tract_core_cast(a, to = 'i8')",
            "tract_core_cast(a, to = 'u8')", "a * 0.5", "a ^ 2.0")  # fmt: skip
OF_INTEGERS = ("div(a, max(abs(b), 1))", "tract_core_bitand(a, b)", "tract_core_bitor(a, b)",
               "tract_core_bitxor(a, b)", "tract_core_cast(a, to = 'f32')", "a + 2")  # fmt: skip
OF_ALL = ("neg(a)", "abs(a)", "sign(a)", "relu(a)", "sqr(a)", "clamp(a, 0, 2)",
          "select(lt(a, b), a, b)", "select(lt(a, b), a, 2)", "concat([a, b], axis = 0)",
          "max_reduce(a, axes = [0])", "tract_core_cast(a, to = 'bool')")  # fmt: skip
KINDS = {
    "f32": np.float32,
    "f16": np.float16,
    "i32": np.int32,
    "i64": np.int64,
    "i8": np.int8,
    "u8": np.uint8,
}


@pytest.mark.parametrize("datum", sorted(KINDS))
def test_folding_matches_compilation(datum: str) -> None:
    """Folded operators give the results of compiled ones."""
    kind = KINDS[datum]
    is_real = datum.startswith("f")
    items = np.array(FLOATS if is_real else INTEGERS)
    with np.errstate(all="ignore"):
        a, b = (grid.reshape(-1).astype(kind) for grid in np.meshgrid(items, items))
    calls = [f"{name}(a, b)" for name in PAIRS]
    calls += [*OF_ALL, *(OF_REALS if is_real else OF_INTEGERS)]
    body = "".join(f"    y{i} = {call};\n" for i, call in enumerate(calls))
    results = ", ".join(f"y{i}" for i in range(len(calls)))
    inputs = "".join(external(name, [a.size], datum) for name in "ab")
    literals = "".join(f"    {n} = {literal(x, datum)};\n" for n, x in (("a", a), ("b", b)))
    graph = read(f"graph net( a, b ) -> ( {results} )\n{{\n{inputs}{body}}}\n")
    known = read(f"graph net( t ) -> ( {results} )\n{{\n{external('t', [1])}{literals}{body}}}\n")
    assert {op.name for op in known.ops} == {"constant"}
    got: Any = nnefc.compile(graph)(a, b)
    want: Any = nnefc.compile(known)(np.zeros(1, np.float32))
    for call, x, y in zip(calls, want, got, strict=True):
        assert x.dtype == y.dtype, call
        wide = [np.asarray(each, np.float64) for each in (x, y)]
        tolerance = 0 if x.dtype.kind in "iub" else 2e-3 if x.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(*wide, rtol=tolerance, err_msg=call)


def literal(items: Array, datum: str) -> str:
    """An array as a literal of item type `datum`."""
    written = ", ".join("inf" if np.isinf(item) else repr(item.item()) for item in items)
    return f"tract_core_cast([{written}], to = '{datum}')"


def test_operators_of_python_are_those_of_documents() -> None:
    for text, function in (("+", operator.add), ("-", operator.sub), ("*", operator.mul)):
        graph = read(document({"x": ([1], "f32")}, f"[7 {text} 3, 2] * x"))
        np.testing.assert_array_equal(result(graph, x=np.ones(1, np.float32)), [function(7, 3), 2])
