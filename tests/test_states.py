"""States between calls: they grow in place, and what was had of them stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nnefc.errors import NnefError
from nnefc.frontends.tract.names import grown, grown_name, room_for, state_name
from nnefc.runtime import large_pages
from nnefc.runtime.tensors import TensorSpec
from nnefc.states import States

Array = np.ndarray[Any, Any]

NAME = "layer:1/k"
AXIS = 1


def items(begin: int, count: int) -> Array:
    """Rows `begin` to `begin + count` - 1 of what could be put into a state."""
    rows = np.arange(begin, begin + count, dtype=np.float32)
    return np.stack([10 * rows, 10 * rows + 1], 1)[None].repeat(2, 0)


def given_memory(states: States) -> Array:
    """What a graph takes for the state."""
    shape = room_for(states.shapes[NAME], AXIS)
    spec = TensorSpec(state_name(NAME), shape, np.dtype(np.float32))
    (memory,) = states.given([spec], [spec]).values()
    return memory


def grow(states: States, more: Array) -> Array:
    """The memory that a graph would have read before it returned `more`."""
    if NAME not in states:
        states.keep({state_name(NAME): more})
        return more
    memory = given_memory(states)
    states.keep({grown_name(NAME, AXIS): more})
    return memory


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


def test_a_state_that_grows_is_copied_when_its_room_is_full() -> None:
    states = States()
    grow(states, items(0, 40))
    places = {grow(states, items(n, 1)).ctypes.data for n in range(40, 127)}
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
def test_room_is_for_more_than_there_is(length: int) -> None:
    shape = room_for((3, length, 5), 1)
    assert shape[0] == 3
    assert shape[1] > length
    assert shape[2] == 5


def test_names_of_what_grows_are_read_back() -> None:
    assert grown(grown_name("a:b", 2)) == ("a:b", 2)


def test_states_grow_all_of_them_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    states, names = States(), ("a", "b", "c")
    states.keep({state_name(name): items(0, 31) for name in names})
    shape = room_for((2, 31, 2), AXIS)
    specs = [TensorSpec(state_name(name), shape, np.dtype(np.float32)) for name in names]
    more = {grown_name(name, AXIS): items(31, 1) for name in names}
    states.given(specs, [])
    left = [2]

    def memory(nbytes: int, what: str) -> Array:
        left[0] -= 1
        if left[0] < 0:
            raise NnefError.of("limit/memory", what)
        return large_pages.memory(nbytes, what)

    monkeypatch.setattr("nnefc.states.memory", memory)
    with pytest.raises(NnefError):
        states.keep(more)
    assert states.shapes == dict.fromkeys(names, (2, 31, 2))
    left[0] = len(names)
    states.keep(more)
    for name in names:
        np.testing.assert_array_equal(states[name], items(0, 32))
