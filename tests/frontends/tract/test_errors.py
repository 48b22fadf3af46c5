"""Errors in tract documents are reported with rule and position."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc.dynamic.dynamic_model import DynamicModel
from nnefc.frontends.read_model import read_model
from nnefc.frontends.tract.source import TractSource
from nnefc.support.errors import NnefError
from tests.helpers.nnef.tract_errors import HEAD, SCAN, STEP, Y, errors, rules

R = "unsqueeze(x, axes = [0])"


def test_all_unknown_operators_are_reported_with_counts(tmp_path: Path) -> None:
    value = "foo(x) + bar(foo(x)) + tract_onnx_lrn(x) +\n  foo(x) + softmx(x) + f(foo(x))"
    fragments = """\
fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { y = baz(x); }
fragment unused( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { y = qux(x); }
"""
    found = errors(tmp_path, HEAD + fragments + Y % value)
    assert rules(found) == ["tract/operator"] * 5
    baz, foo, bar, lrn, softmx = found
    assert "'baz' (used here)" in baz.message
    assert "'foo' (used here, 4 times)" in foo.message
    assert (foo.line, foo.column) == (9, 9)
    assert "also at 9:22, 10:3, 10:26" in foo.hint
    assert "'bar'" in bar.message
    assert "registry tract_onnx, which is not declared" in lrn.message
    assert "extension tract_registry tract_onnx;" in lrn.hint
    assert "did you mean 'softmax'" in softmx.hint


def test_unsupported_operators_give_a_reason(tmp_path: Path) -> None:
    text = HEAD + Y % "tract_core_load(x)"
    (found,) = errors(tmp_path, text)
    assert found.rule == "operator/unsupported"
    assert "tract has removed this operator" in found.hint


def test_unknown_registries_are_reported_at_their_name(tmp_path: Path) -> None:
    found = errors(tmp_path, "version 1.0;\nextension tract_registry tract_foo;\n" + Y % "x")
    assert rules(found)[0] == "tract/registry"
    assert (found[0].line, found[0].column) == (2, 26)


SYMBOLS = """\
version 1.0;
extension tract_registry tract_core;
extension tract_symbol S;
extension tract_assert S >= 3;
extension tract_symbol T;
graph net( x, z ) -> ( y )
{
    x = tract_core_external(shape = [S, 2*S], datum_type = 'f32');
    z = tract_core_external(shape = [1, S+T], datum_type = 'f32');
    y = x;
}
"""


@pytest.mark.parametrize(
    ("shapes", "rule", "words"),
    [
        (None, "input/symbol", "'S' has no value"),
        ({"x": (4, 8)}, "input/symbol", "'T' has no value"),
        ({"x": (4, 9)}, "input/shape", "axis 1 has to be 8, not 9, as S = 4 of input 'x'"),
        ({"x": (2, 4)}, "tract/assert", "S >= 3 does not hold: S = 2"),
        ({"x": (4, 8, 1)}, "input/shape", "the rank has to be 2, not 3"),
        (
            {"x": (4, 8), "z": (1, 3)},
            "input/shape",
            "is [1,S+T], but [1,3] is given: no T makes S+T 3",
        ),
        ({"x": (4, 8), "z": (2, 9)}, "input/shape", "axis 0 has to be 1, not 2"),
    ],
)
def test_symbols_without_values_and_contradictory_shapes_are_reported(
    tmp_path: Path, shapes: dict[str, tuple[int, ...]] | None, rule: str, words: str
) -> None:
    found = errors(tmp_path, SYMBOLS, shapes=shapes)
    assert any(e.rule == rule and words in e.message for e in found), found


def test_assertion_that_cannot_be_parsed(tmp_path: Path) -> None:
    text = SYMBOLS.replace("S >= 3", "S >=")
    found = errors(tmp_path, text, shapes={"x": (4, 8), "z": (1, 5)})
    assert rules(found) == ["tract/assert"]
    assert found[0].line == 4


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("undefined", "identifier/undefined"),
        ("tract_core_gather(x)", "invocation/arguments"),
        ("tract_core_gather(x, 0, 0, 'f32', 5)", "invocation/arguments"),
        ("tract_core_gather(x, 0, input = x, axis = 0)", "invocation/arguments"),
        ("tract_core_gather(x, 7, axis = 0)", "argument/gather"),
        ("tract_core_gather(x, 0, axis = 5)", "operator/axis"),
        ("tract_core_gather(x, 0, axis = 'a')", "operator/attribute"),
        ("tract_core_gather(x, 0, axis = x)", "operator/attribute"),
        ("tract_core_gather(x, 0, axis = inf)", "operator/attribute"),
        ("tract_core_gather(x, 0, axis = [0, 1])", "operator/attribute"),
        ("tract_core_gather('x', 0, axis = 0)", "operator/argument"),
        ("softmax(x, axes = [1000000000])", "operator/axis"),
        ("[x, x]", "operator/array"),
        ("[1.0, [2.0]] + x", "operator/array"),
        (f"x + {'[' * 65}1.0{']' * 65}", "limit/rank"),
        (f"reshape([1.0], shape = {[1] * 65})", "limit/rank"),
        ("pad(tract_core_range(0, 0, 1), [(1, 0)], border = 'replicated')", "operator/empty"),
        ("99999999999999999999 + x", "syntax/integer-range"),
        ("x + 9000000000 * 9000000000 * 9000000000", "operator/number"),
        ("tract_core_cast(x, to = 'f33')", "operator/type"),
        ("tract_core_cast(x, to = 3)", "operator/type"),
        ("tract_core_cast(x, to = 'QU8(Z:0 S:0.0)')", "operator/type"),
        ("div(tract_core_cast(x, to = 'i64'), 0)", "operator/division"),
        ("conv(x, [[[1.0]]])", "argument/conv"),
        ("conv(x, 1.0)", "argument/conv"),
        ("matmul(x, unsqueeze(x, axes = [0]))", "argument/matmul"),
        ("x + [1.0, 2.0, 3.0, 4.0]", "argument/add"),
        ("reshape(x, shape = [4, -1])", "argument/reshape"),
        ("reshape(x, shape = [-1, -1])", "argument/reshape"),
        ("squeeze(x, axes = [0])", "argument/squeeze"),
        ("squeeze(unsqueeze(x, axes = [0]), axes = [0, -3])", "argument/squeeze"),
        ("stack([], axis = 0)", "argument/stack"),
        ("unsqueeze(x, axes = [0, 1, 2, 3, 4, 5, 6])", "argument/reshape"),
        ("tract_core_einsum([x, x], expr = 'ij,jk->ik')", "argument/einsum"),
        ("tract_core_einsum([x], expr = 'ijk->i')", "argument/einsum"),
        ("tract_core_einsum([x, x], expr = 'ij->ij')", "argument/einsum"),
        ("tract_transformers_sdpa(x, unsqueeze(x, axes = [0]), x)", "argument/sdpa"),
        ("tract_core_erf(tract_core_cast(x, to = 'bool'))", "type/operand"),
        ("tract_core_bitand(x, x)", "argument/bitand"),
        ("tract_core_scan(x)", "invocation/arguments"),
        ("tract_core_scan(x, x)", "operator/attribute"),
        ("tract_core_range(0, 5, 0)", "operator/attribute"),
        ("tract_core_range(0.0, nan, 1.0)", "operator/attribute"),
        ("tract_core_range(-inf, 0.0, 1.0)", "operator/attribute"),
        ("tract_core_range(0.0, 5.0, inf)", "operator/attribute"),
        ("concat([for a in x yield a], axis = 0)", "type/iterate"),
        ("concat([for a in 3 yield x], axis = 0)", "type/iterate"),
        (
            "concat([for a in [1, 2], b in [1, 2, 3] yield x * a], axis = 0)",
            "argument/comprehension",
        ),
        ("x + [1.0, 2.0, 3.0][5]", "argument/index"),
        ("x + x[0]", "type/subscript"),
        ("reshape(x, shape = tract_core_cast(x, to = 'i64'))", "operator/attribute"),
        ("tract_transformers_sdpa(x, x, x, datum_type = 'f99')", "operator/type"),
        ("tract_transformers_sdpa(x, x, x, acc_datum_type = 'f99')", "operator/type"),
        ("tract_transformers_sdpa(x, x, x, acc_datum_type = 5)", "operator/type"),
        (f"tract_transformers_sdpa({R}, {R}, {R}, acc_datum_type = 'i8')", "argument/sdpa"),
        ("tract_transformers_sdpa(x, x, x, is_causal = 'yes')", "operator/attribute"),
        ("tract_transformers_dyn_kv_cache(x, 'k', 0, datum_type = 'f')", "operator/type"),
        ("tract_transformers_quantized_dyn_kv_cache(x, 'k', 0, datum_type = 1)", "operator/type"),
        (
            "tract_transformers_quantized_dyn_kv_cache(x, 'k', 0, bits = 77)",
            "argument/quantized_dyn_kv_cache",
        ),
        ("tract_core_gather(x, 0, datum_type = 'f33')", "operator/type"),
        ("tract_core_einsum([x, x], expr = 'ij,kj->ik', acc = 'f33')", "operator/type"),
        ("tract_core_einsum_q([x, x], expr = 'ij,kj->ik', acc = 'f33')", "operator/type"),
        ("matmul(x, x, transposeB = 3)", "operator/attribute"),
        ("matmul(x, x, transposeB = 'a')", "operator/attribute"),
        ("matmul(x, x, transposeB = [true, true])", "operator/attribute"),
    ],
)
def test_wrong_arguments_are_reported(tmp_path: Path, value: str, rule: str) -> None:
    found = errors(tmp_path, HEAD + Y % value)
    assert rule in rules(found), found
    assert all(e.line >= 4 for e in found)


def test_messages_name_the_value_and_the_expectation(tmp_path: Path) -> None:
    def message(value: str) -> str:
        (found,) = errors(tmp_path, HEAD + Y % value)
        return found.message

    assert "'' is computed" not in message("reshape(x, shape = tract_core_cast(x, to = 'i64'))")
    assert "true or false is expected, not 'a'" in message("matmul(x, x, transposeB = 'a')")
    assert "end = nan" in message("tract_core_range(0.0, nan, 1.0)")
    assert "index 5 is outside an array of 3 items" in message("x + [1.0, 2.0, 3.0][5]")
    assert "not a tensor" in message("concat([for a in x yield a], axis = 0)")
    assert "not 2 and 3" in message("concat([for a in [1, 2], b in [1, 2, 3] yield x], axis = 0)")


@pytest.mark.parametrize(
    "value", ["softmax(x, axes = [1], axes = [0])", "f(x, k = 1, k = 2)", "f(x, 1, k = 2)"]
)
def test_duplicate_arguments_are_errors(tmp_path: Path, value: str) -> None:
    text = "fragment f( a: tensor<scalar>, k: integer ) -> ( b: tensor<scalar> ) { b = a * k; }\n"
    (found,) = errors(tmp_path, HEAD + text + Y % value)
    assert found.rule == "invocation/arguments"
    assert "is given twice" in found.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("'step'", "'none'"),
        ("('a', x, 0, 1)", "('q', x, 0, 1)"),
        ("('a', x, 0, 1)", "('a', x, 5, 1)"),
        ("('a', x, 0, 1)", "('a', x, 0, 0)"),
        ("('a', x, 0, 1)", "('a', x, 1, 2)"),
        ("('a', x, 0, 1)", "('a', x)"),
        ("[('a', x, 0, 1)]", "[]"),
        ("[('a', x, 0, 1)]", "5"),
        ("'full'", "'half'"),
        ("('o', 'full', 0, 1)", "('z', 'full', 0, 1)"),
        ("('o', 'full', 0, 1)", "('o', 'full', 7, 1)"),
        ("'r')", "'z')"),
        ("state = [('h', [[0.0, 0.0, 0.0]], 'r')]", "state = []"),
        ("[[0.0, 0.0, 0.0]]", "[[0.0], [0.0], [0.0]]"),
        ("[[0.0, 0.0, 0.0]]", "[0.0, 0.0]"),
    ],
)
def test_wrong_loops_are_errors(tmp_path: Path, old: str, new: str) -> None:
    call = SCAN.replace(old, new)
    assert call != SCAN
    found = errors(tmp_path, HEAD + STEP + Y % call)
    assert not any(each.rule.startswith("internal") for each in found)


CACHE = """\
graph net( x ) -> ( y )
{
    x = tract_core_external(shape = [1, S, 4], datum_type = 'f32');
    y = tract_transformers_dyn_kv_cache(x, name = 'kept', axis = 1, datum_type = 'f32',
        past_sequence_shape = [1, P, 4], input_sequence_shape = [1, S, 4]);
}
"""


def test_states_of_the_wrong_shape(tmp_path: Path) -> None:
    head = HEAD + "extension tract_symbol S;\nextension tract_symbol P;\n"
    (tmp_path / "graph.nnef").write_text(head + CACHE)
    model = nnefc.compile(tmp_path)
    assert isinstance(model, DynamicModel)
    session = model.session()
    x = np.ones((1, 2, 4), np.float32)
    for shape in ((1, 3, 5), (1, 0, 5), (4,)):
        session.states["kept"] = np.ones(shape, np.float32)
        with pytest.raises(NnefError, match="state 'kept'"):
            session(x)
    session.states["kept"] = np.ones((1, 3, 4))
    with pytest.raises(NnefError, match="float64"):
        session(x)
    session.states["kept"] = np.zeros((1, 0, 4), np.float32)
    assert session(x).shape == (1, 2, 4)
    session.states["kept"] = np.zeros((1, 3, 4), np.float32)
    assert session(x).shape == (1, 5, 4)


def test_unbound_symbols_in_ignored_arguments(tmp_path: Path) -> None:
    head = HEAD + "extension tract_symbol S;\nextension tract_symbol P;\n"
    (tmp_path / "graph.nnef").write_text(head + CACHE)
    found = read_model(tmp_path)
    assert isinstance(found, TractSource)
    assert len(found.graph({"x": (1, 2, 4)}).outputs) == 2
    text = head + CACHE.replace("y = tract", "z = x + P;\n    y = tract").replace(
        "cache(x", "cache(z"
    )
    (error,) = errors(tmp_path, text, shapes={"x": (1, 2, 4)})
    assert error.rule == "input/symbol"
    assert "'P' has no value" in error.message


def test_results_may_share_a_name(tmp_path: Path) -> None:
    text = (Y % "x").replace("-> ( y )", "-> ( y, y )")
    (tmp_path / "graph.nnef").write_text(HEAD + text)
    graph = nnefc.import_model(tmp_path)
    assert graph.output_names == ["y", "y_2"]
    text = text.replace("( x )", "( x, x )")
    assert "identifier/parameter" in rules(errors(tmp_path, HEAD + text))
