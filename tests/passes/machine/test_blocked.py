"""Passes preserve the results of networks, and assign valid blocked layouts.

The oracle is the interpreter, for which all tensors are row-major; `tests/passes/test_compiled.py`
runs such networks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given

from nnefc.ir import Blocked, Graph, print_graph
from nnefc.ir.verify import check
from nnefc.ops.core.window_arithmetic import Padding
from nnefc.ops.tools.convolution import is_blocked_convolution
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.table import operations
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.analysis.blocked_support import blocked_operands, halo_needed
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.pipeline import DEFAULT, PassRun, Phase, for_machine, run_pipeline
from tests.helpers.examples import examples
from tests.helpers.graphs.random_graphs import sample_inputs
from tests.helpers.graphs.random_networks import networks, random_network

MACHINE = for_machine(4)

SETTINGS = examples(2)


@given(networks())
@SETTINGS
def test_all_passes_keep_the_values_of_networks(graph: Graph) -> None:
    keeps_values(graph, DEFAULT, 1e-5)  # weights that are folded are rounded to float32
    keeps_values(graph, MACHINE, 1e-12)
    check_layouts(graph)


@given(networks())
@SETTINGS
def test_machine_passes_keep_the_values_of_unfused_networks(graph: Graph) -> None:
    keeps_values(graph, MACHINE, 1e-12)
    check_layouts(graph)


def keeps_values(graph: Graph, passes: Sequence[Phase], tolerance: float) -> None:
    """Run passes; assert equal results after each, to `tolerance` of the largest item."""
    text, inputs = print_graph(graph), sample_inputs(graph)
    wanted = evaluate(graph, inputs).outputs

    def hook(graph: Graph, ran: PassRun) -> None:
        if not ran.changed:
            return
        check(graph, rule_problems, after=ran.name)
        found = evaluate(graph, inputs).outputs
        assert list(found) == list(wanted)
        for name, want in wanted.items():
            near = tolerance * np.abs(want).max(initial=1)
            np.testing.assert_allclose(found[name], want, 0, near, err_msg=f"{text}\n{ran.name}")

    run_pipeline(graph, passes, hook=hook)


def check_layouts(graph: Graph) -> None:
    """Assert that exactly operations on blocks have blocked tensors, with sufficient halos."""
    known = KnownValues(graph)
    for op in graph.ops:
        blocked = {i for i, v in enumerate(op.inputs) if v.type.layout is not None}
        results = {v.type.layout is not None for v in op.outputs}
        if op.name == "layout":
            assert op.output.type.layout != op.inputs[0].type.layout
        elif True not in results:
            assert not is_blocked_convolution(op)
            assert not blocked, op
        else:
            assert results == {True}, op
            assert blocked == set(blocked_operands(op, known)), op
            assert all(_is_covered(op.inputs[i].type.layout, halo_needed(op, i)) for i in blocked)
    assert all(v.type.layout is None for v in (*graph.inputs, *graph.outputs))


def _is_covered(layout: Blocked | None, needed: Padding) -> bool:
    assert layout is not None
    pairs = zip(layout.halo, needed, strict=True)
    return all(a >= c and b >= d for (a, b), (c, d) in pairs)


def test_networks_cover_every_blocked_operation() -> None:
    seen: set[str] = set()
    for seed in range(100):
        graph = random_network(seed, 12)
        run_pipeline(graph, (*DEFAULT, *MACHINE))
        seen |= {
            op.name for op in graph.ops if op.outputs and op.outputs[0].type.layout is not None
        }
    rules = {
        name
        for name, spec in operations().items()
        if spec.traits.blocked is not None and not spec.elementwise and "mean_variance" not in name
    }
    rules -= {name for name in rules if name.startswith("code_")}  # see test_code_networks
    assert not {*rules, "fused_conv", "fused_deconv", "fused"} - seen - {"min_reduce"}
