"""Document templates: results, errors, and termination."""

# pyright: reportUnknownMemberType=false
# ruff: noqa: E501 (templates and results in one line)

from __future__ import annotations

import json
import tarfile
import tracemalloc
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.sandbox import SandboxedEnvironment

import nnefc
from nnefc.formats.container import open_container
from nnefc.frontends.tract.templates.document import render
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits
from tests.helpers.examples import examples
from tests.helpers.nnef.hostile import mutate

CONFIG = {
    "layers": 3,
    "hidden": [4, 5, 2],
    "causal": True,
    "eps": 1e-5,
    "scale": 2.0,
    "name": "net",
    "none": None,
    "inner": {"b": 1, "a": "x"},
}
GRAPH = """\
version 1.0;
extension tract_registry tract_core;
{#- a comment of the template -#}
{%- macro layer(index) %}
    w{{ index }} = variable(label = 'w{{ index }}', shape = [{{ net.hidden[index + 1] }}, {{ net.hidden[index] }}]);
    x{{ index + 1 }} = matmul(x{{ index }}, w{{ index }}, transposeB = true) * {{ net.scale }};
{%- endmacro %}
graph {{ net.name }}( x0 ) -> ( y )
{
    x0 = tract_core_external(shape = [1, {{ net.hidden | first }}], datum_type = 'f32');
    {%- for index in range(net.layers - 1) %}
    {{- layer(index) }}
    {%- endfor %}
    y = {% if net.causal %}x{{ net.layers - 1 }}{% else %}x0{% endif %} + {{ net.eps }};
}
"""


def write(folder: Path, graph: str = GRAPH, **files: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "graph.nnef").write_text(graph)
    for name, value in ({"net": CONFIG} | files).items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


def rendered(folder: Path, template: str, limits: Limits | None = None, **files: Any) -> str:
    write(folder, template, **files)
    with open_container(folder) as container:
        return render(template, "t.nnef", container, limits or Limits())


def fault(folder: Path, template: str, **limits: int) -> tuple[str, int]:
    """Rule and line of the error of a template."""
    with pytest.raises(NnefError) as caught:
        rendered(folder, template, Limits(**limits))
    (error,) = caught.value.errors
    assert error.file == "t.nnef"
    return error.rule, error.line


@pytest.mark.parametrize("form", ["folder", "tar", "tgz"])
def test_a_template_renders_to_a_model(tmp_path: Path, form: str) -> None:
    path = folder = write(tmp_path / "net")
    random = np.random.default_rng(0)
    w0, w1 = (random.standard_normal(s).astype(np.float32) for s in ((5, 4), (2, 5)))
    nnefc.write_tensor(folder / "w0.dat", w0)
    nnefc.write_tensor(folder / "w1.dat", w1)
    if form != "folder":
        path = tmp_path / f"net.{form}"
        with tarfile.open(path, "w:gz" if form == "tgz" else "w") as archive:
            archive.add(folder, ".")
    x = random.standard_normal((1, 4)).astype(np.float32)
    expected = x.astype(float) @ w0.T.astype(float) @ w1.T.astype(float) * 4 + 1e-5
    np.testing.assert_allclose(nnefc.compile(path, keep=False)(x), expected, rtol=1e-5)


def test_models_within_models_have_their_own_files(tmp_path: Path) -> None:
    inner = """\
version 1.0;
extension tract_registry tract_core;
graph inner( x ) -> ( y )
{
    x = tract_core_external(shape = [3], datum_type = 'f32');
    y = x * {{ net.factor }};
}
"""
    outer = inner.replace("graph inner", "graph outer").replace(
        "x * {{ net.factor }}", "tract_core_submodel([x], label = 'inner') + {{ net.factor }}"
    )
    write(tmp_path / "inner", inner, net={"factor": 3})
    write(tmp_path, outer, net={"factor": 0.5})
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(nnefc.compile(tmp_path, keep=False)(x), x * 3 + 0.5)


def test_a_change_of_a_file_is_noticed(tmp_path: Path) -> None:
    graph = """\
version 1.0;
extension tract_registry tract_core;
graph net( x ) -> ( y )
{
    x = tract_core_external(shape = [3], datum_type = 'f32');
    y = x * {{ net.factor }};
}
"""
    x = np.ones(3, np.float32)
    for factor in (2, 3):
        write(tmp_path, graph, net={"factor": factor})
        np.testing.assert_array_equal(nnefc.compile(tmp_path)(x), x * factor)


def test_only_tract_documents_beside_json_are_templates(tmp_path: Path) -> None:
    text = """\
version 1.0;
# {{ not a template
graph net( x ) -> ( y )
{
    x = external(shape = [1]);
    y = relu(x);
}
"""
    write(tmp_path, text)
    nnefc.import_model(tmp_path)
    with pytest.raises(NnefError) as caught:
        nnefc.import_model(tmp_path, dialect="tract")
    assert caught.value.errors[0].rule == "tract/template"
    (tmp_path / "net.json").unlink()
    nnefc.import_model(tmp_path, dialect="tract")


def test_later_errors_name_the_rendered_text(tmp_path: Path) -> None:
    write(tmp_path, GRAPH.replace("= matmul(", "= matmull(").replace("= variable(", "= variabel("))
    with pytest.raises(NnefError) as caught:
        nnefc.import_model(tmp_path)
    assert {error.file for error in caught.value.errors} == {
        f"{tmp_path / 'graph.nnef'} (rendered)"
    }


# -- results of minijinja, from its documentation or from runs


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ true }} {{ false }} {{ none }} {{ net.none }}", "true false none none"),
        ("{{ [1, 'a', true, none, 1.0] }} {{ {'a': 1} }}", '[1, "a", true, none, 1.0] {"a": 1}'),
        ("{{ 1e-5 }} {{ 1e20 }} {{ 0.1 + 0.2 }}", "0.00001 100000000000000000000.0 0.30000000000000004"),
        ("{{ net.eps }} {{ net.scale }} {{ net.layers }}", "0.00001 2.0 3"),
        ("{{ 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 // -2 }} {{ -7 % 2 }} {{ -7 % -2 }}", "2.0 3 -4 4 1 1"),
        ("{{ -1.5 % 1 }} {{ 2 ** 10 }} {{ 4 ** -0.5 }} {{ 9223372036854775807 + 1 }}", "-0.5 1024 0.5 9223372036854775808"),
        ("{{ 'x' ~ 1 ~ true ~ 1.0 }} {{ 'ab' * 2 }} {{ [1] + [2] }}", "x1true1.0 abab [1, 2]"),
        ("{{ nope }}|{{ nope is defined }}|{{ nope | default(3) }}|{{ net.nope | d('x') }}", "|false|3|x"),
        ("{{ 'x' if false }}|{{ 1 if net.causal else 2 }}", "|1"),
        ("{{ range(3) }} {{ range(5, 1, -2) }} {{ 'abcd'[::2] }} {{ [1, 2][-1] }}", "[0, 1, 2] [5, 3] ac 2"),
        ("{% for k, v in net.inner | items %}{{ k }}={{ v }};{% endfor %}", "b=1;a=x;"),
        ("{% for k in net.inner %}{{ k }}{% else %}none{% endfor %}", "ba"),
        ("{% for i in [] %}a{% else %}b{% endfor %}{% for i in nope %}a{% endfor %}", "b"),
        ("{% for i in range(3) if i != 1 %}{{ loop.index }}{{ i }}{{ loop.last }} {% endfor %}", "10false 22true "),
        ("{% for i in [7, 8] %}{{ loop.cycle('a', 'b') }}{{ loop.previtem }}{{ loop.revindex0 }}{% endfor %}", "a1b70"),
        ("{% set ns = namespace(x=1) %}{% for i in range(3) %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}", "4"),
        ("{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}", "1"),
        ("{% macro f(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ f(1) }} {{ f(1, b=3) }} {{ f() }}", "1-2 1-3 -2"),
        ("{% set a %}x{{ 1 }}{% endset %}{{ a }}{% with b = 2 %}{{ b }}{% endwith %}{{ b }}", "x12"),
        ("{% filter upper %}ab{% endfilter %}{% raw %}{{ x }}{% endraw %}{# c #}", "AB{{ x }}"),
        ("{{ 2.5 | round }} {{ -2.5 | round }} {{ 2.345 | round(2) }} {{ 3.9 | int }} {{ '2.5' | float }}", "3.0 -3.0 2.35 3 2.5"),
        ("{{ [3, 1] | sort }} {{ ['b', 'A'] | sort(reverse=true) | join('-') }} {{ [1, 1, 2] | unique | sum }}", "[1, 3] b-A 3"),
        ("{{ [{'a': 1}] | map(attribute='a') | list }} {{ [1, 2] | map('string') | join }}", "[1] 12"),
        ("{{ [2, 1] | max }} {{ [2, 1] | min }} {{ [2, 1] | first }} {{ [2, 1] | last }} {{ 'abc' | length }}", "2 1 2 1 3"),
        ("{{ {'a': [1, none, true]} | tojson }} {{ ' a ' | trim }} {{ 'aba' | replace('a', 'c') }}", '{"a":[1,null,true]} a cbc'),
        ("{{ 3 is odd }} {{ 4 is divisibleby(2) }} {{ 1 in [1, 2] }} {{ 'b' not in 'abc' }} {{ 1 == 1.0 }}", "true true true false true"),
        ("a\n{%- if true %}\n b\n{% endif -%}\nc\n", "a\n b\nc"),
    ],
)  # fmt: skip
def test_templates_render_to_the_expected_text(
    tmp_path: Path, template: str, expected: str
) -> None:
    assert rendered(tmp_path, template) == expected


PART = st.sampled_from(
    ["1", "2.5", "n", "xs[0]", "xs|sum", "(n + 1)", "n * 2", "7 // n", "9 % n", "'a' ~ n", "s|upper",
     "s", "xs|length", "d.k", "(1 if n > 2 else 5)", "xs|join(',')", "s[1:]", "'q' in s", "n in xs",
     "[n, 1]|max", "(xs|first) - 4", "s|replace('q', 'rr')", "n ** 2", "nope|default(n)", "not n"]
)  # fmt: skip


STATEMENTS = [
    "{a}\n{b}",
    "{{% for n in xs %}}{{{{ loop.index }}}}{a}{{% endfor %}}{b}",
    "{{% if n > 3 %}}{a}{{% else %}}{b}{{% endif %}}",
    "{{% set n = n + 1 %}}{a}{{% set n = 4 %}}{b}",
    "{{% macro f(n, s='z') %}}{a}{{% endmacro %}}{{{{ f(6) }}}} {{{{ f(2, s='y') }}}}{b}",
]


def statement(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def made(form: str, a: str, b: str) -> str:
        return form.format(a=a, b=b)

    return st.builds(made, st.sampled_from(STATEMENTS), inner, inner)


def printed(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


@examples(1.5)
@given(
    template=st.recursive(PART.map(lambda part: f"<{{{{ {part} }}}}>"), statement, max_leaves=6),
    xs=st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_random_templates_render_as_by_jinja2(
    tmp_path_factory: pytest.TempPathFactory, template: str, xs: list[int]
) -> None:
    values: dict[str, Any] = {"xs": xs, "n": 3, "s": "qu", "d": {"k": 2}}
    environment = SandboxedEnvironment(finalize=printed)
    expected = environment.from_string(template).render(**values)
    assert rendered(tmp_path_factory.getbasetemp(), template, **values) == expected


# -- errors


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("a\n{{ 1 +", 2),
        ("a\n{% if %}", 2),
        ("\n{% for x in [1] %}\n\n", 2),
        ("\n\n{{ nope.x }}", 3),
        ("\n{{ 1 / 0 }}", 2),
        ("{{ 1 % 0 }}", 1),
        ("{{ 1 +\n'a' }}", 2),
        ("{{ 2 ** 1000 }}", 1),
        ("{{ 10.0 ** 1000 }}", 1),
        ("{{ (-8) ** 0.5 }}", 1),
        ("{{ 'a' < 1 }}", 1),
        ("{{ 1 | nope }}", 1),
        ("{{ 1 is nope }}", 1),
        ("{{ 1 | round(1, 2, 3) }}", 1),
        ("{{ 'x' | int }}", 1),
        ("{{ range(1, 10, 0) }}", 1),
        ("{{ range('a') }}", 1),
        ("{{ [1][::0] }}", 1),
        ("{{ range }}", 1),
        ("{{ nope() }}", 1),
        ("{{ net() }}", 1),
        ("{{ {[1]: 2} }}", 1),
        ("{% for a, b in [[1]] %}{% endfor %}", 1),
        ("{% for a in 5 %}{% endfor %}", 1),
        ("\n{{ " + "9" * 9999 + " }}", 2),
        ("{% macro f() %}\n{{ 1 }}\n{% endmacro %}\n{{ f() + 1 }}", 4),
        ("{% filter nope %}\n\n{{ 1 }}\n{% endfilter %}", 1),
        ("{{ '\\x00' }}", 1),
        ("{{ '\\ud800' }}", 1),
        ("{% for a in [1] recursive %}{% endfor %}", 1),
        ("{% set net.x = 1 %}", 1),
        ("{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", 1),
        ("{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", 1),
        ("{% include 'graph.nnef' %}", 1),
        ("{% extends '/etc/passwd' %}", 1),
        ("{% import 'os' as os %}", 1),
        ("{% block a %}{% endblock %}", 1),
        ("{{ ''.__class__.__mro__ }}", 1),
        ("{{ net.__class__.__init__ }}", 1),
        ("{{ ''['format']('x') }}", 1),
        ("{{ range.__globals__['os'] }}", 1),
        ("{{ namespace.__init__.__globals__ }}", 1),
        ("{{ range(*[3]) }}", 1),
        ("{{ '%1000000000d' | format(1) }}", 1),
        ("{{ 'a' | center(1000000000) }}", 1),
        ("{{ 'a' % 1 }}", 1),
        ("{{ range(1000000) }}", 1),
    ],
)
def test_faults_have_their_line(tmp_path: Path, template: str, line: int) -> None:
    assert fault(tmp_path, template) == ("tract/template", line)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("range(nope)", "'range' takes integers, not undefined ('nope')"),
        ("range(1, net.nope)", "'range' takes integers, not undefined ('nope')"),
        ("range('3')", "'range' takes integers, not a string"),
        ("1 + nope", "'+' is not defined for a number and undefined ('nope')"),
        ("9" * 9999, "a number has thousands of digits"),
    ],
)
def test_faults_say_what_is_wrong(tmp_path: Path, expression: str, said: str) -> None:
    with pytest.raises(NnefError) as caught:
        rendered(tmp_path, f"{{{{ {expression} }}}}")
    assert said in caught.value.errors[0].message


def test_invalid_json_is_an_error_where_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    assert rendered(tmp_path, "{{ net.layers }}") == "3"  # reads no other file
    assert fault(tmp_path, "\n{{ bad.x }}") == ("tract/resource", 2)


# -- templates that would not terminate, or take unbounded memory


@pytest.mark.slow
@pytest.mark.parametrize(
    ("template", "rule"),
    [
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "limit/steps"),
        ("{% for i in range(99999) %}{% for j in range(9) %}{% if j %}{% endif %}{% endfor %}{% endfor %}", "limit/steps"),
        ("{{ 'a' * 1000000000 }}", "limit/items"),
        ("{{ [0] * 1000000000 }}", "limit/items"),
        ("{{ ['a' * 1000000] * 1000 }}", "limit/items"),
        ("{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", "limit/items"),
        ("{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}", "limit/items"),
        ("{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}", "limit/steps"),
        ("{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}", "limit/steps"),
        ("{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}{{ ns.x == [ns.x] or 'x' ~ ns.x }}", "limit/steps"),
        ("{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}", "limit/steps"),
        ("{% set s = 'a' * 1000000 %}{% for i in range(99) %}{{ 'b' in s }}{% endfor %}", "limit/items"),
        ("{% set s = 'a' * 1000000 %}{% for i in range(99) %}{{ s | replace('a', s) }}{% endfor %}", "limit/items"),
        ("{% set s = 'a' * 1000000 %}{% for i in range(99) %}{% set t = s | join('bb') %}{% endfor %}", "limit/items"),
        ("{% set s = 'a' * 1000000 %}{% for i in range(999) %}{{ s }}{% endfor %}", "limit/size"),
        ("{% set ns = namespace(x=[1]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}", "limit/recursion"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "limit/recursion"),
        ("{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}", "limit/recursion"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "limit/recursion"),
        ("{{ " + "1 + " * 5000 + "1 }}", "limit/recursion"),
        ("{{ 1" + " | abs" * 5000 + " }}", "limit/recursion"),
        ("{{ net" + ".a" * 5000 + " }}", "limit/recursion"),
        ("{% if 1 %}" * 3000 + "{% endif %}" * 3000, "limit/recursion"),
    ],
)  # fmt: skip
def test_all_templates_terminate(tmp_path: Path, template: str, rule: str) -> None:
    assert fault(tmp_path, template)[0] == rule


def test_memory_is_charged_before_allocation(tmp_path: Path) -> None:
    text = "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"
    tracemalloc.start()
    try:
        assert fault(tmp_path, text)[0] == "limit/items"
        assert fault(tmp_path, "{{ [0] * 1000000000 }}")[0] == "limit/items"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50 << 20


def test_limits_can_be_raised(tmp_path: Path) -> None:
    template = "{% for i in range(1000) %}{{ i }}{% endfor %}"
    assert fault(tmp_path, template, steps=100) == ("limit/steps", 1)
    assert fault(tmp_path, template, document_bytes=100)[0] == "limit/size"
    assert fault(tmp_path, template, steps=4) == ("limit/steps", 1)  # to make a tree of it
    assert fault(tmp_path, "{{ 'ab' * 100 }}", items=100) == ("limit/items", 1)
    assert len(rendered(tmp_path, template, Limits(steps=10_000))) == 2890


@pytest.mark.slow
def test_damaged_templates_render_or_are_errors(tmp_path: Path) -> None:
    random = Random(3)
    source = GRAPH.encode()
    write(tmp_path)
    refused = 0
    limits = Limits(items=100_000, steps=20_000, document_bytes=1 << 20)
    with open_container(tmp_path) as container:
        for _ in range(1000):
            text = mutate(source, random).decode(errors="replace")
            try:
                render(text, "t.nnef", container, limits)
            except NnefError as error:
                refused += 1
                assert all(each.line for each in error.errors)
    assert refused > 100
