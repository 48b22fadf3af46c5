"""Hostile and broken documents only raise NnefError, in bounded time."""

from __future__ import annotations

import contextlib
import time
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.limits import Limits
from nnefc.syntax.lexer import decode
from nnefc.syntax.parser import parse, parse_quantization
from nnefc.syntax.printer import print_document
from tests.helpers.event_counts import calls
from tests.helpers.examples import examples
from tests.helpers.nnef.random_documents import Trees, mutate, plain_document, same

EXTENSIONS = """version 1.0;
extension KHR_enable_fragment_definitions;
extension KHR_enable_operator_expressions;
"""
RANDOMS = st.randoms(use_true_random=False)


def with_value(value: str) -> str:
    return f"{EXTENSIONS}graph g( x ) -> ( y ) {{ y = {value}; }}"


@given(RANDOMS)
def test_khronos_agrees_on_plain_documents(random: Random) -> None:
    nnef = pytest.importorskip("nnef")
    text = plain_document(random)
    try:
        nnef.parse_string(text.replace("\f", "\n"))  # it does not end comments at form feeds
    except nnef.Error as error:
        pytest.fail(f"{error}: {text!r}")
    document = parse(text)
    assert same(parse(print_document(document)), document)


@given(RANDOMS)
def test_refusals_of_khronos_in_plain_documents(random: Random) -> None:
    """A token taken out of a plain document is a syntax error for both, or for neither.

    Identifiers stay: without one the mistake may be one of meaning.
    """
    nnef = pytest.importorskip("nnef")
    text = plain_document(random).replace("\f", "\n")
    places = [i for i, c in enumerate(text) if c in "(){}[];=,"]
    i = random.choice(places)
    broken = text[:i] + " " + text[i + 1 :]
    try:
        nnef.parse_string(broken)
        accepts = True
    except nnef.Error:
        accepts = False
    try:
        parse(broken)
    except NnefError:
        assert not accepts, broken
    else:
        # a bracket less may leave a document that is wrong in its types only
        assert accepts or text[i] in "[](),", broken


def work_of(text: str) -> int:
    """The number of calls to parse a text, valid or not."""

    def read() -> None:
        with contextlib.suppress(NnefError):
            parse(text, diagnostics=Diagnostics())

    return calls(read)


@given(RANDOMS, st.booleans())
@examples(1.5)
def test_mutated_documents_parse_or_are_errors_in_linear_time(random: Random, plain: bool) -> None:
    text = plain_document(random) if plain else print_document(Trees(random).document())
    text = mutate(random, text)
    try:
        document = parse(text, diagnostics=Diagnostics())
    except NnefError as error:
        assert error.errors
        for diagnostic in error.errors:
            assert diagnostic.place is not None or diagnostic.rule == "limit/errors"
            assert 0 <= diagnostic.line <= text.count("\n") + text.count("\r") + 1
            assert diagnostic.message
    else:
        assert same(parse(print_document(document)), document)
    assert work_of(text) < 50 * len(text) + 5_000


@given(st.binary(max_size=200) | RANDOMS.map(lambda r: mutate(r, plain_document(r)).encode()))
def test_any_bytes_parse_or_are_errors(data: bytes) -> None:
    try:
        text = decode(data, "f")
        parse(text)
    except NnefError as error:
        assert error.errors


@given(RANDOMS)
def test_mutated_quantization_files_parse_or_are_errors(random: Random) -> None:
    text = '"x": linear_quantize(min = -1.0, max = [1.0, 2.0], bits = 8);\n' * 2
    try:
        parse_quantization(mutate(random, text))
    except NnefError as error:
        assert error.errors


NESTED = {
    "parentheses": "({})",
    "arrays": "[{}]",
    "tuples": "(1, {})",
    "invocations": "f({})",
    "named arguments": "f(x, a = {})",
    "minus": "-{}",
    "not": "!{}",
    "subscripts": "{}[0]",
    "ranges": "{}[0:]",
    "indices": "x[{}]",
    "values": "({}) if c else y",
    "conditions": "y if {} else z",
    "else": "y if c else {}",
    "comprehensions": "[for i in {} yield i]",
    "items": "[for i in x yield {}]",
    "right operands": "x - ({})",
    "precedence": "a in b && c < d + e * f ^ ({})",
    "builtins": "length_of({})",
    "mixed": "-[for i in (f({})[0] if -c else d) yield i]",
}


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("depth", [300, 5000])
def test_deep_nesting_is_an_error(kind: str, depth: int) -> None:
    before, after = NESTED[kind].split("{}")
    with pytest.raises(NnefError) as caught:
        parse(with_value(before * depth + "x" + after * depth))
    assert [e.rule for e in caught.value.errors] == ["limit/nesting"]


@pytest.mark.parametrize("kind", NESTED)
def test_nesting_within_the_limit(kind: str) -> None:
    before, after = NESTED[kind].split("{}")
    is_simple = kind in ("parentheses", "arrays", "tuples", "invocations", "minus", "subscripts")
    depth = 190 if is_simple else 20
    document = parse(with_value(before * depth + "x" + after * depth))
    assert same(parse(print_document(document)), document)


def test_the_limit_can_be_moved() -> None:
    text = with_value("(" * 20 + "x" + ")" * 20)
    parse(text)
    with pytest.raises(NnefError, match="more than 10 levels"):
        parse(text, limits=Limits(nesting=10))


def test_trees_beyond_the_default_limit_can_be_printed() -> None:
    document = parse(with_value("f(" * 3000 + "x" + ")" * 3000), limits=Limits(nesting=4000))
    assert print_document(document).count("f(") == 3000


def test_unlimited_nesting_is_an_error() -> None:
    text = with_value("[" * 100_000)
    with pytest.raises(NnefError) as caught:
        parse(text, limits=Limits(nesting=1 << 60))
    assert caught.value.errors[0].rule == "limit/nesting"


@pytest.mark.parametrize(
    "declaration",
    [
        "x: " + "(" * 10_000 + "integer",
        "x: integer" + "[]" * 10_000,
        "x: scalar = " + "[" * 10_000,
    ],
)
def test_deep_types_and_defaults(declaration: str) -> None:
    text = f"{EXTENSIONS}fragment f( {declaration} ) -> ( y: tensor<scalar> );"
    with pytest.raises(NnefError) as caught:
        parse(text)
    assert [e.rule for e in caught.value.errors] == ["limit/nesting"]


def test_deeply_nested_targets_are_an_error() -> None:
    text = f"{EXTENSIONS}graph g( x ) -> ( y ) {{ {'[' * 10_000} = f(x); }}"
    with pytest.raises(NnefError) as caught:
        parse(text)
    assert [e.rule for e in caught.value.errors] == ["limit/nesting"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "/*" * 25_000,
        "'" * 25_001,
        "'\\" * 25_000,
        "'a\n" * 12_000,
        "1." * 25_000,
        "1e+" * 12_000,
        "$" * 25_000,
        "$ " * 25_000,
        "é" * 25_000,
        "/* *" * 12_000,
        "f(" * 25_000,
        "f<" * 25_000,
        "x" * 300_000,
        "9" * 300_000,
        "9" * 300_000 + ".5e" + "9" * 25_000,
        "\n" * 300_000,
        ";" * 25_000,
        "}" * 25_000,
        "graph " * 12_000,
        "fragment f " * 7_000,
        "extension " * 12_000,
        "extension a " * 7_000,
        "extension a; " * 7_000,
        "extension a > 0; " * 7_000,
        "x = " * 12_000,
        "x, " * 12_000,
        "x in " * 12_000,
        "a if b " * 25_000,
    ],
)
def test_no_text_takes_long(text: str) -> None:
    for whole in (text, EXTENSIONS + text, with_value(text)):
        begin = time.process_time()
        with contextlib.suppress(NnefError):
            parse(whole)
        assert time.process_time() - begin < 5  # more, if patterns were tried again and again
        assert work_of(whole) < 50 * len(whole) + 5_000


GRAPH = "graph g( x ) -> ( y ) { x = external(shape = [1]); y = relu(x); }"


@pytest.mark.parametrize(
    "before",
    [
        "extension a;\n",
        "extension a > $;\n",
        "extension a, if b;\n",
        "extension 'a' > 'é';\n",
    ],
)
def test_many_findings_hide_no_error(before: str) -> None:
    """Many warnings, or findings that an extension revokes, may precede the error."""
    found = Diagnostics()
    with pytest.raises(NnefError) as error:
        parse("version 1.0;\n" + 300 * before + GRAPH.replace("relu(x)", "relu($)"))
    assert error.value.errors
    with contextlib.suppress(NnefError):
        parse("version 1.0;\n" + 300 * before + GRAPH.replace("y =", "y =="), diagnostics=found)
        pytest.fail("no error")
    assert found.errors
    with pytest.raises(NnefError, match=r"no graph|more than 100"):
        parse("version 1.0;\n" + 300 * before)


def test_warnings_hide_no_error() -> None:
    labels = "".join(f"v{i} = variable(shape = [1], label = 'é{i}');" for i in range(300))
    text = "version 1.0;\n" + GRAPH.replace("y =", f"{labels} y =").replace("relu(x)", "relu($)")
    with pytest.raises(NnefError, match="'\\$'"):
        parse(text)


@pytest.mark.slow
def test_long_chains_of_operators_parse_and_print() -> None:
    operators = ["+", "-", "*", "&&", "==", "in"]
    value = "x" + "".join(f" {operators[i % 6]} x" for i in range(20_000))
    document = parse(with_value(value))
    assert same(parse(print_document(document)), document)


def test_size_is_limited() -> None:
    with pytest.raises(NnefError, match="document_bytes"):
        parse("x" * 100, limits=Limits(document_bytes=10))


@pytest.mark.slow
def test_flat_graphs_take_linear_time() -> None:

    def work(count: int) -> int:
        lines = [
            f"    t{i + 1} = conv(t{i}, w, padding = [(1,1), (1,1)], border = 'constant');\n"
            for i in range(count)
        ]
        text = f"version 1.0;\ngraph g( t0 ) -> ( t{count} )\n{{\n" + "".join(lines) + "}\n"
        assert len(parse(text).graph.body) == count
        return calls(lambda: parse(text))

    assert work(2000) < 2.1 * work(1000)
