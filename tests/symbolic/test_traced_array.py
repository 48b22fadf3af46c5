"""Arrays that are computed from symbols."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnefc.symbolic.integers import Trace
from nnefc.symbolic.traced_array import TracedArray, length, traced_call


@dataclass(frozen=True)
class Grid:
    """A dataclass as argument of a traced function."""

    extents: tuple[int, ...]
    step: int


def places(grid: Grid, first: int, name: str) -> tuple[np.ndarray[Any, Any], int]:
    assert name == "given"
    count = math.prod(grid.extents)
    return first + grid.step * np.arange(count), count


def test_arrays_are_computed_by_functions() -> None:
    trace = Trace()
    n, m = trace.symbol(3), trace.symbol(4)
    table, count = traced_call(places, Grid((n, 2), 5), m + 1, "given")
    assert isinstance(table, TracedArray)
    np.testing.assert_array_equal(table.value, 5 + 5 * np.arange(6))
    function = trace.function([count, table, length(table) * 2])
    for a, b in ((3, 4), (7, 1)):
        result = function(a, b)
        assert result is not None
        assert (result[0], result[2]) == (2 * a, 4 * a)
        np.testing.assert_array_equal(result[1], 1 + b + 5 * np.arange(2 * a))
    assert not trace.guards


def test_equal_arrays_are_computed_once() -> None:
    trace = Trace()
    n = trace.symbol(3)
    first, _ = traced_call(places, Grid((n, 2), 5), 0, "given")
    assert traced_call(places, Grid((n, 2), 5), 0, "given")[0] is first
    assert traced_call(places, Grid((n, 2), 6), 0, "given")[0] is not first


def described(count: int, given: Any, flag: Any) -> tuple[np.ndarray[Any, Any]]:
    return (np.array([repr((given, flag))] * count),)


def test_arguments_keep_their_type() -> None:
    trace = Trace()
    n = trace.symbol(2)
    every = [((1, 0), 1), ((1.0, 0), 1), ((1, -0.0), 1), ((True, 0), 1), ((1, 0), True)]
    tables = [traced_call(described, n, *given)[0] for given in every]
    texts = [repr(given) for given in every]
    assert [table.value[0] for table in tables] == texts
    result = trace.function(tables)(3)
    assert result is not None
    assert [list(table) for table in result] == [[text] * 3 for text in texts]


def test_plain_arguments_give_plain_arrays() -> None:
    table, count = traced_call(places, Grid((3, 2), 5), 0, "given")
    np.testing.assert_array_equal(table, 5 * np.arange(6))
    assert (count, length(table)) == (6, 6)
