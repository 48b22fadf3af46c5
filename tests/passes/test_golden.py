"""Golden tests: `tests/passes/golden/*.ir` hold a graph, and the expected result of a pass.

The first line names the pass and its options, comments describe the case, and a line `[out]`
separates the graphs.  The options of `lower_precision` are those of `HalfKernels`.  Stages follow
each other, each after a comment with its turns.
`pytest --update-golden` writes the actual results; review the difference before committing it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.ir import DType, Graph, parse_graph, print_graph
from nnefc.ir.verify import verify
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.table import operations
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.analysis.half_support import HalfKernels
from nnefc.passes.interface import Pass, StagePass
from nnefc.passes.machine.lower_precision import LowerPrecision
from nnefc.passes.machine.split_batch import SplitBatch
from nnefc.passes.pipeline import DEFAULT, for_machine, passes_of
from tests.helpers.graphs.random_graphs import fill_variables, sample_inputs
from tests.passes.machine.test_split_batch import same

GOLDEN = Path(__file__).parent / "golden"
STAGES = f"{SplitBatch.name}_*"
PASSES = {
    pass_.name: type(pass_)
    for pass_ in passes_of((*DEFAULT, *for_machine(8)))
    if not isinstance(pass_, StagePass)
}

ROUNDING = 2.0**-5
"""Tolerance relative to the largest item, for results that bfloat16 rounds several times."""


def _split(text: str) -> tuple[str, str, str]:
    """(comments at the top, graph before, graph after)"""
    before, _, after = text.partition("[out]\n")
    lines = before.splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return "".join(lines[:start]), "".join(lines[start:]), after


def _pass(head: str) -> Pass:
    """The pass of `# pass: name option=3`."""
    prefix, name, *options = head.splitlines()[0].removeprefix("# ").split()
    assert prefix == "pass:"
    given = (option.partition("=") for option in options)
    values: dict[str, Any] = {k: DType(v) if k == "dtype" else int(v) for k, _, v in given}
    if name == LowerPrecision.name:
        return LowerPrecision(HalfKernels(**values))
    return PASSES[name](**values)


def _graph(path: Path) -> Graph:
    """The graph before the pass."""
    graph = parse_graph(_split(path.read_text())[1], path.name)
    fill_variables(graph)
    assert verify(graph, rule_problems) == []
    return graph


def _expect(path: Path, printed: str, text: str, update: bool) -> None:
    """Assert that the file has the result `text`; with `update`, write it instead."""
    head, _, after = _split(path.read_text())
    if update:
        path.write_text(f"{head}{printed}[out]\n{text}")
    else:
        assert text == after


GRAPHS = sorted(set(GOLDEN.glob("*.ir")) - set(GOLDEN.glob(STAGES)))


@pytest.mark.parametrize("path", GRAPHS, ids=lambda p: p.stem)
def test_passes_give_the_expected_graphs(path: Path, update_golden: bool) -> None:
    pass_, graph = _pass(path.read_text()), _graph(path)
    assert path.stem.startswith(pass_.name)
    printed = print_graph(graph)
    original = graph.clone()
    changed = pass_.run(graph)
    text = print_graph(graph)
    assert changed == (text != printed)
    _expect(path, printed, text, update_golden)
    assert verify(graph, rule_problems) == []
    if all(_computes(g) for g in (original, graph)):
        _same_values(original, graph, rounded=pass_.name == LowerPrecision.name)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob(STAGES)), ids=lambda p: p.stem)
def test_splitting_gives_the_expected_stages(path: Path, update_golden: bool) -> None:
    """`# pass: split_batch 1 2` gives the items at a time of each operation."""
    first, graph = path.read_text().splitlines()[0], _graph(path)
    items = first.removeprefix(f"# pass: {SplitBatch.name}").split()
    stages = SplitBatch(items=[int(n) for n in items]).split(graph)
    text = "".join(f"# {stage.turns} turns\n{print_graph(stage.graph)}" for stage in stages)
    _expect(path, print_graph(graph), text, update_golden)
    same(graph, stages)


def _computes(graph: Graph) -> bool:
    known = operations()
    return all(op.name in known for op in graph.ops)


def _same_values(a: Graph, b: Graph, *, rounded: bool) -> None:
    inputs = sample_inputs(a)
    old, new = evaluate(a, inputs).outputs, evaluate(b, inputs).outputs
    assert list(old) == list(new)
    for name in old:
        near = ROUNDING * np.abs(old[name]).max() if rounded else 1e-6
        np.testing.assert_allclose(new[name], old[name], 1e-6, near)
