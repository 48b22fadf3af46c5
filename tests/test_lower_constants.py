"""What a program knows is in it once, by the bytes that arrays are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.lower.constants import Constants
from nnefc.runtime.program import Program

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


@given(st.lists(views(), min_size=1, max_size=6))
def test_places_hold_what_was_given(arrays: list[Array]) -> None:
    program = Program()
    constants = Constants(program)
    for array in arrays * 2:
        place = constants.place(array)
        kept = program.constants[place.buffer.index]
        assert place.buffer.nbytes == kept.nbytes == array.nbytes
        assert kept.tobytes() == array.tobytes()
    distinct = {(x.ctypes.data, x.shape, x.strides, x.dtype) for x in arrays}
    assert len(program.constants) <= len(distinct)


def test_the_same_bytes_are_kept_once() -> None:
    program = Program()
    constants = Constants(program)
    assert constants.place(DATA) is constants.place(DATA.reshape(4, 6))
    assert constants.place(DATA[:4]) is not constants.place(DATA)
    (kept, _) = program.constants
    assert np.shares_memory(kept, DATA)


def test_tables_are_compared_by_items() -> None:
    constants = Constants(Program())
    first = constants.table(DATA.copy())
    assert constants.table(DATA.copy()) is first
    assert constants.table(DATA.view(np.int32)) is not first
    assert constants.table(DATA[1:]) is not first


@pytest.mark.parametrize("other", [DATA.reshape(6, 4), DATA.view(np.int32).reshape(4, 6)])
def test_what_is_derived_depends_on_shape_and_type(other: Array) -> None:
    program = Program()
    constants = Constants(program)

    def doubled(array: Array, what: str = "") -> int:
        return constants.derived(array, what, lambda: array * 2).buffer.index

    assert doubled(DATA.reshape(4, 6)) == doubled(DATA.reshape(4, 6)) == 0
    assert [doubled(other), doubled(other, "again")] == [1, 2]
    np.testing.assert_array_equal(program.constants[1], other * 2)


def test_addresses_are_not_used_again() -> None:
    """Arrays that nobody else has are gone only with the last of what was made of them."""
    program = Program()
    constants = Constants(program)
    for i in range(50):
        mine = np.full((64, 64), i, np.float32).T[:, :32]
        place = constants.place(mine)
        sums = constants.derived(mine, "sum", lambda mine=mine: mine.sum(keepdims=True))
        assert (program.constants[place.buffer.index] == i).all()
        assert program.constants[sums.buffer.index] == i * mine.size
