"""Linear shapes give the values that the front end finds, or none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.frontends.common import bind_symbols
from nnefc.support.errors import NnefError
from nnefc.symbolic.linear_shapes import from_data, to_data
from nnefc.syntax import ast
from nnefc.syntax.parser import parse
from tests.helpers.examples import examples

EXTENTS = ("S", "T", "2*S", "S + 1", "3*T - 2", "S + T", "7", "S/2", "S - T", "0", "S*T")
ASSERTIONS = ("S >= 2", "S < T", "S + T != 9", "2*S == T", "S/2 == 1", "scenario: S == 1", "U > 1")


def document(extents: list[str], assertions: list[str]) -> ast.Document:
    listed = "".join(f"extension tract_assert {text};\n" for text in assertions)
    return parse(
        "version 1.0;\nextension tract_registry tract_core;\nextension tract_symbol S;\n"
        f"extension tract_symbol T;\nextension tract_symbol U;\n{listed}"
        "graph g(x) -> (y) {\n"
        f"  x = tract_core_external(shape = [{', '.join(extents)}], datum_type = 'f32');\n"
        "  y = x + 1.0;\n}\n",
        "graph.nnef",
    )


@examples(3)
@given(
    st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=4),
    st.lists(st.sampled_from(ASSERTIONS), max_size=2),
    st.lists(st.integers(0, 12), min_size=4, max_size=4),
    st.dictionaries(st.sampled_from("ST"), st.integers(0, 6), max_size=1),
)
def test_values_are_those_of_the_front_end(
    extents: list[str], assertions: list[str], shape: list[int], known: dict[str, int]
) -> None:
    tree = document(extents, assertions)
    linear = bind_symbols.linear_shapes(tree, known)
    if linear is None:
        assert {"S/2", "S*T", "S/2 == 1"} & {*extents, *assertions}
        return
    found = from_data(json.loads(json.dumps(to_data(linear))))
    assert found == linear
    shapes = {"x": shape[: len(extents)]}
    values = linear.solve(shapes)
    if values is None:
        return  # the front end decides
    assert {**known, **values} == bind_symbols.bind(tree, shapes, known)


@given(st.integers(0, 30), st.integers(0, 30))
def test_extents_of_one_symbol_are_solved(first: int, second: int) -> None:
    linear = bind_symbols.linear_shapes(document(["2*S + 1", "S + T"], []), {})
    assert linear is not None
    assert linear.solve({"x": [2 * first + 1, first + second]}) == {"S": first, "T": second}
    assert linear.solve({"x": [2 * first, first + second]}) is None
    assert linear.solve({"x": [2 * first + 1]}) is None
    with pytest.raises(NnefError):
        bind_symbols.bind(document(["2*S + 1", "S + T"], []), {"x": [2 * first, first + second]})


WRONG: list[Any] = [
    *(5, [], [[], [], 5]),
    [[["x", [[1, [["S", 0]]]]]], [], {}],
    [[], [["=", [0, []], [0, []]]], {}],
]


@pytest.mark.parametrize("data", WRONG)
def test_other_data_is_refused(data: Any) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
        from_data(data)
