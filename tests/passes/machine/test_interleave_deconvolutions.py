"""Deconvolutions with few channels become convolutions with equal values, against float64."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.ir import DType, Graph, TensorType, print_graph
from nnefc.ir.verify import check
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.machine.interleave_deconvolutions import InterleaveDeconvolutions
from nnefc.support.errors import NnefError
from tests.helpers.examples import examples
from tests.helpers.graphs.random_graphs import sample_inputs


def _graph(seed: int) -> Graph:
    """A deconvolution with a known filter, for which the rewrite mostly pays."""
    rng = random.Random(seed)
    graph = Graph("g")
    items = np.random.default_rng(seed)
    rank, channels, few = (
        rng.choice((1, 1, 2, 2, 3, 4)),
        rng.choice((8, 9, 16)),
        rng.choice((1, 1, 2, 3, 4, 5)),
    )
    extents = [rng.randint(1, 4 if rank < 4 else 2) for _ in range(rank)]
    size = [rng.randint(1, 7 if rank == 1 else 4) for _ in range(rank)]
    stride = tuple(rng.choice((1, 2, 2, 3, 4)) for _ in range(rank))
    batch = rng.randint(1, 2)
    padding = tuple((rng.randint(0, 2), rng.randint(0, 2)) for _ in range(rank))
    attributes: dict[str, Any] = {
        "stride": stride,
        "padding": rng.choice((padding, padding, ())),
        "dilation": rng.choice(((),) * 4 + ((2,) * rank,)),
        "groups": 1,
    }
    if attributes["padding"] and not attributes["dilation"] and rng.random() < 0.3:
        window = zip(extents, stride, size, padding)
        least = [(n - 1) * s + k - sum(p) for n, s, k, p in window]
        longer = [n + rng.randrange(s) for n, s in zip(least, stride)]
        attributes["output_shape"] = (batch, few, *longer)

    def constant(*shape: int) -> Any:
        value = items.standard_normal(shape)
        made = {"shape": shape, "value": value}
        return build(graph, "constant", [], made, dtype=DType.FLOAT64).output

    x = graph.add_input(TensorType(DType.FLOAT64, (batch, channels, *extents)), "x")
    operands = [x, constant(channels, few, *size)]
    bias: list[tuple[int, ...]] = [(), (1, 1), (few,), (1, few)]
    operands += [constant(*shape) for shape in rng.choice([[], *([shape] for shape in bias)])]
    graph.add_output(build(graph, "deconv", operands, attributes).output, "y")
    return graph


@given(st.integers(0, 2**32 - 1))
@examples(3)
def test_interleaving_preserves_values(seed: int) -> None:
    try:
        graph = _graph(seed)
    except NnefError:  # nothing is left of the result
        return
    text = print_graph(graph)
    inputs = sample_inputs(graph)
    expected = evaluate(graph, inputs).outputs["y"]
    changed = InterleaveDeconvolutions().run(graph)
    assert changed == (print_graph(graph) != text)
    check(graph, rule_problems, after="interleave_deconvolutions")
    found = evaluate(graph, inputs).outputs["y"]
    np.testing.assert_allclose(found, expected, 1e-12, 1e-12, err_msg=text)
    assert not InterleaveDeconvolutions().run(graph)


def test_many_deconvolutions_are_replaced() -> None:
    gone = made = 0
    for seed in range(300):
        try:
            graph = _graph(seed)
        except NnefError:
            continue
        made += 1
        gone += InterleaveDeconvolutions().run(graph)
    assert gone > 0.2 * made


@pytest.mark.parametrize("cut", [0, 3])
def test_dynamic_models_interleave_for_any_length(tmp_path: Path, cut: int) -> None:
    """The deconvolution is that of an inverse short-time Fourier transform, with an epilogue."""
    (tmp_path / "graph.nnef").write_text(
        "version 1.0;\nextension tract_registry tract_core;\nextension tract_symbol S;\n"
        "graph g(x) -> (y) {\n"
        " x = tract_core_external(shape = [1, 18, S], datum_type = 'f32');\n"
        " w = variable<scalar>(label = 'w', shape = [1, 18, 16]);\n"
        f" y = tanh(deconv(x, w, 0.25, padding = [({cut}, {cut})], stride = [4]));\n}}\n"
    )
    weights = np.random.default_rng(1).standard_normal((1, 18, 16), np.float32) / 8
    nnefc.write_tensor(tmp_path / "w.dat", weights)
    model = nnefc.compile(tmp_path, threads=1)
    for length in (5, 9, 1, 30):
        x = np.random.default_rng(length).standard_normal((1, 18, length), np.float32)
        whole = np.zeros(4 * (length - 1) + 16)
        for t in range(length):
            whole[4 * t : 4 * t + 16] += x[0, :, t].astype(float) @ weights[0]
        wanted = np.tanh(whole + 0.25)[cut : whole.size - cut]
        np.testing.assert_allclose(model(x)[0, 0], wanted, 1e-4, 1e-5)
