"""Tables of convolutions in matrix registers, against the offsets of all pixels."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import Blocked
from nnefc.ops.core.window_arithmetic import resolve
from nnefc.program.tables.matrix_tiles import matrix_tiles
from nnefc.program.tables.phases import phases
from nnefc.program.tables.planes import Plane

ROWS, REGISTERS = 16, 2


@given(
    st.lists(st.tuples(*[st.integers(1, 40), *[st.integers(1, 3)] * 2]), min_size=1, max_size=3),
    st.integers(0, 2),
)
def test_rows_are_the_inputs_of_all_pixels(axes: list[tuple[int, int, int]], more: int) -> None:
    extents, sizes, strides = zip(*axes, strict=True)
    extents = tuple(max(n, size) for n, size in zip(extents, sizes, strict=True))
    padding = [(size // 2, size // 2) for size in sizes]
    window = resolve(extents, sizes, padding, strides)
    halo = tuple((before + more, after) for before, after in window.reach())
    x = Plane(extents, Blocked(32, halo, 2))
    for phase in phases(window):
        made = matrix_tiles(phase, x, ROWS, REGISTERS)
        want = x.offsets(*(axis.inputs.numbers for axis in phase))
        got: list[int] = []
        for count, first, second, start, end in made.tiles.tolist():
            assert 1 <= made.height <= ROWS and 1 <= count <= REGISTERS
            assert start == len(got)
            for at in (first, second):
                rows = at + np.arange(made.height) * made.x_row
                assert want.min() <= rows.min() and rows.max() <= want.max()
            for row in made.rows[start:end].tolist():
                register, number = divmod(row, ROWS)
                assert number < made.height and register < count
                got.append((first, second)[register] + number * made.x_row)
        np.testing.assert_array_equal(got, want)


def test_registers_are_filled_across_the_ends_of_rows() -> None:
    """14 pixels in rows of 16 take as many registers as rows, 7 in rows of 9 fewer."""
    for size, registers in ((14, 14), (7, 4)):
        window = resolve((size, size), (3, 3), [(1, 1)] * 2)
        x = Plane((size, size), Blocked(32, window.reach(), 2))
        (phase,) = phases(window)
        made = matrix_tiles(phase, x, ROWS, REGISTERS)
        assert made.tiles[:, 0].sum() == registers
