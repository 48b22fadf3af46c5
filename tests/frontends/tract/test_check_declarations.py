"""Declarations of symbols, assertions and inputs in tract documents."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.dynamic.dynamic_model import DynamicModel
from nnefc.frontends.common.graph_source import sample_graph
from nnefc.frontends.common.linear_equations import LinearSum, solved
from nnefc.frontends.read_model import read_model
from nnefc.frontends.tract.source import TractSource
from nnefc.support.errors import Diagnostics, NnefError


def declared(*lines: str, shape: str = "[1, S, 4]", more: str = "") -> str:
    """A document with these extension lines and an input x of `shape`."""
    head = "version 1.0;\nextension tract_registry tract_core;\n" + "".join(
        f"extension {line};\n" for line in lines
    )
    return (
        head
        + f"""\
graph net( x ) -> ( y )
{{
    x = tract_core_external(shape = {shape}, datum_type = 'f32');
    {more}
    y = x;
}}
"""
    )


LONG = "+".join(["S"] * 20_000)


@pytest.mark.parametrize(
    ("text", "rule", "place", "words"),
    [
        (
            declared("tract_symbol S", shape="[1, T, 4]"),
            "tract/symbol",
            (6, 41),
            "'T' in the shape of input 'x' is not a symbol; the symbols are S",
        ),
        (declared(shape="[nan]"), "tract/symbol", (5, 38), "'nan' in the shape"),
        (declared(shape="[2, 4 - inf]"), "tract/symbol", (5, 45), "'inf' in the shape"),
        (declared("tract_symbol", shape="[1]"), "tract/symbol", (3, 1), "declares no symbol"),
        (
            declared("tract_symbol 1S", shape="[1]"),
            "tract/symbol",
            (3, 1),
            "'1S' is not a valid name",
        ),
        (
            declared("tract_symbol a-b", shape="[1]"),
            "tract/symbol",
            (3, 1),
            "'a-b' is not a valid name",
        ),
        (
            declared("tract_symbol S", "tract_assert Q >= 3"),
            "tract/assert",
            (4, 1),
            "'Q' in 'Q >= 3' is not a symbol; the symbols are S",
        ),
        (
            declared("tract_symbol S", "tract_assert S >="),
            "tract/assert",
            (4, 1),
            "cannot be parsed",
        ),
        (
            declared("tract_symbol S", shape=f"[{LONG}]"),
            "limit/nesting",
            (6, 40035),
            "19999 nested operations",
        ),
        (
            declared("tract_symbol S", f"tract_assert {LONG} > 1"),
            "limit/nesting",
            (4, 1),
            "20000 nested operations",
        ),
        (
            declared("tract_symbol S", more="z = tract_core_external(shape = [S]);"),
            "identifier/external",
            (7, 9),
            "'z' is not a parameter of the graph; its parameters are x",
        ),
        (
            declared("tract_symbol S", more="x = tract_core_external(shape = [1, S, 4]);"),
            "identifier/external",
            (7, 9),
            "'x' is introduced twice, first in line 6",
        ),
        (
            declared(shape="[2], datum_type = 'string'").replace(", datum_type = 'f32'", ""),
            "operator/type",
            (5, 37),
            "an input cannot hold strings",
        ),
        (
            declared("tract_symbol S", shape="[S], datum_type = 'f99'").replace(
                ", datum_type = 'f32'", ""
            ),
            "operator/type",
            (6, 37),
            "there is no item type 'f99'",
        ),
    ],
)
def test_declarations_are_checked_without_shapes(
    tmp_path: Path, text: str, rule: str, place: tuple[int, int], words: str
) -> None:
    (tmp_path / "graph.nnef").write_text(text)
    with pytest.raises(NnefError) as error:
        read_model(tmp_path)
    (found,) = error.value.errors
    assert (found.rule, found.line, found.column) == (rule, *place)
    assert words in found.message


def test_all_errors_are_reported(tmp_path: Path) -> None:
    text = declared(
        "tract_symbol S",
        "tract_symbol",
        "tract_assert Q > 1",
        "tract_assert S >",
        shape="[T, U]",
        more="z = external(shape = [1]);",
    )
    (tmp_path / "graph.nnef").write_text(text)
    with pytest.raises(NnefError) as error:
        read_model(tmp_path)
    assert [each.line for each in error.value.errors] == [4, 5, 6, 9, 9, 10]


def test_undeclared_symbols_are_warnings(tmp_path: Path) -> None:
    (tmp_path / "graph.nnef").write_text(declared())
    diagnostics = Diagnostics()
    found = read_model(tmp_path, diagnostics=diagnostics)
    assert isinstance(found, TractSource)
    (warning,) = diagnostics.warnings
    assert (warning.rule, warning.line, warning.severity) == ("tract/symbol", 5, "warning")
    assert found.free == ["S"]


@pytest.mark.parametrize(
    ("lines", "shape", "place", "words"),
    [
        (
            ("tract_symbol S", "tract_assert S >= 10", "tract_assert S >= 1", "tract_assert S < 5"),
            "[1, S, 4]",
            (4, 1),
            "the symbol S satisfy S >= 10 (line 4) and S < 5 (line 6)",
        ),
        (("tract_symbol S",), "[1, S/0, 4]", (6, 37), "S/0 >= 1 of input 'x' (line 6: a division"),
        (("tract_symbol S",), "[S*1.5, 4]", (6, 37), "'1.5' is no whole number or symbol"),
        (("tract_symbol S",), "[S && 4]", (6, 37), "'&&' is no operator of whole numbers"),
        (
            ("tract_symbol S, T", "tract_assert S > T"),
            "[S, T, T - S]",
            (4, 1),
            "S > T (line 4)",
        ),
        (("tract_symbol S", "tract_assert S == 33"), "[S]", (4, 1), "S == 33 (line 4)"),
    ],
)
def test_unsatisfiable_constraints_are_named(
    tmp_path: Path, lines: tuple[str, ...], shape: str, place: tuple[int, int], words: str
) -> None:
    (tmp_path / "graph.nnef").write_text(declared(*lines, shape=shape))
    found = read_model(tmp_path)
    assert isinstance(found, TractSource)
    with pytest.raises(NnefError) as error:
        next(found.sample_shapes({}))
    (one,) = error.value.errors
    assert one.rule == "input/symbol"
    assert words in one.message
    if len(lines) != 2 or "T" not in lines[0]:
        assert (one.line, one.column) == place


@pytest.mark.parametrize(
    ("shape", "given", "words"),
    [
        ("[A+B+C, 2*A+B, C+A]", (6, 4, 5), "no whole numbers A, B, C make A+B+C 6 and 2*A+B 4 and"),
        ("[A+B+C, 2*A+B, C+A]", (6, 5, 5), None),
        ("[A+B, A-B]", (5, 2), "no whole numbers A, B make A+B 5 and A-B 2"),
        ("[A+B, A-B]", (2, 4), "no whole numbers A, B make"),
        ("[2*A+4*B]", (7,), "no whole numbers A, B make 2*A+4*B 7"),
        ("[A+B+9]", (7,), "no whole numbers A, B make A+B+9 7"),
        ("[A*B, A+B]", (4, 5), None),
        ("[A+B, C+1, A+B+C]", (3, 3, 6), "no whole numbers A, B make A+B 3 and A+B+C 6"),
    ],
)
def test_extents_determine_symbols_jointly(
    tmp_path: Path, shape: str, given: tuple[int, ...], words: str | None
) -> None:
    lines = ("tract_symbol A", "tract_symbol B", "tract_symbol C")
    (tmp_path / "graph.nnef").write_text(declared(*lines, shape=shape))
    found = read_model(tmp_path)
    assert isinstance(found, TractSource)
    if words is None:
        found.symbol_values({"x": given})
        return
    with pytest.raises(NnefError) as error:
        found.symbol_values({"x": given})
    (one,) = error.value.errors
    assert one.rule == "input/shape"
    assert one.line == 8
    assert words in one.message


def test_sample_values_of_symbols_in_sums(tmp_path: Path) -> None:
    names = [f"s{i}" for i in range(30)]
    lines = [f"tract_symbol {name}" for name in names]
    text = declared(*lines, shape=f"[{'+'.join(names)}, 4]")
    (tmp_path / "graph.nnef").write_text(text)
    found = read_model(tmp_path)
    assert isinstance(found, TractSource)
    trial = sample_graph(found, {}, Diagnostics())
    assert trial.values == dict.fromkeys(names, 4)
    assert trial.shapes == {"x": (120, 4)}


@given(
    st.lists(st.lists(st.integers(-2, 2), min_size=3, max_size=3), min_size=1, max_size=4),
    st.lists(st.integers(-3, 6), min_size=4, max_size=4),
    st.lists(st.integers(0, 4), min_size=3, max_size=3),
    st.booleans(),
)
def test_equations_against_exhaustive_search(
    rows: list[list[int]], right: list[int], chosen: list[int], possible: bool
) -> None:
    def sums(numbers: Sequence[int]) -> list[int]:
        return [sum(a * x for a, x in zip(row, numbers, strict=True)) for row in rows]

    if possible:
        right = sums(chosen)
    equations = [
        (LinearSum({n: a for n, a in zip("abc", row, strict=True) if a}), number)
        for row, number in zip(rows, right, strict=False)
    ]
    found = solved(equations)
    assert not possible or found is not None
    wanted = [x for x in product(range(9), repeat=3) if sums(x) == right[: len(rows)]]
    if found is None:
        assert not wanted
        return
    assert not wanted or all(
        {numbers["abc".index(name)] for numbers in wanted} == {value}
        for name, value in found.items()
    )
    fixed = np.linalg.matrix_rank(np.array(rows))
    for i, name in enumerate("abc"):  # a number is determined if its unit is a sum of rows
        if any(row[i] for row in rows):
            unit = [int(i == j) for j in range(3)]
            assert (name in found) == (np.linalg.matrix_rank(np.array([*rows, unit])) == fixed)


def test_parameters_without_an_input(tmp_path: Path) -> None:
    text = declared("tract_symbol S", more="k = tract_extra_exp_none(x);").replace(
        "( x )", "( x, z )"
    )
    (tmp_path / "graph.nnef").write_text(text)
    model = nnefc.compile(tmp_path)
    assert isinstance(model, DynamicModel)
    with pytest.raises(NnefError) as error:
        model.for_shapes({"x": (1, 2, 4)})
    assert "input 'z' has no shape: it is introduced nowhere" in str(error.value)
