"""Packings match their documented layouts, and their sources can be restored."""

from __future__ import annotations

import itertools
import math
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.kernels.packing import NAMES, pack, packing, size
from nnefc.kernels.packing.inverse import ArrayView, PackingSpec, restorable, restore
from nnefc.support.block_formats import BLOCK_BYTES
from tests.models.test_block_quantized import decoded, random_blocks

Array = np.ndarray[Any, Any]
Parameters = tuple[Any, ...]

small = st.integers(1, 5)


def packed(name: str, source: Array, parameters: Parameters) -> Array:
    """The packed items, written to memory with other content."""
    other = np.nan if source.dtype.kind == "f" else 0xAA
    result = np.full(size(name, source.shape, parameters), other, source.dtype)
    pack(name, source, parameters, result)
    return result


def whole(shape: tuple[int, ...]) -> ArrayView:
    strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    return ArrayView(0, shape, strides)


def numbered(shape: tuple[int, ...]) -> Array:
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


@st.composite
def filters(draw: st.DrawFn) -> tuple[Array, Parameters]:
    """(filter, parameters) of `direct`; sometimes only some of the taps."""
    shape = tuple(draw(st.tuples(small, st.integers(1, 9), st.integers(1, 9), small, small)))
    every = list(itertools.product(*map(range, shape[3:])))
    taps = draw(st.lists(st.sampled_from(every), unique=True) | st.permutations(every))
    words, width, piece = draw(st.tuples(small, small, small))
    word = draw(st.sampled_from([(1, 1), (4, 1), (4, 2), (2, 1), (2, 1, -3), (1, 1, 5)]))
    return numbered(shape), (tuple(taps), words * word[0], width, piece, draw(st.booleans()), *word)


@given(filters())
def test_filters_have_the_documented_layout(case: tuple[Array, Parameters]) -> None:
    source, parameters = case
    taps, step, width, piece, by_taps, *word = parameters
    groups, outputs, inputs = source.shape[:3]
    expected: list[float] = []
    entries = [(i, t) for i in range(0, inputs, step) for t in taps] or [(inputs, ())]
    if by_taps:
        entries.sort(key=lambda entry: taps.index(entry[1]) if taps else 0)
    for g in range(groups):
        for first in range(0, len(entries), piece):
            for tile in range(0, outputs, width):
                expected += _tile(
                    source[g], entries[first : first + piece], tile, (step, width, *word[:2])
                )
    want = np.array(expected) * 2.0 ** sum(word[2:])
    np.testing.assert_array_equal(packed("direct", source, parameters), want)


def _tile(group: Array, entries: list[Any], tile: int, sizes: Parameters) -> list[float]:
    """The weights of some entries for the outputs of a tile.

    `sizes`: inputs of an entry, outputs of a tile, inputs and planes of a word.
    """
    step, width, word, planes = sizes
    outputs, inputs = group.shape[:2]
    return [
        group[(o, i, *taps)] if o < outputs and i < inputs else 0.0
        for first, taps in entries
        for start in range(first, first + step, word)
        for plane in range(planes)
        for o in range(tile, tile + width)
        for i in range(start + plane, start + word, planes)
    ]


@st.composite
def matrices(draw: st.DrawFn) -> tuple[Array, Parameters]:
    shape = tuple(draw(st.lists(small, max_size=2))) + draw(st.tuples(small, st.integers(1, 20)))
    unit = draw(small)
    word = draw(st.sampled_from([(), (1, 1), (4, 1), (4, 2), (2, 1), (2, 1, -3), (1, 1, 5)]))
    return numbered(shape), (draw(st.integers(1, -(-shape[-1] // unit))), unit, *word)


@given(matrices())
def test_panels_have_the_documented_layout(case: tuple[Array, Parameters]) -> None:
    source, (parts, unit, *words) = case
    word, planes = words[:2] or (1, 1)
    *batch, depth, count = source.shape
    units = -(-count // unit)
    widths = [unit * (units // parts + (i < units % parts)) for i in range(parts)]
    expected: list[float] = []
    for index in np.ndindex(*batch):
        start = 0
        for width in widths:
            for first, plane in itertools.product(range(0, depth, word), range(planes)):
                rows = range(first + plane, first + word, planes)
                every = itertools.product(range(start, start + width), rows)
                inside = ((c < count and r < depth, r, c) for c, r in every)
                expected += [source[(*index, r, c)] if given else 0.0 for given, r, c in inside]
            start += width
    want = np.array(expected) * 2.0 ** sum(words[2:])
    np.testing.assert_array_equal(packed("panels", source, case[1]), want)


@given(
    st.tuples(small, small),
    st.sampled_from([(3, 3), (1, 3), (5, 1)]),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
)
def test_winograd_filters_are_products_of_matrices(
    channels: tuple[int, int], taps: tuple[int, int], tiles: tuple[int, int]
) -> None:
    from nnefc.kernels.convolution.winograd_matrices import filter_matrix

    outputs, inputs = channels
    grid = tuple(m + t - 1 if t > 1 else 1 for m, t in zip(tiles, taps))
    source = np.random.default_rng(1).standard_normal((*channels, *taps)).astype(np.float32)
    g, h = (
        np.array(filter_matrix(n, t), np.float64) if t > 1 else np.ones((1, 1))
        for n, t in zip(grid, taps)
    )
    every = np.einsum("iu,okuv,jv->ijko", g, source.astype(np.float64), h)
    entry, panels = 2, ((4, 1), (8, 1))
    result = packed("winograd", source, (grid, entry, panels)).reshape(*grid, -1)
    depth = -(-inputs // entry) * entry
    matrices = np.concatenate(
        [
            result[..., : depth * 4].reshape(*grid, depth, 4),
            result[..., depth * 4 :].reshape(*grid, depth, 8),
        ],
        axis=-1,
    )
    np.testing.assert_allclose(matrices[:, :, :inputs, :outputs], every, rtol=1e-6, atol=1e-6)
    assert not matrices[:, :, inputs:].any()
    assert not matrices[..., outputs:].any()


def test_planes_of_winograd_filters_are_concatenated() -> None:
    source = np.random.default_rng(1).standard_normal((3, 5, 4, 3, 3)).astype(np.float32)
    grid, entry, columns = (6, 6), 2, 4
    parameters = (grid, entry, ((columns, 1),))
    result = packed("winograd", source, parameters).reshape(*grid, 4, 6, columns)
    for plane in range(4):
        alone = packed("winograd", source[:, :, plane], parameters).reshape(*grid, 6, columns)
        np.testing.assert_array_equal(result[:, :, plane], alone)


@given(filters() | matrices())
def test_permutations_can_be_restored(case: tuple[Array, Parameters]) -> None:
    source, parameters = case
    name = "direct" if isinstance(parameters[0], tuple) else "panels"
    piece = PackingSpec(whole(source.shape), name, parameters)
    taps = cast(Any, parameters[0])
    scaled = any(parameters[7:] if name == "direct" else parameters[4:])
    complete = name == "panels" or len(taps) == math.prod(source.shape[3:])
    complete = complete and not scaled
    assert restorable(source.size, [piece]) == complete
    if complete:
        array = np.full_like(source, np.nan)
        restore(array, [(piece, packed(name, source, parameters))])
        np.testing.assert_array_equal(array, source)


def test_arrays_are_restored_from_pieces() -> None:
    source = numbered((6, 10))
    views = [ArrayView(0, (6, 4), (10, 1)), ArrayView(4, (6, 6), (10, 1))]
    pieces = [PackingSpec(view, "panels", (1, 4)) for view in views]
    assert [view.last for view in views] == [53, 59]
    assert restorable(60, pieces)
    assert not restorable(60, pieces[:1])
    assert not restorable(60, [*pieces, pieces[0]])
    array = np.empty_like(source)
    restore(array, [(p, packed("panels", p.view.of(source), p.parameters)) for p in pieces])
    np.testing.assert_array_equal(array, source)


def test_sums_cannot_be_restored() -> None:
    piece = PackingSpec(whole((2, 2, 3, 3)), "winograd", ((4, 4), 2, ((4, 1),)))
    assert not restorable(36, [piece])


@given(
    st.sampled_from(sorted(BLOCK_BYTES)),
    st.integers(1, 9),
    st.integers(1, 3),
    st.sampled_from([4, 8]),
)
def test_blocks_are_columns_of_panels(name: str, columns: int, blocks: int, lanes: int) -> None:
    source = random_blocks(name, columns, blocks, columns)
    scale_bytes, has_zero = (4 if "f32" in name else 2), name.endswith("zero")
    nbytes = scale_bytes + has_zero + (32 if name.startswith("q8") else 16)
    result = packed("block_quantized", source, (name, lanes)).reshape(-1, blocks, nbytes * lanes)
    got = np.zeros((len(result) * lanes, blocks, 32))
    for panel, block, lane in np.ndindex(len(result), blocks, lanes):
        data = result[panel, block]
        scale = float(data[: scale_bytes * lanes].view(f"<f{scale_bytes}")[lane])
        zeros, codes = np.split(data[scale_bytes * lanes :], [lanes if has_zero else 0])
        zero = int(zeros.view(np.int8)[lane]) if has_zero else 8 * name.startswith("q4")
        for k in range(32):
            if name.startswith("q8"):
                code = int(codes.view(np.int8)[k * lanes + lane])
            else:
                word = int(codes.view("<u4")[k // 8 * lanes + lane])
                code = word >> 8 * (k % 4) + 4 * (k % 8 // 4) & 15
            got[panel * lanes + lane, block, k] = np.float32((code - zero) * scale)
    want = decoded(source, name).reshape(columns, blocks, 32)
    np.testing.assert_array_equal(got[:columns], want)
    assert not got[columns:].any()


def test_packings_by_name() -> None:
    assert all(packing(name) for name in NAMES)
    with pytest.raises(KeyError):
        packing("os")
