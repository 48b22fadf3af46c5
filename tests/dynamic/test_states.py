"""States grow in place between calls, and arrays read from them do not change."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nnefc.dynamic.states import States
from nnefc.frontends.common.graph_names import room_for
from nnefc.ir import State
from nnefc.program.program import AppendedInput
from nnefc.runtime.memory.caller_arrays import TensorSpec
from nnefc.support import large_pages
from nnefc.support.errors import NnefError

Array = np.ndarray[Any, Any]

NAME = "layer:1/k"
AXIS = 1


def items(begin: int, count: int) -> Array:
    """Rows `begin` to `begin + count` - 1 of the items of a state."""
    rows = np.arange(begin, begin + count, dtype=np.float32)
    return np.stack([10 * rows, 10 * rows + 1], 1)[None].repeat(2, 0)


def given_memory(states: States, more: int = 0, name: str = NAME) -> Array:
    """The memory that a graph takes for a state to which it appends `more` items."""
    shape = room_for(states.shapes[name], AXIS, more)
    spec = TensorSpec("memory", shape, np.dtype(np.float32))
    (address,) = states.memory_for([spec], [State(name, 0, None, AXIS)]).addresses
    nbytes = 4 * math.prod(shape)
    there = (ctypes.c_uint8 * nbytes).from_address(address)
    return np.ctypeslib.as_array(there).view(np.float32).reshape(shape)


def grow(states: States, more: Array, name: str = NAME) -> int:
    """Append items as a graph does; the address of the state."""
    count = more.shape[AXIS]
    if name not in states:
        states.store({name: more}, [])
        return more.ctypes.data
    begin = states.shapes[name][AXIS]
    memory = given_memory(states, count, name)
    memory[:, begin : begin + count] = more
    states.store({}, [AppendedInput(name, AXIS, count)])
    return memory.ctypes.data


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("grow"), st.integers(0, 40)),
            st.tuples(st.just("save"), st.just(0)),
            st.tuples(st.just("restore"), st.integers(0, 10)),
            st.tuples(st.just("clear"), st.just(0)),
        ),
        max_size=30,
    )
)
@example([("grow", 3), ("save", 0), ("grow", 2), ("restore", 0), ("grow", 1)])
@example(
    [("grow", 3), ("grow", 1), ("save", 0), ("grow", 1), ("save", 0), ("restore", 0), ("grow", 1)]
)
def test_states_grow_and_saved_ones_do_not_change(moves: list[tuple[str, int]]) -> None:
    states, expected = States(), None
    saved: list[tuple[Array, Array]] = []
    begin = 0
    for what, number in moves:
        if what == "grow":
            more = items(begin, number)
            begin += number
            grow(states, more)
            expected = more if expected is None else np.concatenate([expected, more], AXIS)
        elif what == "save" and expected is not None:
            saved.append((states[NAME], expected))
        elif what == "restore" and saved:
            array, expected = saved[number % len(saved)]
            states[NAME] = array
        elif what == "clear":
            states.clear()
            expected = None
        if expected is not None:
            np.testing.assert_array_equal(states[NAME], expected)
        for array, was in saved:
            np.testing.assert_array_equal(array, was)


def test_a_growing_state_is_copied_when_its_capacity_is_full() -> None:
    states = States()
    grow(states, items(0, 40))
    places = {grow(states, items(n, 1)) for n in range(40, 127)}
    assert len(places) == 2  # room for 64, then for 128
    assert given_memory(states).shape == (2, 128, 2)


def test_states_of_two_models_do_not_grow_in_the_same_memory() -> None:
    first, second = States(), States()
    grow(first, items(0, 3))
    grow(first, items(3, 1))
    second.update(first)
    grow(first, items(4, 1))
    grow(second, items(7, 1))
    np.testing.assert_array_equal(first[NAME], items(0, 5))
    expected = np.concatenate([items(0, 4), items(7, 1)], AXIS)
    np.testing.assert_array_equal(second[NAME], expected)


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 63, 64, 1000])
@pytest.mark.parametrize("more", [0, 1, 31, 500])
def test_capacity_covers_appended_items(length: int, more: int) -> None:
    shape = room_for((3, length, 5), 1, more)
    assert shape[0] == 3
    assert shape[1] >= length + more
    assert shape[2] == 5


def test_states_grow_all_together_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    states, names = States(), ("a", "b", "c")
    states.store({name: items(0, 31) for name in names}, [])
    shape = room_for((2, 31, 2), AXIS, 1)
    specs = [TensorSpec(f"{name} in", shape, np.dtype(np.float32)) for name in names]
    appended = [State(name, i, None, AXIS) for i, name in enumerate(names)]
    left = [2]

    def memory(nbytes: int, what: str) -> Array:
        left[0] -= 1
        if left[0] < 0:
            raise NnefError.of("limit/memory", what)
        return large_pages.large_page_memory(nbytes, what)

    monkeypatch.setattr("nnefc.dynamic.states.large_page_memory", memory)
    with pytest.raises(NnefError):
        states.memory_for(specs, appended)
    for name in names:
        np.testing.assert_array_equal(states[name], items(0, 31))
    left[0] = len(names)
    for name in names:
        grow(states, items(31, 1), name)
        np.testing.assert_array_equal(states[name], items(0, 32))


def test_memory_of_unchanged_states_is_reused() -> None:
    states = States()
    grow(states, items(0, 4))
    shape = room_for((2, 4, 2), AXIS, 1)
    specs = (TensorSpec("memory", shape, np.dtype(np.float32)),)
    taken = [State(NAME, 0, None, AXIS)]
    first = states.memory_for(specs, taken)
    assert first.addresses
    assert states.memory_for(specs, taken) is first
    states[NAME] = items(7, 9)
    assert states.memory_for(specs, taken) is not first
    np.testing.assert_array_equal(states[NAME], items(7, 9))
