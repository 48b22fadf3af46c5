"""Layer and RMS normalisations, in all usual forms, become one operation."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nnefc.frontends.nnef.import_model import import_text
from nnefc.ir import Graph, print_graph
from nnefc.ops.tools.reference import evaluate
from nnefc.options.import_config import ImportConfig
from nnefc.passes.pipeline import run_pipeline, verify_hook
from tests.helpers.examples import examples

HEAD = "version 1.0; extension KHR_enable_operator_expressions;"

CENTRED = (
    "(m, v) = moments(x, axes = {axes}); d = x - m;",
    "m = mean_reduce(x, axes = {axes}); d = x - m; v = mean_reduce(d * d, axes = {axes});",
    "m = mean_reduce(x, axes = {axes}); d = x - m; v = mean_reduce(pow(d, 2.0), axes = {axes});",
    "m = sum_reduce(x, axes = {axes}) / {count}; d = x - m;"
    " v = sum_reduce(sqr(d), axes = {axes}) / {count};",
    "m = mean_reduce(x, axes = {axes}); d = x - m; v = mean_reduce(x * x, axes = {axes}) - m * m;",
    "m = mean_reduce(x, axes = {axes}); d = x - m;"
    " v = max(0.0, mean_reduce(x ^ 2.0, axes = {axes}) - sqr(m));",
)
RMS = ("d = x; v = mean_reduce(sqr(x), axes = {axes});",)
QUOTIENTS = (
    "y = d / sqrt(v + {e});",
    "y = d / sqrt({e} + v) * s + o;",
    "y = o + s * (d * rsqrt(v + {e}));",
    "y = tanh(d * (rsqrt(v + {e}) * s) + o);",
    "y = (s * d) / sqrt(v + {e}) - o;",
    "y = d * (s / sqrt(v + {e}));",
    "y = d * pow(v + {e}, -0.5) / s;",
    "y = d * (1.0 / pow(v + {e}, 0.5));",
)
ONLY_CENTRED = (
    "f = rsqrt(v + {e}) * s; y = x * f + (o - m * f);",
    "f = rsqrt(v + {e}); y = (o - m * f) + f * x;",
    "y = batch_normalization(x, m, v, o, s, epsilon = {e});",
)
NEEDED = ("", "z = exp(x);", "z = exp(m);", "z = exp(v);", "z = exp(d);", "z = copy(m);")


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, bool]:
    """(a document over x, s, o, whether it becomes one operation)"""
    shape = draw(st.lists(st.integers(2, 5), min_size=1, max_size=4))
    axes = sorted(draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    centred = draw(st.booleans())
    statistics = draw(st.sampled_from(CENTRED if centred else RMS))
    quotient = draw(st.sampled_from(QUOTIENTS + (ONLY_CENTRED if centred else ())))
    needed = draw(st.sampled_from(NEEDED if centred else NEEDED[:2]))
    broadcast = [[draw(st.sampled_from([1, n])) for n in shape] for _ in "so"]
    count = float(math.prod(shape[axis] for axis in axes))
    text = f"""
        x = external(shape = {shape});
        s = external(shape = {broadcast[0]}); o = external(shape = {broadcast[1]});
        {statistics.format(axes=axes, count=count)} {quotient.format(e=0.25)} {needed}
    """
    outputs = "y, z" if needed else "y"
    # The rule for powers does not recognise the last statistics as non-negative.
    is_power = statistics in CENTRED[4:] and "pow" in quotient
    is_fused = needed in NEEDED[:2] and not is_power
    return f"{HEAD} graph g(x, s, o) -> ({outputs}) {{ {text} }}", is_fused


def _import(text: str) -> Graph:
    return import_text(text, config=ImportConfig(scalar="float64"))


@examples(2)
@given(documents())
def test_usual_forms_are_fused_and_results_do_not_change(document: tuple[str, bool]) -> None:
    text, alone = document
    graph = _import(text)
    rng = np.random.default_rng(1)
    inputs = {v.name: rng.uniform(0.5, 2.0, v.type.dims) for v in graph.inputs}
    want = evaluate(graph, inputs).outputs
    run_pipeline(graph, hook=verify_hook)
    names = [op.name for op in graph.ops]
    made = sum(name.endswith("mean_variance_normalization") for name in names)
    assert made == alone, print_graph(graph)
    assert not (alone and "sum_reduce" in names)
    got = evaluate(graph, inputs).outputs
    for name, items in want.items():
        np.testing.assert_allclose(got[name], items, 1e-9, 1e-9, err_msg=print_graph(graph))


def test_sums_with_a_product_are_fused_with_the_product() -> None:
    """The sum of a normalisation and a product is an epilogue of the product."""
    graph = _import(
        f"""{HEAD} graph g(x, w) -> (y) {{
            x = external(shape = [3, 4]); w = external(shape = [4, 4]);
            (m, v) = moments(x, axes = [1]); y = (x - m) / sqrt(v + 0.1) + matmul(x, w); }}"""
    )
    run_pipeline(graph, hook=verify_hook)
    names = [op.name for op in graph.ops if op.name != "constant"]
    assert names == ["mean_variance_normalization", "fused_matmul"]
