"""Folding affine maps into weights preserves values, for all kinds of convolutions and products.

The oracle is the interpreter in float64; weights are float64 too, so that rounding hides nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.zoo import ZOO
from nnefc.frontends.nnef import import_text
from nnefc.ir import DType, Graph, TensorType, Value, Variable, parse_graph, print_graph
from nnefc.ir.verify import check
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.canonicalise.expand_compounds import ExpandCompounds
from nnefc.passes.cleanup.eliminate_dead_code import EliminateDeadCode
from nnefc.passes.fold.fold_affine import FoldAffine
from nnefc.passes.fold.fold_constants import FoldConstants
from nnefc.passes.pipeline import Phase, run_pipeline
from nnefc.support.errors import NnefError
from tests.helpers.examples import examples
from tests.helpers.graphs.random_graphs import sample_data, sample_inputs

Shape = tuple[int, ...]


class _Maker:
    """Random graphs of linear operations with affine maps around them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.graph = Graph("g")

    def input(self, shape: Shape) -> Value:
        count = len(self.graph.inputs)
        return self.graph.add_input(TensorType(DType.FLOAT64, shape), f"x{count}")

    def op(self, name: str, *operands: Value, **attributes: Any) -> Value:
        return build(self.graph, name, operands, attributes).output

    def known(self, shape: Shape, *, zero: float = 0.0) -> Value:
        """A constant or variable; `zero` may stand in for a factor or term of 0."""
        type_ = TensorType(DType.FLOAT64, shape)
        if self.rng.random() < 0.3:
            value = (self.rng.choice((0.5, -2.0, 1.0, zero)),)
            made = build(
                self.graph, "constant", [], {"shape": shape, "value": value}, dtype=DType.FLOAT64
            )
            return made.output
        label = f"v{len(self.graph.variables)}"
        data = sample_data(label, type_)
        self.graph.variables[label] = Variable(label, type_, data + (data == 0))
        attributes = {"shape": shape, "label": label}
        return build(self.graph, "variable", [], attributes, dtype=DType.FLOAT64).output

    def affine(self, x: Value, axis: int = 1) -> Value:
        """Up to three steps, mostly per channel; rarely of another shape, or with another user."""
        rng = self.rng
        for _ in range(rng.randint(0, 3)):
            dims = list(x.type.dims)
            keep = axis if rng.random() < 0.95 else rng.randrange(len(dims))
            full = tuple(e if d == keep else 1 for d, e in enumerate(dims))
            shape = rng.choice((full, full, full[: keep + 1], (1,) * len(dims), ()))
            name = rng.choice(("add", "sub", "mul", "div", "neg"))
            operands = [x] if name == "neg" else [x, self.known(shape, zero=float(name == "div"))]
            if name in ("add", "sub", "mul"):
                rng.shuffle(operands)
            x = self.op(name, *operands)
            if rng.random() < 0.05:
                self.graph.add_output(x, f"also{len(self.graph.outputs)}")
        return x

    def convolution(self, x: Value, outputs: int) -> Value:
        rng, channels = self.rng, x.type.dims[1]
        rank = x.type.rank - 2
        name = rng.choice(("conv", "conv", "deconv"))
        groups = rng.choice([g for g in (1, 2, channels) if channels % g == outputs % g == 0])
        size = [rng.randint(1, 3) for _ in range(rank)]
        first = (outputs, channels // groups) if name == "conv" else (channels, outputs // groups)
        padding = tuple((rng.randint(0, 1), rng.randint(0, 1)) for _ in size)
        attributes = {
            "padding": rng.choice(((), padding, ((0, 0),) * rank)),
            "stride": rng.choice(((), (1,) * rank, (2,) * rank)),
            "border": rng.choice(("constant", "constant", "replicate")),
            "groups": 0 if groups == channels == outputs else groups,
        }
        bias = self.known(rng.choice(((), (1, outputs), (outputs,), (1, 1), (1, outputs, 1))))
        filter_ = self.known((*first, *size))
        try:
            return self.op(name, x, filter_, bias, **attributes)
        except NnefError:  # a window that does not fit
            return x

    def convolutions(self) -> None:
        rng = self.rng
        extents = tuple(rng.randint(3, 5) for _ in range(rng.randint(1, 2)))
        x = self.input((rng.randint(1, 2), rng.choice((1, 2, 4)), *extents))
        for _ in range(rng.randint(1, 3)):
            x = self.convolution(self.affine(x), rng.choice((1, 2, 4)))
            if rng.random() < 0.4:
                y = self.convolution(self.affine(x), rng.choice((1, 2, 4)))
                shape = (x.type.dims[0], rng.choice((1, 2)), *y.type.dims[2:])
                other = self.op(
                    "conv", self.input(shape), self.known((3, shape[1], 1, 1)[: len(shape)])
                )
                x = self.affine(self.op("concat", y, other, axis=1))
            x = self.affine(x)
        self.graph.add_output(x, "y")

    def matmul(self) -> None:
        rng = self.rng
        rows, depth, columns, batch = (rng.randint(1, 4) for _ in range(4))
        lead = rng.choice(((), (batch,)))
        a: Shape = (rows, depth)
        b: Shape = (depth, columns)
        ta, tb = rng.random() < 0.5, rng.random() < 0.5
        shapes = [(*lead, *(a[::-1] if ta else a)), (*lead, *(b[::-1] if tb else b))]
        which = rng.randrange(2)
        operands = [self.known(s) if i == which else self.input(s) for i, s in enumerate(shapes)]
        y = self.op("matmul", *operands, transposeA=ta, transposeB=tb)
        axis = y.type.rank - rng.choice((1, 1, 1, 2))
        self.graph.add_output(self.affine(y, axis), "y")


def _graph(seed: int) -> Graph:
    maker = _Maker(seed)
    maker.rng.choice((maker.convolutions, maker.convolutions, maker.matmul))()
    return maker.graph


@given(st.integers(0, 2**32 - 1))
@examples(2)
@example(985818)
def test_folding_preserves_values(seed: int) -> None:
    graph = _graph(seed)
    text = print_graph(graph)
    before = evaluate(graph, sample_inputs(graph)).outputs
    changed = FoldAffine().run(graph)
    after = print_graph(graph)
    assert changed == (after != text)
    check(graph, rule_problems, after="fold_affine")
    found = evaluate(graph, sample_inputs(graph)).outputs
    assert list(found) == list(before)
    for name, expected in before.items():
        size = np.max(np.abs(expected), initial=1.0)
        np.testing.assert_allclose(found[name], expected, 1e-10, 1e-12 * size, err_msg=text)
    assert not FoldAffine().run(graph), f"{text}\n{after}"
    assert print_graph(graph) == after


def test_folding_applies_to_most_random_graphs() -> None:
    assert sum(FoldAffine().run(_graph(seed)) for seed in range(60)) > 40


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nnefc.NnefWarning")
@pytest.mark.parametrize(
    ("name", "adds"), [("resnet50", 16 + 1), ("mobilenet_v2", 10 + 1), ("inception_v3", 1)]
)
def test_batch_normalisations_of_networks_are_folded(name: str, adds: int) -> None:
    """The remaining additions are residual sums and the bias of the last layer."""
    document = ZOO[name].document(name, small=True)
    graph = import_text(document.text)
    for variable in graph.variables.values():
        variable.data = document.variables[variable.label].data()
    passes = (ExpandCompounds(), FoldConstants(), FoldAffine(), EliminateDeadCode())
    run_pipeline(graph, [Phase("test", passes)])
    counts = Counter(op.name for op in graph.ops)
    assert counts["add"] == adds
    assert not {"sub", "mul", "div", "sqrt", "batch_normalization"} & set(counts)


def test_weights_are_rounded_once() -> None:
    """Folded float32 weights are those of float64 arithmetic, to half a unit in the last place."""
    graph = parse_graph("""
graph g(%x: float32[1,4,5,5]) -> (y = %y) {
  %w: float32[8,4,3,3] = variable() {label = "w", shape = [8, 4, 3, 3]}
  %b: float32[1,8] = variable() {label = "b", shape = [1, 8]}
  %s: float32[1,8] = variable() {label = "s", shape = [1, 8]}
  %m: float32[1,8] = variable() {label = "m", shape = [1, 8]}
  %0: float32[1,8,5,5] = conv(%x, %w, %b) {border = "constant", padding = [], stride = [],
    dilation = [], groups = 1}
  %1: float32[1,8,5,5] = sub(%0, %m)
  %2: float32[1,8,5,5] = mul(%s, %1)
  %3: float32[1,8,5,5] = div(%2, %m)
  %y: float32[1,8,5,5] = add(%3, %b)
}""")
    rng = np.random.default_rng(0)
    for variable in graph.variables.values():
        variable.data = rng.standard_normal(variable.type.dims).astype(np.float32)
    w, b, s, m = (np.asarray(graph.variables[k].data, np.float64) for k in "wbsm")
    assert FoldAffine().run(graph)
    conv = graph.outputs[0].op
    assert conv is not None
    assert conv.name == "conv"
    filter_, bias = (KnownValues(graph).items(v) for v in conv.inputs[1:])
    assert filter_ is not None
    assert bias is not None
    factor = s / m
    np.testing.assert_array_equal(filter_, np.float32(w * factor.reshape(8, 1, 1, 1)))
    np.testing.assert_allclose(bias, np.float32(factor * (b - m) + b), 1e-7)
