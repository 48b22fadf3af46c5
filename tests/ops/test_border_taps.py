"""Products that direct convolution leaves out, against a count over all outputs and taps."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import Blocked
from nnefc.ops.core.border_taps import computed_fraction, leaves_out_border
from nnefc.ops.core.window_arithmetic import Window, resolve
from nnefc.program.tables.direct import pixel_order, tap_runs
from nnefc.program.tables.phases import phases
from nnefc.program.tables.planes import Plane


def _same(extent: int, dilation: int) -> Window:
    """A 3x3 window whose outputs have the extents of the inputs."""
    padding = ((dilation, dilation), (dilation, dilation))
    return resolve((extent,) * 2, (3, 3), padding, (1, 1), (dilation,) * 2)


def _inside(window: Window) -> int:
    """Pairs of an output and a tap in the input."""
    return math.prod(int((table >= 0).sum()) for table in window.tables("constant"))


def test_only_wide_windows_leave_out_the_border() -> None:
    assert leaves_out_border(_same(32, 12))
    assert leaves_out_border(_same(32, 24))
    assert not leaves_out_border(_same(32, 2))
    assert not leaves_out_border(_same(7, 1))
    assert not leaves_out_border(_same(3, 1)), "runs of a pixel each do not fill the registers"


def test_fractions_are_those_of_the_products() -> None:
    for dilation in (12, 20, 24, 36):
        window = _same(32, dilation)
        assert computed_fraction(window) == _inside(window) / (32 * 32 * 9)
    assert computed_fraction(_same(32, 2)) == 1


@given(
    extents=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    size=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    dilation=st.tuples(st.integers(1, 15), st.integers(1, 15)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    before=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    by_taps=st.booleans(),
)
def test_runs_have_all_taps_in_the_input(
    extents: tuple[int, int],
    size: tuple[int, int],
    dilation: tuple[int, int],
    stride: tuple[int, int],
    before: tuple[int, int],
    *,
    by_taps: bool,
) -> None:
    """Every output is in one run; without a halo, a run has exactly its taps in the input."""
    spans = [(k - 1) * d for k, d in zip(size, dilation)]
    padding = tuple(
        (p, max(n - p, n + 1 - x - p, 0)) for p, n, x in zip(before, spans, extents, strict=True)
    )
    window = resolve(extents, size, padding, stride, dilation)
    (phase,) = phases(window)
    plane = Plane(extents, Blocked(16, ((0, 0),) * 2))
    runs, taps = tap_runs(phase, plane, 0, 20, 5, by_taps)
    order = pixel_order(phase, plane)
    pixels = math.prod(window.output)
    numbers = np.arange(pixels) if order is None else order
    assert sorted(numbers) == list(range(pixels))
    assert [*runs[:, 0], pixels] == [0, *runs[:, 1]]
    tables = window.tables("constant")
    for first, end, *pieces in runs.tolist():
        offsets = taps[pieces[0] : pieces[-1], 0].tolist()
        for row, column in zip(*np.unravel_index(numbers[first:end], window.output)):
            down, across = (
                sorted({int(at) for at in table[i] if at >= 0})
                for table, i in zip(tables, (row, column), strict=True)
            )
            pixel = (row * stride[0] - before[0]) * extents[1] + column * stride[1] - before[1]
            reads = [64 * (y * extents[1] + x) for y in down for x in across]
            wanted = [at + 32 * c % 64 + c // 2 * plane.nbytes for at in reads for c in range(3)]
            assert sorted(offset + 64 * pixel for offset in offsets) == sorted(wanted)
