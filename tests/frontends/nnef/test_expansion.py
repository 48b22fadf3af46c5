"""Fragments, names, shapes, and the limits of expansion."""

from __future__ import annotations

import re
from typing import Any

import pytest

from nnefc.frontends.nnef import import_text
from nnefc.ir import DType, Graph
from nnefc.ir.verify import verify
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError
from nnefc.support.limits import Limits
from tests.helpers.event_counts import calls
from tests.helpers.nnef.text import document, errors_of, load, rules_of


def names(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops if op.name != "constant"]


def test_fragments_expand_and_standard_operations_do_not() -> None:
    fragments = """fragment block( x: tensor<scalar>, n: integer = 2 ) -> ( y: tensor<scalar> )
{
    t = [for i in range_of([0] * n) yield
            batch_normalization(x, 0.0, 1.0, 0.0, 1.0, epsilon = 0.1)];
    y = add_n(t);
}
"""
    graph = load("a = block(x);\ny = sigmoid(block(a, n = 1));", fragments)
    expected = "batch_normalization batch_normalization add_n batch_normalization add_n sigmoid"
    assert names(graph) == expected.split()
    assert not verify(graph)
    locations = [op.location for op in graph.ops if op.name == "batch_normalization"]
    assert [[s.place.line for s in loc.chain] for loc in locations if loc] == [[13], [13], [14]]


def test_fragments_may_be_used_before_they_are_declared() -> None:
    fragments = """fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { y = g(x); }
fragment g( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { y = relu(x); }
"""
    assert names(load("y = f(x);", fragments)) == ["relu"]


def test_results_of_several_structures() -> None:
    fragments = """fragment f( x: tensor<scalar>, n: integer )
-> ( s: tensor<scalar>, parts: tensor<scalar>[] )
{
    s = x;
    parts = [x] * n;
}
"""
    body = "s, [a, b] = f(x, n = 2);\ny = s + a * b;"
    graph = load(body, fragments)
    # each identifier is a tensor of its own
    assert names(graph) == ["copy", "copy", "copy", "mul", "add"]
    assert rules_of(document(body.replace("n = 2", "n = 3"), fragments)) == ["type/unpack"]
    assert rules_of(document("s, a = f(x, n = 1);\ny = s;", fragments)) == ["invocation/structure"]


def test_generic_fragments_are_instantiated_by_type() -> None:
    fragments = """fragment zero<? = scalar>( shape: integer[] ) -> ( y: tensor<?> )
{ y = variable_like<?>(1.0, shape = shape); }
fragment variable_like<? = scalar>( x: tensor<scalar>, shape: integer[] ) -> ( y: tensor<?> )
{ y = cast<?>(constant(shape = shape, value = [1.0]) * x); }
"""
    diagnostics = Diagnostics()
    text = document("a = zero<integer>(shape = [2]);\ny = zero(shape = []);", fragments)
    graph = import_text(text, diagnostics=diagnostics)
    casts = [op.output.type.dtype for op in graph.ops if op.name == "cast"]
    assert casts == [DType.INT32, DType.FLOAT32]


def test_only_the_body_of_the_graph_names_values() -> None:
    fragments = (
        "fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { t = relu(x); y = neg(t); }\n"
    )
    graph = load("relu_1 = f(x);\ny = f(relu_1);", fragments)
    found = [v.name for op in graph.ops for v in op.outputs]
    assert found == ["relu_2", "relu_1", "relu_3", "y"]
    assert [v.name for v in graph.inputs] == ["x"]
    assert graph.output_names == ["y"]


def test_an_alias_is_a_copy() -> None:
    graph = load("y = x;\nz = y;", results="y, z, x")
    assert names(graph) == ["copy", "copy"]
    assert [v.name for v in graph.outputs] == ["y", "z", "x"]
    assert graph.outputs[2] is graph.inputs[0]


def test_inputs_are_in_the_order_of_the_parameters() -> None:
    body = "b = external<logical>(shape = []);\na = external<integer>(shape = [3]);\n"
    body += "y = select(b, a, a);"
    graph = load(body, parameters="a, b")
    assert [(v.name, str(v.type)) for v in graph.inputs] == [("a", "int32[3]"), ("b", "bool[]")]
    assert [v.index for v in graph.inputs] == [0, 1]
    wide = load(body, parameters="a, b", integer="int64")
    assert str(wide.outputs[0].type) == "int64[3]"


def test_scalar_sets_the_item_type_and_integers_must_fit() -> None:
    graph = load("y = x * 2.0;", scalar="float64")
    assert all(v.type.dtype is DType.FLOAT64 for op in graph.ops for v in op.outputs)
    (error,) = errors_of(
        document("c = constant<integer>(shape = [1], value = [-2147483649]);\ny = x;")
    )
    assert error.rule == "argument/constant"


def test_shapes_can_be_replaced() -> None:
    body = """x = external(shape = [1,3,8,8]);
y = max_pool(x, size = [1,1,2,2], stride = [1,1,2,2], padding = [(0,0)] * 4);
"""
    graph = load(body, shapes={"x": [2, 3, 32, 16]})
    assert graph.outputs[0].type.shape == (2, 3, 16, 8)
    with pytest.raises(NnefError) as caught:
        load(body, shapes={"z": [1], "x": [0, 3]})
    assert [e.rule for e in caught.value.errors] == ["input/shape"] * 2
    with pytest.raises(NnefError, match="argument/max_pool"):
        load(body, shapes={"x": [8]})


def test_shapes_of_known_tensors_are_values() -> None:
    fragments = """fragment flat( x: tensor<scalar> ) -> ( y: tensor<scalar> )
{ y = reshape(x, shape = [shape_of(x)[0], -1]); }
"""
    graph = load("x = external(shape = [2,3,4]);\ny = flat(x);", fragments)
    assert graph.outputs[0].type.shape == (2, 12)


def test_variables_of_one_label_are_shared() -> None:
    body = "a = variable(shape = [2], label = 'W');\n"
    body += "b = variable(shape = [2], label = 'w');\ny = a + b;"
    graph = load(body)
    assert list(graph.variables) == ["w"]
    assert graph.variables["w"].label == "W"
    found = rules_of(document(body.replace("b = variable", "b = variable<integer>")))
    assert found[0] == "argument/variable"
    assert (
        rules_of(
            document(
                "v = variable(shape = [2,3], label = 'v');\n"
                "w = variable(shape = [2,3], label = 'V');\n"
                "a = update(v, x);\nb = update(w, x);\ny = update(a, x);"
            )
        )
        == ["argument/update"] * 2
    )


def test_warnings_come_once() -> None:
    text = document(
        "a = gelu(x);\nb = gelu(a);\nc = elu(b, alpha = 0.5);\nd = elu(c);\n"
        "e = max_pool(d, size = [1,1], border = 'ignore');\n"
        "y = max_pool(e, size = [1,1], border = 'ignore');"
    )
    diagnostics = Diagnostics()
    import_text(text, diagnostics=diagnostics)
    assert [w.rule for w in diagnostics.warnings] == [
        "invocation/beyond-1.0.2",
        "invocation/beyond-1.0.2",
        "argument/border-ignore",
    ]
    with pytest.raises(NnefError) as caught:
        import_text(text, config=ImportConfig(strict=True))
    assert len(caught.value.errors) == 3


def test_a_document_may_declare_operations_of_later_versions() -> None:
    own = "fragment gelu( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { y = relu(x); }\n"
    assert names(load("y = gelu(x);", own)) == ["relu"]
    declared = "fragment gelu( x: tensor<scalar> ) -> ( y: tensor<scalar> );\n"
    graph = load("y = gelu(x);", declared)
    assert names(graph) == ["gelu"]
    assert graph.outputs[0].type.shape == (2, 3)


RECURSIVE = "fragment f( x: tensor<scalar>, n: integer ) -> ( y: tensor<scalar> )\n{ y = %s; }\n"


def test_deep_recursion_expands_and_endless_recursion_is_an_error() -> None:
    graph = load("y = f(x, n = 900);", RECURSIVE % "x + f(x, n = n - 1) if n > 0 else x")
    assert names(graph) == ["add"] * 900
    (error,) = errors_of(document("y = f(x, n = 0);", RECURSIVE % "f(x, n = n + 1)"))
    assert error.rule == "limit/recursion"
    assert error.line == 5
    assert len(error.chain) <= 20
    graph = load(
        "y = f(x, n = 3);",
        RECURSIVE % "f(x, n = n - 1) if n > 0 else relu(x)",
        chosen_limits=Limits(recursion=4),
    )
    assert names(graph) == ["relu"]
    with pytest.raises(NnefError, match="limit/recursion"):
        load(
            "y = f(x, n = 0);",
            RECURSIVE % "f(x, n = n + 1)",
            chosen_limits=Limits(recursion=1_000_000, steps=10_000_000),
        )


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("f(x, n = n - 1) + f(x, n = n - 1) if n > 0 else x", "limit/steps"),
        ("[f(x, n = n - 1), f(x, n = n - 1)][0] if n > 0 else x", "limit/steps"),
        ("x * scalar(length_of([1] * 1000000000))", "limit/items"),
        ("x * scalar(length_of('a' * 1000000000))", "limit/items"),
        ("x * scalar([for i in [1] * 1000 if i in [2] * 100000 yield i][0])", "limit/steps"),
        ("x * scalar([for i in [1] * 1000 yield length_of([2] * 100000)][0])", "limit/items"),
        ("x * scalar([for i in [1] * 100000 yield [for j in [1] * 90 yield i]][0][0])", "limit/"),
        ("add_n([x] * 3000000)", "limit/steps"),
        ("x * scalar(length_of([for i in [1] * 1000000 yield 2.0 ^ 0.5]))", "limit/steps"),
    ],
)
def test_expansion_is_bounded(body: str, rule: str) -> None:
    found: list[Diagnostic] = []
    text = document("y = f(x, n = 60);", RECURSIVE % body)
    limits = Limits(steps=Limits().steps // 10)
    count = calls(lambda: found.extend(errors_of(text, chosen_limits=limits)))
    assert count < 30 * limits.steps
    (error,) = found
    assert error.rule.startswith(rule)
    assert error.line
    limit = error.rule.removeprefix("limit/")
    assert f"--limit {limit}=N, Limits({limit}=N)" in error.hint
    assert error.line <= 5
    if "f(x" in body:
        assert "in 'f', invoked here" in str(error)
        assert re.search(r"'f' is expanded \d+ times", error.hint)


def test_limits_can_be_raised() -> None:
    body = "x * scalar(length_of([for i in [1] * 2000 yield i]))"
    limits = Limits(steps=100)
    with pytest.raises(NnefError, match="limit/steps"):
        load("y = f(x, n = 60);", RECURSIVE % body, chosen_limits=limits)
    load("y = f(x, n = 60);", RECURSIVE % body, chosen_limits=Limits(steps=100_000))
    with pytest.raises(NnefError, match="limit/operations"):
        load("a = relu(x); y = relu(a);", chosen_limits=Limits(operations=1))


def test_tensors_beyond_the_limit() -> None:
    (error,) = errors_of(document("x = external(shape = [10000000,10000000]);\ny = sigmoid(x);"))
    assert error.rule == "limit/tensor"
    assert "external" in error.message and str(1 << 40) in error.message
    with pytest.raises(NnefError) as caught:
        load("z = relu(x); y = sigmoid(z);", shapes={"x": (10**18,)})
    (error,) = caught.value.errors
    assert error.rule == "limit/tensor"
    assert "external 'x'" in error.message
    assert str(4 * 10**18) in error.message and "tensor_bytes" in error.message
    assert "--limit tensor_bytes=N" in error.hint
    with pytest.raises(NnefError) as caught:
        load("y = tile(x, repeats = [1000000,1000000]);")
    (error,) = caught.value.errors
    assert error.rule == "limit/tensor"
    assert "tile" in error.message


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "9"])
def test_limits_are_positive_integers(value: Any) -> None:
    with pytest.raises(NnefError) as caught:
        Limits(recursion=value, items=value)
    assert [error.rule for error in caught.value.errors] == ["input/option"] * 2
    assert repr(value) in caught.value.errors[0].message


def test_time_is_linear() -> None:
    def work(count: int) -> int:
        lines = "\n".join(f"a{i + 1} = add(a{i}, x);" for i in range(count))
        text = document(f"a0 = copy(x);\n{lines}\ny = copy(a{count});")
        return calls(lambda: import_text(text))

    work(100)
    assert work(4000) < 4.2 * work(1000)
