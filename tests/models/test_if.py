"""The operation `if`: rules, text, passes."""

from __future__ import annotations

import numpy as np
import pytest

from nnefc.ir import DType, Graph, TensorType, parse_graph, print_graph
from nnefc.ir.verify import check, verify
from nnefc.ops.internal.branches import build_if
from nnefc.ops.tools.cost import flops, macs
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.loops.simplify_ifs import SimplifyIfs, inline_branches
from nnefc.passes.pipeline import run_pass, run_pipeline
from nnefc.support.errors import NnefError
from tests.helpers.graphs.loops import close, compiled
from tests.helpers.graphs.random_graphs import fill_variables, sample_inputs

TEXT = """graph g(%c: bool[1], %x: float32[6,8], %s: float32[6,5]) -> (y = %y, z = %z, u = %u) {
  %w: float32[8,5] = variable() {shape = [8, 5], label = "w"}
  %old: float32[6,5] = variable() {shape = [6, 5], label = "old"}
  %k: float32[] = constant() {shape = [], value = [2.0]}
  %y: float32[6,5], %z: float32[6,5], %same: float32[6,5], %unused: float32[8,5] =
    if(%c, %x, %w, %s, %old, %k) {
    then = graph then(%x: float32[6,8], %w: float32[8,5], %s: float32[6,5], %old: float32[6,5],
      %k: float32[]) -> (y = %p, z = %p, same = %s, unused = %w) {
      %p: float32[6,5] = matmul(%x, %w) {transposeA = false, transposeB = false}
    },
    else = graph else(%x: float32[6,8], %w: float32[8,5], %s: float32[6,5], %old: float32[6,5],
      %k: float32[]) -> (y = %q, z = %q, same = %s, unused = %e) {
      %e: float32[8,5] = exp(%w)
      %t: float32[6,1] = sum_reduce(%x) {normalize = false, axes = [1]}
      %n: float32[6,5] = mul(%old, %t)
      %q: float32[6,5] = mul(%n, %k)
    }}
  %u: float32[6,5] = mul(%same, %k)
  %new: float32[6,5] = update(%old, %u)
}"""
"""Results that are equal, forwarded and unused; data; a variable that is updated."""


def graph() -> Graph:
    made = parse_graph(TEXT)
    fill_variables(made)
    check(made, rule_problems)
    return made


def test_bodies_get_the_data_that_they_use() -> None:
    made = graph()
    assert run_pass(SimplifyIfs(), made)
    check(made, rule_problems)
    (op,) = (op for op in made.ops if op.name == "if")
    assert [value.name for value in op.inputs] == ["c", "x", "old"]
    then, otherwise = op.bodies
    assert [each.name for each in then.ops] == ["variable", "matmul"]
    assert [each.name for each in otherwise.ops] == ["constant", "sum_reduce", "mul", "mul"]
    assert then.variables["w"] is made.variables["w"]
    assert len(op.outputs) == 1
    assert made.outputs[0] is made.outputs[1]
    assert macs(op) == 6 * 8 * 5
    assert flops(op) == 2 * 6 * 8 * 5
    assert not run_pass(SimplifyIfs(), made)
    again = parse_graph(print_graph(made))
    assert print_graph(again) == print_graph(made)
    inner = next(op for op in again.ops if op.name == "if").bodies[0]
    assert inner.variables["w"] is again.variables["w"]


@pytest.mark.parametrize("c", [True, False])
def test_results_are_those_of_the_chosen_body(c: bool) -> None:
    made = graph()
    inputs = sample_inputs(made) | {"c": np.array([c])}
    wanted = evaluate(made, inputs)
    x, s = inputs["x"].astype(np.float64), inputs["s"]
    data = {key: np.asarray(each.data, np.float64) for key, each in made.variables.items()}
    y = x @ data["w"] if c else data["old"] * x.sum(axis=1, keepdims=True) * 2
    close(wanted.outputs.values(), [y, y, 2 * s])
    inlined = made.clone()
    inline_branches(inlined)
    assert "if" not in {op.name for op in inlined.ops}
    close(evaluate(inlined, inputs).outputs.values(), wanted.outputs.values())
    run_pipeline(made)
    close(evaluate(made, inputs).outputs.values(), wanted.outputs.values())
    model = compiled(made)
    close(model.run(inputs).values(), wanted.outputs.values())
    close([model.variables["old"]], [2 * s])


def test_a_known_condition_leaves_one_body() -> None:
    made = parse_graph(
        TEXT.replace("if(%c,", "if(%yes,").replace(
            "%k: float32[] = c",
            "%yes: bool[] = constant() {shape = [], value = [false]}\n  %k: float32[] = c",
            1,
        )
    )
    fill_variables(made)
    assert run_pass(SimplifyIfs(), made)
    assert not {"if", "matmul", "select"} & {op.name for op in made.ops}


def test_rules() -> None:
    made = graph()
    op = next(op for op in made.ops if op.name == "if")
    then = op.bodies[0]
    wrong = {
        "its condition must be one bool, it is float32[6,8]": lambda: op.set_input(0, op.inputs[1]),
        "has 5 operands for its bodies, the body 'then' has 6": lambda: then.add_input(
            TensorType(DType.FLOAT32, ()), "more"
        ),
        "result 0 is float32[6,5], by the body 'then' it must be float32[8,5]": lambda: setattr(
            then, "outputs", [then.outputs[3], *then.outputs[1:]]
        ),
    }
    for problem, change in wrong.items():
        change()
        assert any(problem in each for each in verify(made, rule_problems)), problem
    outer, body = Graph("g"), Graph("then")
    c = outer.add_input(TensorType(DType.BOOL, ()), "c")
    body.add_output(c, "y")
    with pytest.raises(NnefError, match=r"values of another graph.*argument/if"):
        build_if(outer, c, [], (body, body))
