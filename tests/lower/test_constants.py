"""What a program knows is in it once, by the bytes that arrays are made of."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.driver.lower import lower_graph
from nnefc.formats.files import map_whole
from nnefc.frontends.nnef import import_text
from nnefc.ir import Graph
from nnefc.lower.constants import MAX_COPIED_BYTES, ConstantPool
from nnefc.ops.tools.reference import evaluate
from nnefc.options.compile_config import CompileConfig
from nnefc.options.import_config import ImportConfig
from nnefc.program.packed_weight import PackedWeight
from nnefc.program.program import Buffer, Program, Ref
from nnefc.symbolic.base import Untraceable
from nnefc.symbolic.integers import Trace
from nnefc.symbolic.traced_array import TracedArray
from tests.helpers.graphs.random_graphs import sample_inputs

Array = np.ndarray[Any, Any]

DATA = np.arange(24, dtype=np.float32)


@st.composite
def views(draw: st.DrawFn) -> Array:
    """Of `DATA`, made anew: another object for the same bytes."""
    start, stop = draw(st.integers(0, 8)), draw(st.sampled_from((16, 24)))
    found = DATA[start:stop]
    rows = draw(st.sampled_from([n for n in (1, 2, 3, 4) if found.size % n == 0]))
    found = found.reshape(rows, -1)
    if draw(st.booleans()):
        found = found.T
    if draw(st.booleans()):
        found = found[:, :1]
    if draw(st.booleans()):
        found = np.broadcast_to(found[:1], (3, found.shape[1]))
    return found.view(draw(st.sampled_from((np.float32, np.int32))))


def kept_at(program: Program, place: Ref) -> Array:
    """A constant; one that is not made yet is made."""
    kept = program.constants[place.buffer.index]
    assert not isinstance(kept, TracedArray)
    return kept.array() if isinstance(kept, PackedWeight) else kept


@given(st.lists(views(), min_size=1, max_size=6))
def test_places_hold_what_was_given(arrays: list[Array]) -> None:
    program = Program()
    constants = ConstantPool(program)
    for array in arrays * 2:
        place = constants.add(array)
        kept = kept_at(program, place)
        assert place.buffer.nbytes == kept.nbytes == array.nbytes
        assert kept.tobytes() == array.tobytes()
    distinct = {(x.ctypes.data, x.shape, x.strides, x.dtype) for x in arrays}
    assert len(program.constants) <= len(distinct)


def test_the_same_bytes_are_kept_once() -> None:
    program = Program()
    constants = ConstantPool(program)
    assert constants.add(DATA) is constants.add(DATA.reshape(4, 6))
    assert constants.add(DATA[:4]) is not constants.add(DATA)
    (kept, _) = program.constants
    assert np.shares_memory(kept, DATA)


def test_small_pieces_of_files_are_copied(tmp_path: Path) -> None:
    """The pages they lie in are let go, with all the weights around them."""
    path = tmp_path / "weights"
    path.write_bytes(bytes(2 * MAX_COPIED_BYTES))
    with path.open("rb") as file:
        data = np.frombuffer(map_whole(file.fileno()), np.uint8)
    for array, copied in ((data[:MAX_COPIED_BYTES], True), (data[8:24], True), (data, False)):
        for keep_sources in (False, True):
            program = Program()
            place = ConstantPool(program, keep_sources=keep_sources).add(array)
            shared = np.shares_memory(kept_at(program, place), data)
            assert shared == (keep_sources or not copied)


def test_tables_are_compared_by_items() -> None:
    constants = ConstantPool(Program())
    first = constants.table(DATA.copy())
    assert constants.table(DATA.copy()) is first
    assert constants.table(DATA.view(np.int32)) is not first
    assert constants.table(DATA[1:]) is not first


@pytest.mark.parametrize("other", [DATA.reshape(6, 4), DATA.view(np.int32).reshape(4, 6)])
def test_what_is_derived_depends_on_shape_and_type(other: Array) -> None:
    program = Program()
    constants = ConstantPool(program)

    def doubled(*arrays: Array, how: tuple[int, ...] = ()) -> int:
        return constants.derived(arrays, how, lambda: arrays[0] * 2).buffer.index

    assert doubled(DATA.reshape(4, 6)) == doubled(DATA.reshape(4, 6)) == 0
    assert [doubled(other), doubled(other, how=(1,)), doubled(other, DATA)] == [1, 2, 3]
    assert doubled(other, DATA.reshape(4, 6)) == 4
    np.testing.assert_array_equal(kept_at(program, Ref(Buffer("constant", 0, 1))), other * 2)


def test_packings_are_made_once_or_stay_what_they_are_made_of() -> None:
    for keep_sources in (False, True):
        program = Program()
        constants = ConstantPool(program, keep_sources=keep_sources)
        places = [
            constants.packed(x, "panels", (parts, 2), DATA.dtype)
            for x in (DATA.reshape(4, 6), DATA.reshape(4, 6), DATA.reshape(6, 4))
            for parts in (1, 2)
        ]
        assert [place.buffer.index for place in places] == [0, 1, 0, 1, 2, 3]
        for kept in program.constants:
            assert isinstance(kept, PackedWeight) == keep_sources
            assert kept.nbytes == DATA.nbytes
        np.testing.assert_array_equal(kept_at(program, places[4]), DATA.ravel())


def test_addresses_are_not_used_again() -> None:
    """Arrays that nobody else has are gone only with the last of what was made of them."""
    program = Program()
    constants = ConstantPool(program)
    for i in range(50):
        mine = np.full((64, 64), i, np.float32).T[:, :32]
        place = constants.add(mine)
        sums = constants.derived([mine], ("sum",), lambda mine=mine: mine.sum(keepdims=True))
        assert (kept_at(program, place) == i).all()
        assert kept_at(program, sums) == i * mine.size


# -- weights that convolutions share

_SHARED = """
version 1.0;
graph twins( x, z, n ) -> ( {results} )
{{
    x = external<scalar>(shape = [1, {inputs}, 12, 12]);
    z = external<scalar>(shape = [1, {inputs}, 12, 12]);
    n = external<scalar>(shape = [1, {outputs}, 6, 6]);
    w = variable<scalar>(shape = [{outputs}, {depth}, 3, 3], label = 'w');
    b = variable<scalar>(shape = [1, {outputs}], label = 'b');
    {body}
}}
"""

_SIZES = {
    "direct": (20, 40, 20, ", stride = [2, 2]"),
    "winograd": (20, 40, 20, ""),
    "depthwise": (24, 24, 1, ", groups = 24"),
}
"""Channels in, out, of a filter; attributes."""


def _graph(body: str, results: str, sizes: tuple[int, int, int]) -> Graph:
    inputs, outputs, depth = sizes
    text = _SHARED.format(inputs=inputs, outputs=outputs, depth=depth, body=body, results=results)
    return import_text(text, config=ImportConfig(random_weights=1))


@pytest.mark.parametrize("method", _SIZES)
def test_a_filter_is_packed_once(method: str) -> None:
    *sizes, attributes = _SIZES[method]
    one = f"p = conv(x, w, b{attributes});"
    two = one + one.replace("p =", "q =").replace("x", "z", 1)
    channels = (sizes[0], sizes[1], sizes[2])
    alone, both = (
        lower_graph(_graph(body, results, channels), CompileConfig(1, methods={}))
        for body, results in ((one, "p"), (two, "p, q"))
    )
    used = [sum(method in launch.kernel.family for launch in p.launches) for p in (alone, both)]
    assert 0 < 2 * used[0] == used[1]
    weights = [
        [c.nbytes for c in p.constants if isinstance(c, np.ndarray) and c.dtype == np.float32]
        for p in (alone, both)
    ]
    assert max(weights[0]) >= sizes[1] * sizes[2] * 9 * 4
    assert weights[0] == weights[1]


def test_what_is_packed_otherwise_is_kept_apart() -> None:
    """One filter by both methods, in other strips of taps, and in reverse."""
    body = """
    p = conv(x, w, b);
    q = conv(z, w, b, stride = [2, 2]);
    r = conv(relu(x), w, 0.0, dilation = [2, 2]);
    s = deconv(n, w, stride = [2, 2], output_shape = [1, 20, 12, 12]);
    t = deconv(n, w);
    """
    graph = _graph(body, "p, q, r, s, t", (20, 40, 20))
    inputs = sample_inputs(graph)
    expected = evaluate(graph, inputs).outputs
    found = nnefc.compile(graph, threads=1).run(inputs)
    for name, want in expected.items():
        size = float(np.abs(want).max())
        np.testing.assert_allclose(found[name], want, 0, 2e-4 * size, err_msg=name)


@pytest.mark.slow
def test_what_weights_are_made_of_is_let_go() -> None:
    constants = ConstantPool(Program())
    source = np.ones((64, 64), np.float32)
    constants.packed(source.T[:, :32], "panels", (2, 8), DATA.dtype)
    total = source.sum(keepdims=True)
    constants.derived([source.reshape(-1)], ("sum",), lambda: total)
    watched = weakref.ref(source)
    del source
    gc.collect()
    assert watched() is None


@pytest.mark.parametrize("how", ["constant", "table"])
def test_items_that_depend_on_symbols_are_no_data(how: str) -> None:
    """Kernels would read where Python keeps them."""
    constants = ConstantPool(Program())
    place = constants.add if how == "constant" else constants.table
    for items in (np.array([Trace().symbol(3)], object), np.arange(3) + Trace().symbol(3)):
        with pytest.raises(Untraceable, match="no data"):
            place(items)
