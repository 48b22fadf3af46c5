"""Custom operations: fragments without a body."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from nnefc.frontends.nnef import import_text
from nnefc.frontends.nnef.flatten import flatten
from nnefc.ir import TensorType
from nnefc.ir.compare import difference
from nnefc.ops import custom
from nnefc.ops.core.spec import Call
from nnefc.support.errors import NnefError
from tests.helpers.nnef.text import document, errors_of, load, rules_of

SWISH = "fragment swish( x: tensor<scalar>, beta: scalar = 1.0 ) -> ( y: tensor<scalar> )"
HALVES = "fragment halves<?>( x: tensor<?>, axis: integer ) -> ( a: tensor<?>, rest: tensor<?>[] )"


@pytest.fixture
def swish() -> Iterator[None]:
    @custom.operation(SWISH)
    def expand(emit: Any, op: Any) -> Any:
        """x * sigmoid(beta * x)."""
        x, beta = op.inputs[0], op.attributes["beta"]
        return emit("mul", x, emit("sigmoid", emit("mul", x, beta)))

    assert callable(expand)
    yield
    custom.unregister("swish")


def test_a_registered_operation_has_shapes_and_an_expansion(swish: None) -> None:
    graph = load("a = swish(x, beta = 2.0);\ny = softmax(a, axes = [1]);", SWISH + ";")
    (op,) = [op for op in graph.ops if op.name == "swish"]
    assert op.attributes == {"beta": 2.0}
    assert op.output.type.shape == (2, 3)
    spec = custom.spec("swish")
    assert spec is not None and spec.expand is not None
    assert spec.summary == "x * sigmoid(beta * x)."
    custom.require_known(graph)
    assert rules_of(document("a = swish(x);\ny = softmax(a, axes = [2]);", SWISH + ";")) == [
        "argument/softmax"
    ]


def test_the_declaration_must_be_the_registered_one(swish: None) -> None:
    other = SWISH.replace("beta: scalar", "beta: integer").replace("1.0", "1")
    (error,) = errors_of(document("y = swish(x);", other + ";"))
    assert error.rule == "custom/signature"
    assert "beta: integer" in error.message and "beta: scalar" in error.message


def test_a_fragment_with_a_body_is_the_documents_own(swish: None) -> None:
    graph = load("y = swish(x);", SWISH + " { y = relu(x); }")
    assert [op.name for op in graph.ops] == ["relu"]


def test_names_are_registered_once(swish: None) -> None:
    with pytest.raises(NnefError, match="custom/name"):
        custom.operation(SWISH)
    with pytest.raises(NnefError, match="custom/name"):
        custom.operation("fragment relu( x: tensor<scalar> ) -> ( y: tensor<scalar> )")
    with pytest.raises(NnefError, match="syntax/"):
        custom.operation("fragment swish2( x: tensor<scalar> )")


def test_a_shape_rule_checks_arguments() -> None:
    def shape(call: Call) -> TensorType:
        axis = call["axis"]
        call.require(axis >= 0, f"axis must not be negative: axis = {axis}")
        call.stop_if_wrong()
        extents = call.shape("x")
        call.require(axis < len(extents), f"axis must be less than the rank: axis = {axis}")
        call.stop_if_wrong()
        return TensorType(call.dtype("x"), extents[:axis] + extents[axis + 1 :])

    signature = "fragment drop( x: tensor<scalar>, axis: integer ) -> ( y: tensor<scalar> )"

    @custom.operation(signature, shape=shape)
    def expand(emit: Any, op: Any) -> Any:
        return emit("squeeze", emit("max_reduce", op.inputs[0], axes=(0,)), axes=(0,))

    assert callable(expand)
    try:
        graph = load("y = drop(x, axis = 0);", signature + ";")
        assert graph.outputs[0].type.shape == (3,)
        assert rules_of(document("y = drop(x, axis = 2);", signature + ";")) == ["argument/drop"]
        fragments = f"{signature};\nfragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> )\n"
        fragments += "{ y = drop(x, axis = -1); }"
        assert rules_of(document("y = copy(x);", fragments)) == ["argument/drop"]
    finally:
        custom.unregister("drop")


def test_unregistered_operations_pass_until_they_are_needed() -> None:
    fragments = f"{SWISH};\n{HALVES};\n"
    body = (
        "a, [b, c] = halves(x > 0.0, axis = 0);\n"
        "d = swish(x, beta = 2.0);\n"
        "[e, f] = split(d, axis = 0, ratios = [1,1]);\n"
        "g = transpose(e, axes = [1,0]);\n"
        "y = select(a, g, swish(f));"
    )
    graph = load(body, fragments)
    unknown = {op.name: op.output.type.shape for op in graph.ops if op.name in ("swish", "select")}
    assert unknown == {"swish": None, "select": None}
    with pytest.raises(NnefError) as caught:
        custom.require_known(graph)
    assert [e.rule for e in caught.value.errors] == ["custom/unregistered"] * 2
    assert ["halves" in str(e) for e in caught.value.errors] == [True, False]
    text = flatten(graph)
    assert HALVES in text and SWISH in text
    assert difference(graph, import_text(text)) is None


def test_errors_from_unknown_shapes_name_the_operation() -> None:
    fragments = f"{SWISH};\nfragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> )\n"
    fragments += "{ y = reshape(x, shape = [shape_of(x)[0], -1]); }"
    (error,) = errors_of(document("y = f(swish(x));", fragments))
    assert error.rule == "custom/unregistered"
    assert "swish" in error.message


def test_rules_hold_downstream_of_unknown_operations() -> None:
    body = "a = swish(x);\nb = softmax(a, axes = [1,1]);\nc = softmax(x, axes = [7]);\ny = a;"
    assert rules_of(document(body, SWISH + ";")) == ["argument/softmax"] * 2


def test_expansions_evaluate(swish: None) -> None:
    from nnefc.ops.tools.build import emitter
    from nnefc.ops.tools.reference import evaluate

    graph = load("y = swish(x, beta = 2.0);", SWISH + ";")
    (op,) = graph.ops
    spec = custom.spec("swish")
    assert spec is not None and spec.expand is not None
    value = spec.expand(emitter(graph, op), op)
    graph.replace_value(op.output, value)
    graph.erase(op)
    x = np.linspace(-3, 3, 6).reshape(2, 3)
    expected = x / (1 + np.exp(-2 * x))
    np.testing.assert_allclose(evaluate(graph, {"x": x}).outputs["y"], expected)


def test_conditions_on_unknown_shapes_name_the_operation() -> None:
    fragments = f"{SWISH};\nfragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> )\n"
    fragments += "{ y = relu(x) if shape_of(x)[0] > 1 else x; }"
    assert rules_of(document("y = f(swish(x));", fragments)) == ["custom/unregistered"]


@pytest.mark.parametrize("count", [0, 2])
def test_a_shape_rule_gives_a_type_for_each_result(count: int) -> None:
    def shape(call: Call) -> list[TensorType]:
        return [TensorType(call.dtype("x"), call.shape("x"))] * count

    signature = "fragment same( x: tensor<scalar> ) -> ( y: tensor<scalar> )"
    custom.operation(signature, shape=shape)(lambda emit, op: op.inputs[0])
    try:
        (error,) = errors_of(document("a = same(x);\ny = same(a);", signature + ";"))
        assert error.rule == "custom/shape"
        assert f"gives {count} types" in error.message
    finally:
        custom.unregister("same")


def _gives(what: Any) -> Any:
    def function(emit: Any, op: Any) -> Any:
        return what

    return function


def _raises(emit: Any, op: Any) -> Any:
    return op.attributes["gamma"]


def _misspells(emit: Any, op: Any) -> Any:
    return emit("mull", op.inputs[0])


@pytest.mark.parametrize(
    ("function", "rule", "message", "hint"),
    [
        (_gives(None), "custom/results", "gives NoneType", "return the value"),
        (_gives(np.ones(2)), "custom/results", "gives ndarray", "return the value"),
        (_gives(["y"]), "custom/results", "gives str", "return the value"),
        (_gives(()), "custom/results", "0 results, not 1", ""),
        (_raises, "custom/function", "raises KeyError: 'gamma'", ""),
        (_misspells, "invocation/unknown", "mull", ""),
    ],
)
def test_errors_in_functions_of_users_have_positions(
    function: Any, rule: str, message: str, hint: str
) -> None:
    from nnefc.passes.canonicalise.expand_compounds import ExpandCompounds

    custom.operation(SWISH)(function)
    try:
        graph = load("y = swish(x);", SWISH + ";")
        with pytest.raises(NnefError) as caught:
            ExpandCompounds(lookup=custom.spec).run(graph)
    finally:
        custom.unregister("swish")
    (error,) = caught.value.errors
    assert error.rule == rule
    assert message in error.message
    assert hint in error.hint
    assert error.line > 0


def test_a_function_takes_emit_and_op() -> None:
    with pytest.raises(NnefError, match="cannot be called with emit and op") as caught:
        custom.operation(SWISH)(lambda: None)  # type: ignore[arg-type]
    assert caught.value.errors[0].rule == "custom/function"
    assert custom.spec("swish") is None
