"""Passes preserve results, leave valid graphs, and change nothing when run again.

The oracle is the interpreter, which knows nothing of passes.  Scalars are float64, so that
rounding to the item type changes nothing.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import Graph, print_graph
from nnefc.ir.verify import check, verify
from nnefc.ops.tools.reference import Evaluation, evaluate
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.canonicalise.canonicalise import Canonicalise
from nnefc.passes.canonicalise.expand_compounds import ExpandCompounds
from nnefc.passes.cleanup.eliminate_common_subexpressions import EliminateCommonSubexpressions
from nnefc.passes.cleanup.eliminate_dead_code import EliminateDeadCode
from nnefc.passes.cleanup.merge_affine import MergeAffine
from nnefc.passes.cleanup.nest_concats import NestConcats
from nnefc.passes.cleanup.sink_transposes import SinkTransposes
from nnefc.passes.fold.fold_affine import FoldAffine
from nnefc.passes.fold.fold_constants import FoldConstants
from nnefc.passes.fuse.fuse_attention import FuseAttention
from nnefc.passes.fuse.fuse_elementwise import FuseElementwise
from nnefc.passes.fuse.fuse_matmul_epilogue import FuseMatmulEpilogue
from nnefc.passes.fuse.fuse_normalization import FuseNormalization
from nnefc.passes.fuse.sink_reshapes import SinkReshapes
from nnefc.passes.interface import Pass
from nnefc.passes.pipeline import run_pipeline, verify_hook
from nnefc.passes.quantize.cancel_quantizations import CancelQuantizations
from nnefc.passes.quantize.fold_codes import FoldCodes
from nnefc.passes.quantize.fuse_integers import FuseIntegers
from tests.helpers.examples import examples
from tests.helpers.graphs.random_graphs import graphs, sample_data, sample_inputs

EXACT: list[Pass] = [
    Canonicalise(),
    FoldConstants(),
    FoldConstants(growth=0, small=2),
    EliminateCommonSubexpressions(),
    EliminateDeadCode(),
    NestConcats(),
    SinkTransposes(),
    FuseNormalization(),
    FuseElementwise(),
    FuseElementwise(steps=3, inputs=2, copies=1),
    FuseMatmulEpilogue(),
    SinkReshapes(),
    FuseAttention(),
    FoldCodes(),
    CancelQuantizations(),
    FuseIntegers(),
]

CLOSE: list[Pass] = [FoldAffine(), MergeAffine()]
"""Passes that change roundings and signs of zeros."""

SETTINGS = examples(0.8)


def _evaluate(graph: Graph) -> Evaluation:
    """Evaluate a graph, with new values for the variables that it updates."""
    sources = [op.inputs[0].op for op in graph.ops if op.name == "update"]
    labels = {op.attributes["label"].lower() for op in sources if op is not None}
    state = {label: sample_data(f"new {label}", graph.variables[label].type) for label in labels}
    return evaluate(graph, sample_inputs(graph), state)


def _same(
    before: Evaluation, after: Evaluation, rtol: float, text: str, *, zeros: bool = True
) -> None:
    """Assert equal results; `zeros`: with equal signs of zeros."""
    for kind in ("outputs", "variables"):
        old, new = getattr(before, kind), getattr(after, kind)
        assert list(old) == list(new)
        for name in old:
            assert old[name].dtype == new[name].dtype
            np.testing.assert_allclose(new[name], old[name], rtol, rtol, err_msg=text)
            both = (old[name] == 0) & (new[name] == 0) & ~np.isnan(new[name])
            signs = np.signbit(old[name] * 1.0) == np.signbit(new[name] * 1.0)
            assert not zeros or np.all(signs | ~both), f"sign of zero in {name}: {text}"


@pytest.mark.parametrize("pass_", EXACT, ids=repr)
@given(graph=graphs())
@SETTINGS
def test_pass_keeps_values(pass_: Pass, graph: Graph) -> None:
    before, text = _evaluate(graph), print_graph(graph)
    names = {v.name for v in graph.inputs}
    changed = pass_.run(graph)
    after = print_graph(graph)
    check(graph, rule_problems, after=pass_.name)
    assert changed == (after != text)
    assert {v.name for v in graph.inputs} == names
    # pow(x, 2) and x * x may differ in the last bit
    _same(before, _evaluate(graph), 1e-12, f"{text}\n{after}")
    assert not pass_.run(graph), print_graph(graph)
    assert print_graph(graph) == after


@pytest.mark.parametrize("pass_", CLOSE, ids=repr)
@given(graph=graphs(smooth=True))
@SETTINGS
def test_rounding_pass_keeps_values_closely(pass_: Pass, graph: Graph) -> None:
    before, text = _evaluate(graph), print_graph(graph)
    changed = pass_.run(graph)
    after = print_graph(graph)
    check(graph, rule_problems, after=pass_.name)
    assert changed == (after != text)
    _same(before, _evaluate(graph), 1e-9, f"{text}\n{after}", zeros=False)
    assert not pass_.run(graph), print_graph(graph)


@given(graph=graphs(smooth=True))
@SETTINGS
def test_expansion_keeps_values(graph: Graph) -> None:
    before, text = _evaluate(graph), print_graph(graph)
    changed = ExpandCompounds().run(graph)
    assert changed == (print_graph(graph) != text)
    assert verify(graph, rule_problems) == []
    _same(before, _evaluate(graph), 1e-9, text)
    assert not ExpandCompounds().run(graph)


@given(graph=graphs(smooth=True, max_ops=20))
@SETTINGS
def test_pipeline_keeps_values(graph: Graph) -> None:
    before, text = _evaluate(graph), print_graph(graph)
    run_pipeline(graph, hook=verify_hook)
    _same(before, _evaluate(graph), 1e-9, f"{text}\n{print_graph(graph)}")


@given(graph=graphs(), data=st.data())
@SETTINGS
def test_passes_keep_values_in_any_order(graph: Graph, data: st.DataObject) -> None:
    before, text = _evaluate(graph), print_graph(graph)
    for pass_ in data.draw(st.permutations(EXACT)):
        pass_.run(graph)
        check(graph, rule_problems, after=pass_.name)
    _same(before, _evaluate(graph), 1e-12, text)
