"""Linear shapes give the values that the front end finds, or none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.frontends.common import bind_symbols
from nnefc.frontends.common.signature import Signature
from nnefc.frontends.tract.declared_symbols import signature_of
from nnefc.support.errors import NnefError
from nnefc.symbolic.linear_shapes import from_data, to_data
from nnefc.syntax.parser import parse
from tests.helpers.examples import examples

EXTENTS = ("S", "T", "2*S", "S + 1", "3*T - 2", "S + T", "7", "S/2", "S - T", "0", "S*T")
ASSERTIONS = ("S >= 2", "S < T", "S + T != 9", "2*S == T", "S/2 == 1", "scenario: S == 1", "U > 1")


def signature(extents: list[str], assertions: list[str]) -> Signature:
    listed = "".join(f"extension tract_assert {text};\n" for text in assertions)
    document = parse(
        "version 1.0;\nextension tract_registry tract_core;\nextension tract_symbol S;\n"
        f"extension tract_symbol T;\nextension tract_symbol U;\n{listed}"
        "graph g(x) -> (y) {\n"
        f"  x = tract_core_external(shape = [{', '.join(extents)}], datum_type = 'f32');\n"
        "  y = x + 1.0;\n}\n",
        "graph.nnef",
    )
    return signature_of(document)


def names_of_extent(extent: str) -> set[str]:
    return {name for name in "ST" if name in extent}


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
    inputs = signature(extents, assertions)
    linear = bind_symbols.linear_shapes(inputs, known)
    if linear is None:
        quadratic = {"S*T"} - ({"S*T"} if known else set())
        assert 0 in known.values() or ({"S/2", "S/2 == 1"} | quadratic) & {*extents, *assertions}
        return
    found = from_data(json.loads(json.dumps(to_data(linear))))
    assert found == linear
    shapes = {"x": shape[: len(extents)]}
    values = linear.solve(shapes)
    try:
        expected = bind_symbols.bind(inputs, shapes, known)
    except NnefError:
        assert values is None
        return
    if values is None:  # an extent has two unknown symbols, or does not determine one
        unknown = [names_of_extent(extent) - {*known} for extent in extents]
        assert any(len(names) > 1 for names in unknown)
    else:
        assert {**known, **values} == expected


@given(st.integers(0, 30), st.integers(0, 30))
def test_extents_of_one_symbol_are_solved(first: int, second: int) -> None:
    linear = bind_symbols.linear_shapes(signature(["2*S + 1", "S + T"], []), {})
    assert linear is not None
    assert linear.solve({"x": [2 * first + 1, first + second]}) == {"S": first, "T": second}
    assert linear.solve({"x": [2 * first, first + second]}) is None
    assert linear.solve({"x": [2 * first + 1]}) is None
    with pytest.raises(NnefError):
        bind_symbols.bind(signature(["2*S + 1", "S + T"], []), {"x": [2 * first, first + second]})


WRONG: list[Any] = [
    *(5, [], [[], [], 5]),
    [[["x", [[1, [["S", 0]]]]]], [], {}],
    [[], [["=", [0, []], [0, []]]], {}],
]


@pytest.mark.parametrize("data", WRONG)
def test_other_data_is_refused(data: Any) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
        from_data(data)
