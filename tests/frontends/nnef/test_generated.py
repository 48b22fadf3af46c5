"""Random fragments give a valid graph or an error with a position."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from nnefc.frontends.nnef import import_text
from nnefc.frontends.nnef.flatten import flatten
from nnefc.ir.compare import difference
from nnefc.ir.verify import verify
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits
from tests.helpers.nnef.text import HEAD

LIMITS = Limits(recursion=100, steps=50_000)

SHAPES = {
    "tensor": [
        "({tensor} + {tensor})", "({tensor} * {tensor})", "-{tensor}", "relu({tensor})",
        "({tensor} if {logical} else {tensor})", "{tensors}[{integer}]", "add_n({tensors})",
        "f({tensor}, k = {integers}, n = {integer})", "max_reduce({tensor}, axes = {integers})",
        "select({tensor} > {tensor}, {tensor}, 0.0)", "h({tensor}, v = {scalar})",
        "h<?>({tensor}, v = {scalar})", "u({tensor})", "scalar({integer})",
        "constant(shape = {integers}, value = [{scalar}])", "concat({tensors}, axis = {integer})",
    ],
    "tensors": [
        "[{tensor}, {tensor}]", "[for i in {integers} yield {tensor}]", "({tensors} + {tensors})",
        "([{tensor}] * {integer})", "[for v in {tensors} yield v * {tensor}]",
    ],
    "integer": [
        "({integer} + {integer})", "({integer} / {integer})", "length_of({integers})",
        "{integers}[0]", "integer({scalar})", "({integer} if {logical} else {integer})",
    ],
    "integers": [
        "[{integer}]", "range_of({integers})", "{integers}[1:]", "shape_of({tensor})",
        "[for i in {integers} if {logical} yield i - {integer}]", "({integers} + {integers})",
    ],
    "scalar": ["scalar({integer})", "({scalar} / {scalar})", "(1.0 if {logical} else {scalar})"],
    "logical": [
        "({integer} < {integer})", "!({logical})", "({logical} && {logical})",
        "({integer} in {integers})", "(string({scalar}) == '1.0')",
    ],
}  # fmt: skip

LEAVES = {
    "tensor": ["x", "t", "1.5"],
    "tensors": ["[x]", "[]"],
    "integer": ["n", "0", "1"],
    "integers": ["k", "[0]", "[]"],
    "scalar": ["0.5", "2.0"],
    "logical": ["true", "false"],
}


def expression(kind: str, depth: int, choose: random.Random) -> str:
    """An expression of a kind; now and then of another, so that errors occur too."""
    if choose.random() < 0.01:
        kind = choose.choice(list(LEAVES))
    if depth == 0:
        return choose.choice(LEAVES[kind])
    parts = {k: _Part(k, depth - 1, choose) for k in LEAVES}
    return choose.choice(SHAPES[kind]).format(**parts)


class _Part:
    """A new expression each time that it is formatted."""

    def __init__(self, kind: str, depth: int, choose: random.Random) -> None:
        self._make: Callable[[], str] = lambda: expression(kind, depth, choose)

    def __format__(self, spec: str) -> str:
        return self._make()


def document(choose: random.Random) -> str:
    body = expression("tensor", choose.randint(1, 4), choose)
    custom = choose.choice([";", " { y = sqr(x); }"])
    generic = choose.choice(["x", "v", "select(true, x, v)", "copy<?>(v)"])
    return f"""{HEAD}
fragment f( x: tensor<scalar>, k: integer[], n: integer ) -> ( y: tensor<scalar> )
{{ t = neg(x); y = {body} if n > 0 else x; }}
fragment h<?>( x: tensor<?>, v: ? ) -> ( y: tensor<?> ) {{ y = {generic}; }}
fragment u( x: tensor<scalar> ) -> ( y: tensor<scalar> ){custom}
graph g( x ) -> ( y )
{{
    x = external(shape = [2,3]);
    t = h(x, v = 1.0);
    y = f(t, k = {choose.choice(["[]", "[0]", "[0,1]"])}, n = {choose.choice("012")});
}}
"""


@pytest.mark.parametrize("seed", range(8))
def test_random_fragments_give_a_valid_graph_or_an_error(seed: int) -> None:
    accepted = 0
    for number in range(80):
        text = document(random.Random(1000 * seed + number))
        try:
            graph = import_text(text, config=ImportConfig(chosen_limits=LIMITS))
        except NnefError as error:
            assert error.errors
            assert all(e.line for e in error.errors), text
            assert not any(e.rule.startswith(("syntax", "internal")) for e in error.errors), text
            continue
        accepted += 1
        assert not verify(graph), text
        assert difference(graph, import_text(flatten(graph))) is None, text
    assert accepted > 10
