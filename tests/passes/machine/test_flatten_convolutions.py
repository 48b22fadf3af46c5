"""Convolutions of one window become products with equal values; the oracle is in float64."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.ir import DType, Graph, TensorType, Value, print_graph
from nnefc.ir.verify import check
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.verify import rule_problems
from nnefc.options.import_config import ImportConfig
from nnefc.passes.machine.flatten_convolutions import FlattenConvolutions
from nnefc.support.errors import NnefError
from tests.helpers.examples import examples
from tests.helpers.graphs.random_graphs import sample_inputs


def _conv(graph: Graph, x: Value, rng: random.Random) -> Value:
    """A convolution; most windows cover the whole image, with or without padding."""
    _, channels, *extents = x.type.dims
    groups = rng.choice((1, 1, 1, channels))
    around = [(rng.choice((0, 0, 1)), rng.choice((0, 0, 2))) for _ in extents]
    size = [n + sum(p) for n, p in zip(extents, around)]
    if rng.random() < 0.3:
        size = [rng.randint(1, n) for n in size]
    dilation = tuple(rng.choice((1, 1, 2)) if n == 1 else 1 for n in extents)
    attributes: dict[str, Any] = {
        "padding": rng.choice((tuple(around),) * 3 + ((),)),
        "stride": rng.choice(((), tuple(size))),
        "dilation": dilation,
        "border": rng.choice(("constant",) * 4 + ("replicate", "reflect")),
        "groups": groups,
    }
    outputs = groups * rng.randint(1, 3)
    operands = [x]
    shapes = [(outputs, channels // groups, *size)]
    shapes += rng.choice(([], [()], [(outputs,)], [(1, outputs)], [(1, outputs, 1)]))
    for shape in shapes:
        type_ = TensorType(x.type.dtype, shape)
        operands.append(graph.add_input(type_, f"w{len(graph.inputs)}"))
    return build(graph, "conv", operands, attributes).output


def _elementwise(graph: Graph, x: Value, rng: random.Random) -> Value:
    dims = x.type.dims
    name = rng.choice(("relu", "sigmoid", "add", "mul", "min"))
    if name in ("relu", "sigmoid"):
        return build(graph, name, [x]).output
    shape = rng.choice((dims, dims[:1], dims[:2], (1, *dims[1:]), (), (*dims[:2], 2, *dims[3:])))
    if rng.random() < 0.3:
        attributes = {"shape": (1,) * len(shape), "value": (0.5,)}
        other = build(graph, "constant", [], attributes, dtype=x.type.dtype).output
    else:
        other = graph.add_input(TensorType(x.type.dtype, shape), f"z{len(graph.inputs)}")
    operands = [x, rng.choice((x, other, other, other))]
    rng.shuffle(operands)
    return build(graph, name, operands).output


def _graph(seed: int, dtype: DType = DType.FLOAT64) -> Graph:
    rng = random.Random(seed)
    graph = Graph("g")
    extents = [rng.choice((1, 1, 2, 3)) for _ in range(rng.randint(1, 3))]
    type_ = TensorType(dtype, (rng.randint(1, 3), rng.randint(1, 3), *extents))
    values = [graph.add_input(type_, "x")]
    for _ in range(rng.randint(1, 6)):
        make = rng.choice((_conv, _elementwise, _elementwise))
        try:
            values.append(make(graph, rng.choice(values[-2:]), rng))
        except NnefError:  # a window that does not fit
            continue
    graph.add_output(values[-1], "y")
    graph.add_output(rng.choice(values), "also")
    return graph


def _close(graph: Graph, expected: dict[str, Any], tolerance: float, text: str) -> None:
    found = evaluate(graph, sample_inputs(graph)).outputs
    for name, want in expected.items():
        np.testing.assert_allclose(found[name], want, tolerance, tolerance, err_msg=text)


@given(st.integers(0, 2**32 - 1))
@examples(3)
def test_flattening_preserves_values(seed: int) -> None:
    graph = _graph(seed)
    text = print_graph(graph)
    before = evaluate(graph, sample_inputs(graph)).outputs
    names = {v.name for v in graph.inputs}
    changed = FlattenConvolutions().run(graph)
    after = print_graph(graph)
    assert changed == (after != text)
    assert {v.name for v in graph.inputs} == names
    check(graph, rule_problems, after="flatten_convolutions")
    _close(graph, before, 1e-12, f"{text}\n{after}")
    assert not FlattenConvolutions().run(graph)


def test_many_convolutions_are_flattened() -> None:
    counts = [0, 0]
    for seed in range(300):
        graph = _graph(seed)
        counts[0] += sum(op.name == "conv" for op in graph.ops)
        FlattenConvolutions().run(graph)
        counts[1] += sum(op.name == "conv" for op in graph.ops)
    assert counts[1] < 0.6 * counts[0]


_HEAD = """
version 1.0;
graph head( x ) -> ( y )
{
    x = external<scalar>(shape = [3, 5, 5, 6]);
    w1 = variable<scalar>(shape = [20, 5, 3, 3], label = 'w1');
    w2 = variable<scalar>(shape = [33, 20, 7, 6], label = 'w2');
    w3 = variable<scalar>(shape = [20, 33, 1, 1], label = 'w3');
    b = variable<scalar>(shape = [1, 33], label = 'b');
    s = variable<scalar>(shape = [1, 33], label = 's');
    f = relu(conv(x, w1, 0.1));
    g = relu(mul(conv(f, w2, b, padding = [(1, 1), (0, 0)]), s));
    y = mul(f, sigmoid(conv(g, w3)));
}
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_products_between_blocked_convolutions(threads: int) -> None:
    """One window reads a blocked tensor, one gates it, and a factor is folded into a filter."""
    from nnefc.frontends.nnef import import_text

    graph = import_text(_HEAD, config=ImportConfig(random_weights=3))
    inputs = {"x": np.random.default_rng(0).standard_normal((3, 5, 5, 6), np.float32)}
    expected = evaluate(graph, inputs).outputs["y"]
    model = nnefc.compile(graph, threads=threads)
    assert sum("matmul" in launch.kernel for launch in model.launches) == 2
    found = model.run(inputs)["y"]
    np.testing.assert_allclose(found, expected, 1e-4, 1e-4 * float(np.abs(expected).max()))
