"""Straight-line programs as data: every program that is accepted is one of the closed list."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.symbolic.integers import Trace
from nnefc.symbolic.straight_line import from_data
from nnefc.symbolic.traced_array import length, traced_call


def rows(pair: tuple[int, str], name: str) -> tuple[np.ndarray[Any, Any], int]:
    return np.arange(pair[0]), len(name) + len(pair[1])


def program() -> Any:
    trace = Trace()
    n = trace.symbol(8)
    table, count = traced_call(rows, (n, "ab"), "abc")
    return trace.program([n // 2 if n > 3 else 1, count, -length(table), 1 / n, 7])


CAPTURED = program().captured
DATA: dict[str, Any] = json.loads(json.dumps(program().to_data()))


def test_a_program_is_the_same_after_reading() -> None:
    read = from_data(DATA, CAPTURED)
    assert read == program()
    assert read.function()(8) == [4, 5, -8, 0.125, 7]
    assert read.function()(3) is None


WRONG: list[tuple[list[Any], Any]] = [
    (["symbols"], ["x"]),
    (["symbols"], "s0"),
    (["symbols"], []),
    (["steps"], 5),
    (["steps", 0], ["v0", "+"]),
    (["steps", 0, 0], "import os"),
    (["steps", 0, 0], "s0"),
    (["steps", 0, 0], 5),
    (["steps", 0, 1], "**"),
    (["steps", 0, 1], "__import__"),
    (["steps", 0, 2], ["s0"]),
    (["steps", 0, 2], ["s0", "g0"]),
    (["steps", 0, 2], ["s0", "v9"]),
    (["steps", 0, 2], ["s0", "s0.x"]),
    (["steps", 0, 2], ["s0", None]),
    (["steps", 0, 2], ["s0", {}]),
    (["results", 0], "print()"),
    (["results", 0], "g0"),
    (["results", 0], ["", "s0"]),
]


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_other_programs_are_refused(path: list[Any], value: Any) -> None:
    data = copy.deepcopy(DATA)
    target: Any = data
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(ValueError, match="no straight-line program"):
        from_data(data, CAPTURED)


@pytest.mark.parametrize(
    "operands",
    [["s0", "s0"], ["g9"], ["g0", ["s0", "s0"]], ["g0", []], ["g0", [["", 1], 2]], []],
)
def test_wrong_calls_are_refused(operands: list[Any]) -> None:
    data = {"symbols": ["s0"], "steps": [["a0", "call", operands]], "results": []}
    with pytest.raises(ValueError, match="no straight-line program"):
        from_data(data, CAPTURED)


def test_deep_operands_are_refused() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = ["", deep]
    data = {"symbols": ["s0"], "steps": [["a0", "call", ["g0", deep]]], "results": []}
    with pytest.raises(ValueError, match="nested tuples"):
        from_data(data, CAPTURED)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["s0", "v0", "", "+"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["symbols", "steps"]), inner),
    max_leaves=20,
)


@given(JSON, st.sampled_from(["symbols", "steps", "results"]))
def test_any_data_is_a_program_or_refused(value: Any, key: str) -> None:
    for data in (value, {**DATA, key: value}):
        try:
            read = from_data(data, CAPTURED)
        except ValueError:
            continue
        read.function()


def test_digits_of_names_are_ascii() -> None:
    """Python normalises names, so a full-width digit would assign to an existing variable."""
    steps = [["v0", "neg", ["s0"]]]
    data: dict[str, Any] = {"symbols": ["s0"], "steps": steps, "results": ["s0"]}
    assert from_data(data, ()).function()(5) == [5]
    steps[0][0] = "s\N{FULLWIDTH DIGIT ZERO}"
    with pytest.raises(ValueError, match="target"):
        from_data(data, ())
