"""Passes on graphs written by hand: `tests/golden/*.ir` hold a graph and what a pass makes of it.

The first line names the pass and its options, comments say what a case is about, and a line
`[out]` parts the graphs.  `pytest --update-golden` writes what the passes give; read the
difference before it is committed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.ir import Graph, parse_graph, print_graph
from nnefc.ir.expression import INTERNAL
from nnefc.ir.verify import verify
from nnefc.ops.reference import evaluate
from nnefc.ops.table import operations
from nnefc.passes.base import Pass
from nnefc.passes.convolution_method import Chooser
from nnefc.passes.pipeline import DEFAULT, for_machine, rule_problems
from tests.graphs import fill_variables, sample_inputs

GOLDEN = Path(__file__).parent / "golden"
PASSES = {pass_.name: type(pass_) for pass_ in (*DEFAULT, *for_machine(8))}


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
    values: dict[str, Any] = {k: int(v) for k, _, v in (o.partition("=") for o in options)}
    if values.pop("strict", False):
        values["choose"] = Chooser(strict=True)
    return PASSES[name](**values)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.ir")), ids=lambda p: p.stem)
def test_golden(path: Path, update_golden: bool) -> None:
    head, before, after = _split(path.read_text())
    pass_ = _pass(head)
    assert path.stem.startswith(pass_.name)
    graph = parse_graph(before, path.name)
    fill_variables(graph)
    assert verify(graph, rule_problems) == []
    printed = print_graph(graph)
    original = graph.clone()
    changed = pass_.run(graph)
    text = print_graph(graph)
    assert changed == (text != printed)
    if update_golden:
        path.write_text(f"{head}{printed}[out]\n{text}")
    else:
        assert text == after
    assert verify(graph, rule_problems) == []
    if all(_computes(g) for g in (original, graph)):
        _same_values(original, graph)


def _computes(graph: Graph) -> bool:
    known = (*operations(), *INTERNAL - {"layout"})
    return all(op.name in known for op in graph.ops)


def _same_values(a: Graph, b: Graph) -> None:
    inputs = sample_inputs(a)
    old, new = evaluate(a, inputs).outputs, evaluate(b, inputs).outputs
    assert list(old) == list(new)
    for name in old:
        np.testing.assert_allclose(new[name], old[name], 1e-6, 1e-6)
