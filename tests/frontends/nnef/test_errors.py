"""Each error is reported once, at its position, with its rule."""

from __future__ import annotations

import pytest

from nnefc.frontends.nnef import check_document, import_text
from nnefc.ops.tools import suggest
from nnefc.ops.tools.table import operations, standard
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.syntax.parser import parse
from tests.helpers.nnef.text import document, errors_of, load, rules_of


def fragment(body: str) -> str:
    """A document whose fragment f, with x and k: integer, has this body."""
    head = "fragment f( x: tensor<scalar>, k: integer ) -> ( y: tensor<scalar> )"
    return document("y = f(x, k = 1);", f"{head}\n{{\n{body}\n}}\n")


@pytest.mark.parametrize(
    ("declaration", "rule"),
    [
        ("fragment f( x: T ) -> ( x: T );", "definition/duplicate"),
        ("fragment f( x: T, x: integer ) -> ( y: T );", "definition/duplicate"),
        ("fragment f( k: integer, x: T ) -> ( y: T );", "definition/order"),
        ("fragment f( x: T ) -> ( y: tensor<> );", "definition/result"),
        ("fragment f( x: T ) -> ( y: scalar );", "definition/result"),
        ("fragment f( x: T ) -> ( y: (T,integer) );", "definition/result"),
        ("fragment f( x: (T,integer) ) -> ( y: T );", "definition/mixed-tuple"),
        ("fragment f( x: T, k: integer[] = [1.0] ) -> ( y: T );", "definition/default"),
        ("fragment f( x: T, k: integer[] = [1, 'a'] ) -> ( y: T );", "definition/default"),
        ("fragment f( x: T, k: (integer,scalar) = (1,2) ) -> ( y: T );", "definition/default"),
        ("fragment f( x: T = 1 ) -> ( y: T );", "definition/default"),
        ("fragment f( x: tensor<?> ) -> ( y: tensor<?> );", "definition/generic"),
        ("fragment f<?>( x: T ) -> ( y: T );", "definition/generic"),
        ("fragment f<? = ?>( x: tensor<?> ) -> ( y: tensor<?> );", "definition/generic"),
        ("fragment add( x: T ) -> ( y: T );", "definition/standard"),
        ("fragment erf( x: T ) -> ( y: T );", "definition/standard"),
        ("fragment f(x: T) -> (y: T);\nfragment f(z: T) -> (y: T);", "definition/duplicate"),
    ],
)  # fmt: skip
def test_wrong_declarations_are_errors(declaration: str, rule: str) -> None:
    declaration = declaration.replace("T", "tensor<scalar>")
    errors = errors_of(document("y = relu(x);", declaration))
    assert [e.rule for e in errors] == [rule]
    assert errors[0].line == 4 + declaration.count("\n")


@pytest.mark.parametrize(
    ("invocation", "rule"),
    [
        ("rleu(x)", "invocation/unknown"),
        ("erf(x)", "invocation/unknown"),
        ("relu(x, x)", "invocation/too-many"),
        ("relu()", "syntax/"),
        ("add(x)", "invocation/missing-argument"),
        ("softmax(x, [1])", "invocation/positional-attribute"),
        ("softmax(axes = [1], x)", "invocation/positional-after-named"),
        ("softmax(x, axis = [1])", "invocation/unknown-argument"),
        ("softmax(x, axes = [1], axes = [1])", "invocation/duplicate-argument"),
        ("add(x, x = x)", "invocation/duplicate-argument"),
        ("relu<scalar>(x)", "invocation/generic"),
        ("copy<?>(x)", "invocation/generic"),
        ("relu(moments(x, axes = [0]))", "invocation/chaining"),
        ("relu(split(x, axis = 0, ratios = [1,1]))", "invocation/chaining"),
        ("moments(x, axes = [0])", "invocation/structure"),
        ("split(x, axis = 0, ratios = [1,1])", "invocation/structure"),
        ("select(x > 0.0, x, 1)", "type/generic"),
        ("softmax(x, axes = [1.0])", "type/argument"),
        ("softmax(x, axes = 1)", "type/argument"),
        ("softmax(x, axes = [x])", "type/argument"),
        ("pad(x, padding = [(0,0),(0)])", "type/array-items"),
        ("add(x, 1)", "type/argument"),
        ("concat(x, axis = 0)", "type/argument"),
        ("concat([x, 1], axis = 0)", "type/array-items"),
        ("relu(x > 0.0)", "type/argument"),
        ("copy<integer>(x)", "type/argument"),
        ("cast(x)", "type/generic"),
        ("constant(shape = [1], value = [1])", "type/argument"),
        ("constant<integer>(shape = [1], value = [3000000000])", "argument/constant"),
        ("softmax(x, axes = [2])", "argument/softmax"),
        ("transpose(x, axes = [0,0])", "argument/transpose"),
        ("x[0]", "type/subscript"),
        ("[x][1]", "argument/index"),
        ("[x][-1]", "argument/index"),
        ("[x, x][0:3][0]", "argument/index"),
        ("(x, x)[2]", "type/subscript"),
        ("(x, x)[1 + 0]", "type/subscript"),
        ("(x, x)[0:1]", "type/subscript"),
        ("x + 1", "type/argument"),
        ("x && (x > 0.0)", "type/argument"),
        ("!x", "type/argument"),
        ("x if x > 0.0 else x", "type/condition"),
        ("x if 1 else x", "type/condition"),
        ("x if 1 == 1.0 else x", "type/operator"),
        ("x if [1] == [1] else x", "type/operator"),
        ("x if 'a' < 'b' else x", "type/operator"),
        ("x if true < false else x", "type/operator"),
        ("x if 1 in [1.0] else x", "type/operator"),
        ("x if x in [x] else x", "type/operator"),
        ("x if 1 && true else x", "type/operator"),
        ("x if true else (x, x)", "type/branches"),
        ("x if true else 1", "type/branches"),
        ("x * scalar([1])", "type/cast"),
        ("x * scalar(x)", "type/cast"),
        ("x * scalar('')", "type/cast"),
        ("x * scalar('1.')", "type/cast"),
        ("x * scalar(integer('0x1'))", "type/cast"),
        ("x * scalar(1 / 0)", "argument/arithmetic"),
        ("x * (1.0 / 0.0)", "argument/arithmetic"),
        ("x * ((-8.0) ^ 0.5)", "argument/arithmetic"),
        ("x * scalar(2 ^ 63)", "argument/arithmetic"),
        ("x * scalar(9223372036854775807 + 1)", "argument/arithmetic"),
        ("x * (1e300 * 1e300)", "argument/arithmetic"),
        ("x * scalar(length_of([1] * -1))", "argument/array"),
        ("x * scalar(length_of(x))", "type/builtin"),
        ("x * scalar(length_of((1,2)))", "type/builtin"),
        ("x * scalar([for i in 'ab' yield 1][0])", "type/iterate"),
        ("x * scalar([for i in x yield 1][0])", "type/iterate"),
        ("x * scalar([for i in [1,2], j in [1] yield i][0])", "argument/comprehension"),
        ("x * scalar([for i in [1,2], i in [1,2] yield i][0])", "identifier/loop-variable"),
        ("x * scalar([for i in [1,2] if i yield i][0])", "type/condition"),
        ("[for i in [1] yield x][0] + i * x", "identifier/undefined"),
        ("1.0", "identifier/not-tensor"),
        ("[x]", "identifier/not-tensor"),
        ("[1,2]", "identifier/not-tensor"),
        ("(x, x)", "identifier/not-tensor"),
    ],
)  # fmt: skip
def test_expressions_of_the_graph(invocation: str, rule: str) -> None:
    errors = errors_of(document(f"y = {invocation};"))
    assert [e.rule.startswith(rule) for e in errors] == [True], errors
    assert errors[0].line == 7
    assert errors[0].column >= 1


@pytest.mark.parametrize(
    ("body", "rule", "line"),
    [
        ("y = x;\nt = x;\nt = x;", "identifier/assigned-twice", 8),
        ("k = 2;\ny = x;", "identifier/parameter-assigned", 6),
        ("t = x;", "identifier/result", 4),
        ("y = t;\nt = x;", "identifier/undefined", 6),
        ("y = y;", "identifier/undefined", 6),
        ("y = 1;", "type/result", 6),
        ("y = [x];", "type/result", 6),
        ("[y, t] = (x, x);", "type/unpack", 6),
        ("y, t = (x, x, x);", "type/unpack", 6),
        ("[y, t] = [x];", "type/unpack", 6),
        ("t = split(x, axis = 0, ratios = [1,1]);\ny = t[0];", "invocation/structure", 6),
        ("v = variable(shape = [1], label = 'v');\ny = x;", "identifier/in-fragment", 6),
        ("y = update(x, x);", "identifier/in-fragment", 6),
        ("y = external(shape = [1]);", "identifier/in-fragment", 6),
        ("t = [1][k];\ny = x * scalar([1,2][2]);", "argument/index", 7),
        ("y = softmax(x, axes = [1,1]);", "argument/softmax", 6),
        ("y = softmax(x, axes = [1,1]) if k > 0 else x;", "argument/softmax", 6),
        ("y = x if true else softmax(x, axes = [1,1]);", "argument/softmax", 6),
        ("t = [for i in [1,2] yield softmax(x, axes = [i,i])];\ny = x;", "argument/softmax", 6),
        ("t = [for i in [k] * k yield softmax(x, axes = [1,1])];\ny = x;", "argument/softmax", 6),
        ("y = x if k == 'a' else x;", "type/operator", 6),
        ("y = copy<?>(x);", "invocation/generic", 6),
    ],
)
def test_bodies_of_fragments(body: str, rule: str, line: int) -> None:
    errors = errors_of(fragment(body))
    # each is found before the fragment is invoked, and not a second time by the invocation
    assert [e.rule for e in errors][:1] == [rule], errors
    assert len({e.rule for e in errors}) == 1
    assert errors[0].line == line
    assert not errors[0].chain


@pytest.mark.parametrize(
    "body",
    [
        "y = x if k < 5 else x * scalar([1][k]);",
        "y = x if k == 1 else x * scalar(1 / 0);",
        "y = x if true else x * scalar(1 / 0);",
        "y = x if true || [1][3] == 1 else x;",
        "y = x if !(false && 1 / 0 == 1) else x;",
        "t = [1,2];\ny = x if length_of(t) < 3 else x * scalar(t[2]);",
        "y = softmax(x, axes = [k]);",
        "y = x if k == 1 else softmax(x, axes = [k, k]);",
        "y = x if length_of(shape_of(x)) == 2 else transpose(x, axes = [0,1,2,3]);",
        "t = [for i in [] yield i + 1];\ny = x;",
        "y = [for v in [] + [x] yield v][0];",
        "i = [for i in [1,2] yield i];\ny = x * scalar(i[1]);",
    ],
)
def test_lazy_and_legal_bodies(body: str) -> None:
    import_text(fragment(body))


def test_an_untaken_branch_of_the_graph_is_checked_for_certain_errors() -> None:
    assert rules_of(document("y = x if true else softmax(x, axes = [1,1]);")) == [
        "argument/softmax"
    ]
    load("y = x if true else x * scalar([1][3]);")
    load("y = x if true else transpose(x, axes = [0,1,2,3]);")


@pytest.mark.parametrize(
    ("body", "parameters", "results", "rule"),
    [
        ("x = external(shape = [1]);\ny = x;", "x, z", "y", "identifier/parameter"),
        ("x = external(shape = [1]);\ny = x; t = external;", "x", "y", "identifier/undefined"),
        ("a = external(shape = [1]);\nx = copy(a);\ny = x;", "x", "y", "identifier/external"),
        ("x = copy(external(shape = [1]));\ny = x;", "x", "y", "identifier/external"),
        ("x = external(shape = [1]);\ny = x;", "x", "y, z", "identifier/result"),
        ("x = external(shape = [1]);\ny = x;", "x, x", "y", "definition/duplicate"),
        ("x = external(shape = [1]);\ny = x;", "x", "y, y", "definition/duplicate"),
        ("x = external(shape = [1]);\ny = update(x, x);", "x", "y", "argument/update"),
        ("x = external(shape = [1]);\nx = copy(x);\ny = x;", "x", "y", "identifier/assigned-twice"),
    ],
)  # fmt: skip
def test_wrong_identifiers_of_the_graph_are_errors(
    body: str, parameters: str, results: str, rule: str
) -> None:
    found = rules_of(document(body, parameters=parameters, results=results))
    assert found[0] == rule


def test_a_parameter_that_is_no_external() -> None:
    text = document("x = constant(shape = [1], value = [1.0]); # external\ny = x;")
    assert rules_of(text) == ["identifier/parameter"]


def test_all_errors_are_reported_without_consequences() -> None:
    text = document(
        "a = frob(x);\nb = relu(a);\nc = softmax(b, axes = [1.0]);\n[d, e] = c;\ny = add(d, nope);"
    )
    assert rules_of(text) == ["invocation/unknown", "type/argument", "identifier/undefined"]


def test_a_wrong_value_causes_no_further_errors() -> None:
    assert rules_of(document("k = [1,2];\ny = reshape(x, shape = [1, k, 3]);")) == [
        "identifier/not-tensor"
    ]


def test_an_error_of_an_expansion_names_the_invocations() -> None:
    fragments = """fragment inner( x: tensor<scalar>, k: integer ) -> ( y: tensor<scalar> )
{ y = softmax(x, axes = [k]); }
fragment outer( x: tensor<scalar>, k: integer ) -> ( y: tensor<scalar> )
{ y = inner(x, k = k + 1); }
"""
    (error,) = errors_of(document("a = outer(x, k = 0);\ny = outer(x, k = 3);", fragments))
    assert error.rule == "argument/softmax"
    assert "4" in error.message
    assert error.line == 5
    assert [step.place.line for step in error.chain] == [7, 12]
    assert "inner" in str(error) and "outer" in str(error)


def test_an_error_in_an_expansion_is_reported_once() -> None:
    fragments = "fragment f( x: tensor<scalar>, k: integer ) -> ( y: tensor<scalar> )\n"
    fragments += "{ y = softmax(x, axes = [k]); }"
    body = "a = f(x, k = 5);\nb = f(x, k = 5);\ny = f(x, k = 6);"
    assert rules_of(document(body, fragments)) == ["argument/softmax"] * 2


def test_generic_bodies_are_checked_for_each_type() -> None:
    fragments = "fragment f<?>( x: tensor<?> ) -> ( y: tensor<?> )\n{ y = select(true, x, 1.0); }"
    load("y = f(x);", fragments.replace("1.0", "x"))
    (error,) = errors_of(document("y = f(x); z = f(x > 0.0);", fragments))
    assert error.rule == "type/generic"
    fragments = "fragment f<?>( x: tensor<?> ) -> ( y: tensor<?> )\n{ y = 1.0; }"
    load("y = f(x);", fragments)
    (error,) = errors_of(document("y = f(x); z = f(x > 0.0);", fragments))
    assert error.rule == "type/result"
    assert error.chain


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("y, m, v = moments(x, axes = [0]);", "invocation/structure"),
        ("(y, (m, v)) = moments(x, axes = [0]);", "invocation/structure"),
        ("y, m, v = (x, x);", "type/unpack"),
        ("(y, (m, v)) = (x, (x, x, x));", "type/unpack"),
    ],
)
def test_left_sides_of_the_graph_that_do_not_fit(statement: str, rule: str) -> None:
    assert [e.rule for e in errors_of(document(statement))] == [rule]


def test_hints_name_the_likely_correction() -> None:
    def hint(text: str) -> str:
        return errors_of(text)[0].hint

    assert "'relu'" in hint(document("y = rleu(x);"))
    assert "axes" in hint(document("y = softmax(x, axis = [1]);"))
    assert "1.0" in hint(document("y = add(x, 1);"))
    assert "select" in hint(document("y = x if x > 0.0 else x;"))
    assert "further down" in hint(document("y = copy(z);\nz = copy(x);"))
    assert "'alpha'" in hint(document("alpha = copy(x);\ny = copy(alhpa);"))


@pytest.mark.parametrize(
    ("expression", "meant"),
    [
        ("Relu(x)", "mean 'relu'?"),
        ("MaxPool(x)", "mean 'max_pool'?"),
        ("reduce_mean(x, axes = [1])", "mean 'mean_reduce'?"),
        ("convolution(x, x)", "mean 'conv'?"),
        ("Conv2D(x, x)", "mean 'conv'?"),
        ("dense(x, x)", "mean 'linear'?"),
        ("fully_connected(x, x)", "mean 'linear'?"),
        ("sofmax(x, axes = [1])", "mean 'softmax'?"),
        ("x if True else x", "written true"),
        ("concat(x, x, axis = 1)", "write concat([x, x], axis = ...)"),
        ("stack(x, relu(x), x, axis = 1)", "write stack([x, ..., x], axis = ...)"),
        ("add_n(x, x)", "write add_n([x, x])"),
        ("box(x, size = [1,1], padding = [1,1,1,1])", "[(1,1), (1,1)]"),
    ],
)
def test_hints_about_other_notations(expression: str, meant: str) -> None:
    (error,) = errors_of(document(f"y = {expression};"))
    assert meant in error.hint


def test_names_of_other_frameworks_mean_operations() -> None:
    assert set(suggest._FOREIGN) <= set(operations())  # pyright: ignore[reportPrivateUsage]
    assert not set(suggest._NAMES) & set(standard())  # pyright: ignore[reportPrivateUsage]


def test_too_many_errors() -> None:
    body = "\n".join(f"a{i} = frob(x);" for i in range(200))
    errors = errors_of(document(body + "\ny = x;"))
    assert len(errors) == 101
    assert errors[-1].rule == "limit/errors"


def test_check_document_raises_and_collects() -> None:
    diagnostics = Diagnostics()
    with pytest.raises(NnefError):
        check_document(parse(document("y = frob(x);")), diagnostics=diagnostics)
    assert diagnostics.errors
    check_document(parse(document("y = relu(x);")))
