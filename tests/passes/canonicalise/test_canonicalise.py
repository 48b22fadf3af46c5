"""Canonicalisation of borders and windows preserves values; the oracle is in float64."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Graph, TensorType, Value, print_graph
from nnefc.ir.verify import check
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.canonicalise.canonicalise import Canonicalise
from nnefc.passes.cleanup.eliminate_dead_code import EliminateDeadCode
from nnefc.support.errors import NnefError
from tests.helpers.examples import examples
from tests.helpers.graphs.random_graphs import sample_inputs


def _pad(graph: Graph, x: Value, rng: random.Random) -> Value:
    amounts = rng.choice(((0,), (0, 1), (0, 1, 2), (-1, 0, 1)))
    spatial = [(rng.choice(amounts), rng.choice(amounts)) for _ in x.type.dims[2:]]
    outer = [(0, rng.choice((0, 0, 0, 0, 1))) for _ in range(2)]
    attributes: dict[str, Any] = {
        "padding": (*outer, *spatial),
        "border": rng.choice(("constant",) * 4 + ("replicate",)),
        "value": rng.choice((0.0, 0.0, 0.0, 1.0)),
    }
    return build(graph, "pad", [x], attributes).output


def _window(graph: Graph, x: Value, rng: random.Random) -> Value:
    dims = x.type.dims
    name = rng.choice(("conv", "box", "max_pool"))
    first = 2 if name == "conv" else 0
    size = [rng.choice((1, 2, 3, dims[d])) if d > 1 else 1 for d in range(first, len(dims))]
    padding = tuple((rng.choice((0, 0, 1)), rng.choice((0, 0, 1))) for _ in size)
    attributes: dict[str, Any] = {
        "padding": rng.choice(((), padding, ((0, 0),) * len(size))),
        "stride": rng.choice(((), (1,) * len(size), tuple(size), (2,) * len(size))),
        "dilation": rng.choice(((), (), (2,) * len(size))),
    }
    if name == "conv":
        type_ = TensorType(DType.FLOAT64, (2, dims[1], *size))
        filter_ = graph.add_input(type_, f"w{len(graph.inputs)}")
        attributes["border"] = rng.choice(("constant", "constant", "reflect"))
        return build(graph, "conv", [x, filter_], attributes).output
    attributes |= {"size": tuple(size), "border": rng.choice(("constant", "ignore", "replicate"))}
    if name == "box":
        attributes["normalize"] = rng.random() < 0.5
    return build(graph, name, [x], attributes).output


def _slice(graph: Graph, x: Value, rng: random.Random) -> Value:
    axes = tuple(d for d, n in enumerate(x.type.dims) if n > 1 and rng.random() < (d > 1 or 0.1))
    ends = (rng.choice((0, 0, -1)) for _ in axes)
    attributes = {"axes": axes, "begin": tuple(rng.choice((0, 0, 1)) for _ in axes)}
    return build(graph, "slice", [x], {**attributes, "end": tuple(ends)}).output


def _graph(seed: int) -> Graph:
    rng = random.Random(seed)
    graph = Graph("g")
    extents = tuple(rng.randint(2, 5) for _ in range(rng.randint(1, 2)))
    type_ = TensorType(DType.FLOAT64, (rng.randint(1, 2), rng.randint(1, 2), *extents))
    value = graph.add_input(type_, "x")
    for _ in range(rng.randint(2, 5)):
        try:
            value = rng.choice((_pad, _window, _window, _slice))(graph, value, rng)
        except NnefError:  # a window that does not fit
            continue
    graph.add_output(value, "y")
    return graph


@given(st.integers(0, 2**32 - 1))
@examples(2)
def test_canonicalisation_preserves_values(seed: int) -> None:
    graph = _graph(seed)
    text = print_graph(graph)
    inputs = sample_inputs(graph)
    before = evaluate(graph, inputs).outputs["y"]
    changed = Canonicalise().run(graph)
    after = print_graph(graph)
    assert changed == (after != text)
    check(graph, rule_problems, after="canonicalise")
    found = evaluate(graph, inputs).outputs["y"]
    np.testing.assert_allclose(found, before, 1e-12, 1e-12, err_msg=f"{text}\n{after}")
    assert not Canonicalise().run(graph)


def test_slices_of_convolutions_become_less_padding() -> None:
    """A causal convolution that is padded on both sides and cut at the end."""
    graph = Graph("g")
    x = graph.add_input(TensorType(DType.FLOAT32, (1, 4, 20)), "x")
    w = graph.add_input(TensorType(DType.FLOAT32, (8, 4, 3)), "w")
    attributes: dict[str, Any] = {"border": "constant", "padding": ((8, 8),), "dilation": (4,)}
    wide = build(graph, "conv", [x, w], attributes).output
    cut = build(graph, "slice", [wide], {"axes": (2,), "begin": (0,), "end": (-8,)})
    graph.add_output(cut.output, "y")
    assert Canonicalise().run(graph)
    EliminateDeadCode().run(graph)
    assert [op.attributes["padding"] for op in graph.ops if op.name == "conv"] == [((8, 0),)]
    assert not [op for op in graph.ops if op.name == "slice"]

    used_twice = Graph("g")
    x = used_twice.add_input(x.type, "x")
    w = used_twice.add_input(w.type, "w")
    wide = build(used_twice, "conv", [x, w], attributes).output
    for end in (-8, -4):
        cut = build(used_twice, "slice", [wide], {"axes": (2,), "begin": (0,), "end": (end,)})
        used_twice.add_output(cut.output, f"y{end}")
    assert not Canonicalise().run(used_twice)


def test_many_borders_are_merged() -> None:
    counts = [0, 0]
    for seed in range(300):
        graph = _graph(seed)
        counts[0] += sum(op.name == "pad" for op in graph.ops)
        Canonicalise().run(graph)
        EliminateDeadCode().run(graph)
        counts[1] += sum(op.name == "pad" for op in graph.ops)
    assert counts[1] < 0.8 * counts[0]
