"""Constants of programs: arrays of equal bytes are stored once."""

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
from nnefc.driver.lower_graph import lower_graph
from nnefc.formats.files import map_whole
from nnefc.frontends.nnef import import_text
from nnefc.ir import Graph
from nnefc.lower.background_packing import BackgroundPacking
from nnefc.lower.constants import MAX_COPIED_BYTES, ConstantPool
from nnefc.ops.tools.reference import evaluate
from nnefc.options.compile_config import CompileConfig
from nnefc.options.import_config import ImportConfig
from nnefc.program.packed_weight import PackedWeight
from nnefc.program.program import Buffer, Program, Ref
from nnefc.symbolic.integers import Trace
from nnefc.symbolic.sym_int_base import Untraceable
from nnefc.symbolic.traced_array import TracedArray
from tests.helpers.collection import collect_and_freeze
from tests.helpers.graphs.random_graphs import sample_inputs

Array = np.ndarray[Any, Any]

DATA = np.arange(24, dtype=np.float32)


@st.composite
def views(draw: st.DrawFn) -> Array:
    """Views of `DATA`: new objects for the same bytes."""
    start, stop = draw(st.integers(0, 8)), draw(st.sampled_from((16, 24)))
    array = DATA[start:stop]
    rows = draw(st.sampled_from([n for n in (1, 2, 3, 4) if array.size % n == 0]))
    array = array.reshape(rows, -1)
    if draw(st.booleans()):
        array = array.T
    if draw(st.booleans()):
        array = array[:, :1]
    if draw(st.booleans()):
        array = np.broadcast_to(array[:1], (3, array.shape[1]))
    return array.view(draw(st.sampled_from((np.float32, np.int32))))


def stored_array(program: Program, ref: Ref) -> Array:
    """The array of a constant; a `PackedWeight` is packed."""
    stored = program.constants[ref.buffer.index]
    assert not isinstance(stored, TracedArray)
    return stored.array() if isinstance(stored, PackedWeight) else stored


def test_weights_packed_in_another_thread_are_complete_at_the_end() -> None:
    """A failure of the thread is raised there."""
    sources = [np.random.default_rng(i).random((300, 512), np.float32) for i in range(9)]
    weights = [PackedWeight(source.T, "panels", (8, 16)) for source in sources]
    with BackgroundPacking() as packing:
        packed = [packing.array(each, None) for each in weights]
    for source, found in zip(sources, packed, strict=True):
        np.testing.assert_array_equal(found, _panels(source, 8, 16))

    def fail() -> None:
        raise MemoryError

    with pytest.raises(MemoryError), BackgroundPacking() as packing:
        packing.array(weights[0], fail)


def _panels(rows: Array, panels: int, unit: int) -> Array:
    """The panels of the columns of `rows.T`, wider ones first: each is [depth, its columns]."""
    units = -(-len(rows) // unit)
    padded = np.pad(rows, ((0, units * unit - len(rows)), (0, 0)))
    parts = np.array_split(padded.reshape(units, unit, -1), panels)
    return np.concatenate([each.reshape(-1, rows.shape[1]).T.reshape(-1) for each in parts])


@given(st.lists(views(), min_size=1, max_size=6))
def test_constants_hold_the_bytes_of_their_arrays(arrays: list[Array]) -> None:
    program = Program()
    constants = ConstantPool(program)
    for array in arrays * 2:
        ref = constants.add(array)
        stored = stored_array(program, ref)
        assert ref.buffer.nbytes == stored.nbytes == array.nbytes
        assert stored.tobytes() == array.tobytes()
    distinct = {(x.ctypes.data, x.shape, x.strides, x.dtype) for x in arrays}
    assert len(program.constants) <= len(distinct)


def test_equal_bytes_are_stored_once() -> None:
    program = Program()
    constants = ConstantPool(program)
    assert constants.add(DATA) is constants.add(DATA.reshape(4, 6))
    assert constants.add(DATA[:4]) is not constants.add(DATA)
    (stored, _) = program.constants
    assert np.shares_memory(stored, DATA)


def test_small_views_of_files_are_copied(tmp_path: Path) -> None:
    """A view would keep its pages, with all the weights around it, in memory."""
    path = tmp_path / "weights"
    path.write_bytes(bytes(2 * MAX_COPIED_BYTES))
    with path.open("rb") as file:
        data = np.frombuffer(map_whole(file.fileno()), np.uint8)
    for array, copied in ((data[:MAX_COPIED_BYTES], True), (data[8:24], True), (data, False)):
        for keep_sources in (False, True):
            program = Program()
            ref = ConstantPool(program, keep_sources=keep_sources).add(array)
            shared = np.shares_memory(stored_array(program, ref), data)
            assert shared == (keep_sources or not copied)


@pytest.mark.parametrize("keep_sources", [False, True])
def test_arrays_that_are_not_aligned_are_copied_unless_sources_are_kept(keep_sources: bool) -> None:
    memory = np.arange(4 * MAX_COPIED_BYTES + 4, dtype=np.uint8)
    array = memory[1:-3].view(np.float32)
    program = Program()
    constants = ConstantPool(program, keep_sources=keep_sources)
    ref = constants.add(array)
    assert constants.add(array.reshape(2, -1)) is ref
    stored = stored_array(program, ref)
    assert stored.flags.aligned != keep_sources
    assert np.shares_memory(stored, memory) == keep_sources
    assert stored.tobytes() == array.tobytes()


def test_tables_of_equal_items_are_shared() -> None:
    constants = ConstantPool(Program())
    first = constants.table(DATA.copy())
    assert constants.table(DATA.copy()) is first
    assert constants.table(DATA.view(np.int32)) is not first
    assert constants.table(DATA[1:]) is not first


@pytest.mark.parametrize("other", [DATA.reshape(6, 4), DATA.view(np.int32).reshape(4, 6)])
def test_derived_constants_depend_on_shape_and_type(other: Array) -> None:
    program = Program()
    constants = ConstantPool(program)

    def doubled(*arrays: Array, how: tuple[int, ...] = ()) -> int:
        return constants.derived(arrays, how, lambda: arrays[0] * 2).buffer.index

    assert doubled(DATA.reshape(4, 6)) == doubled(DATA.reshape(4, 6)) == 0
    assert [doubled(other), doubled(other, how=(1,)), doubled(other, DATA)] == [1, 2, 3]
    assert doubled(other, DATA.reshape(4, 6)) == 4
    np.testing.assert_array_equal(stored_array(program, Ref(Buffer("constant", 0, 1))), other * 2)


def test_weights_are_packed_once_or_stay_sources() -> None:
    for keep_sources in (False, True):
        program = Program()
        constants = ConstantPool(program, keep_sources=keep_sources)
        refs = [
            constants.packed(x, "panels", (parts, 2), DATA.dtype)
            for x in (DATA.reshape(4, 6), DATA.reshape(4, 6), DATA.reshape(6, 4))
            for parts in (1, 2)
        ]
        assert [ref.buffer.index for ref in refs] == [0, 1, 0, 1, 2, 3]
        for stored in program.constants:
            assert isinstance(stored, PackedWeight) == keep_sources
            assert stored.nbytes == DATA.nbytes
        np.testing.assert_array_equal(stored_array(program, refs[4]), DATA.ravel())


def test_addresses_of_sources_are_not_reused() -> None:
    """Arrays without other owners are freed, and new ones may get their addresses."""
    program = Program()
    constants = ConstantPool(program)
    for i in range(50):
        mine = np.full((64, 64), i, np.float32).T[:, :32]
        ref = constants.add(mine)
        sums = constants.derived([mine], ("sum",), lambda mine=mine: mine.sum(keepdims=True))
        assert (stored_array(program, ref) == i).all()
        assert stored_array(program, sums) == i * mine.size


# -- weights shared by convolutions

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
"""Input channels, output channels, channels of a filter; attributes."""


def _graph(body: str, results: str, sizes: tuple[int, int, int]) -> Graph:
    inputs, outputs, depth = sizes
    text = _SHARED.format(inputs=inputs, outputs=outputs, depth=depth, body=body, results=results)
    return import_text(text, config=ImportConfig(random_weights=1))


@pytest.mark.parametrize("algorithm", _SIZES)
def test_a_filter_is_packed_once(algorithm: str) -> None:
    *sizes, attributes = _SIZES[algorithm]
    one = f"p = conv(x, w, b{attributes});"
    two = one + one.replace("p =", "q =").replace("x", "z", 1)
    channels = (sizes[0], sizes[1], sizes[2])
    alone, both = (
        lower_graph(_graph(body, results, channels), CompileConfig(1, algorithms={}))
        for body, results in ((one, "p"), (two, "p, q"))
    )
    used = [sum(algorithm in launch.kernel.family for launch in p.launches) for p in (alone, both)]
    assert 0 < 2 * used[0] == used[1]
    weights = [
        [c.nbytes for c in p.constants if isinstance(c, np.ndarray) and c.dtype == np.float32]
        for p in (alone, both)
    ]
    assert max(weights[0]) >= sizes[1] * sizes[2] * 9 * 4
    assert weights[0] == weights[1]


def test_different_packings_of_a_filter_are_separate() -> None:
    """One filter by both algorithms, with other strides, and in reverse."""
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
    results = nnefc.compile(graph, threads=1).run(inputs)
    for name, want in expected.items():
        size = float(np.abs(want).max())
        np.testing.assert_allclose(results[name], want, 0, 2e-4 * size, err_msg=name)


@pytest.mark.slow
def test_sources_of_weights_are_released() -> None:
    collect_and_freeze()
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
def test_arrays_of_symbols_are_rejected(how: str) -> None:
    """Kernels would read the addresses of Python objects."""
    constants = ConstantPool(Program())
    ref = constants.add if how == "constant" else constants.table
    for items in (np.array([Trace().symbol(3)], object), np.arange(3) + Trace().symbol(3)):
        with pytest.raises(Untraceable, match="no data"):
            ref(items)
