"""The verifier reports each kind of damage to a graph, and nothing for valid graphs."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnefc.ir import (
    Blocked,
    Count,
    DType,
    Expression,
    Graph,
    Op,
    State,
    TensorType,
    Value,
    Variable,
    parse_graph,
)
from nnefc.ir.verify import check, verify
from nnefc.ops.tools.verify import rule_problems
from nnefc.support.errors import NnefError

TEXT = """
graph net(%x: float32[2]) -> (y = %y, z = %z) {
  %v: float32[2] = variable() {label = "V", shape = [2]}
  %a: float32[2] = add(%x, %v)
  %y: float32[2] = fused(%a, %a) {expression = (%0: float32, %1: float32) {
    %2: float32 = mul(%0, %1); return %2 }}
  %z: float32[2] = update(%v, %y)
}
"""


def _op(graph: Graph, name: str) -> Op:
    return next(op for op in graph.ops if op.name == name)


def _undefined(graph: Graph) -> None:
    stray = Value(TensorType(DType.FLOAT32, (2,)), "stray")
    _op(graph, "add").set_input(0, stray)


def _too_late(graph: Graph) -> None:
    _op(graph, "add").set_input(0, _op(graph, "fused").output)


def _forgotten_use(graph: Graph) -> None:
    graph.inputs[0].users.clear()


def _extra_use(graph: Graph) -> None:
    graph.inputs[0].users[_op(graph, "fused")] = 1


def _wrong_index(graph: Graph) -> None:
    _op(graph, "add").output.index = 1


def _wrong_op(graph: Graph) -> None:
    _op(graph, "add").output.op = None


def _input_with_op(graph: Graph) -> None:
    graph.inputs[0].op = _op(graph, "add")


def _count(graph: Graph) -> None:
    graph._count += 1


def _link(graph: Graph) -> None:
    _op(graph, "fused")._previous = None


def _cycle(graph: Graph) -> None:
    _op(graph, "update")._next = _op(graph, "add")


def _no_variable(graph: Graph) -> None:
    graph.variables.clear()


def _variable_type(graph: Graph) -> None:
    graph.variables["v"] = Variable("V", TensorType(DType.INT32, (2,)))


def _variable_data(graph: Graph) -> None:
    graph.variables["v"].data = np.zeros(3, np.float32)


def _no_expression(graph: Graph) -> None:
    del _op(graph, "fused").attributes["expression"]


def _set_expression(graph: Graph, **changes: object) -> None:
    op = _op(graph, "fused")
    old: Expression = op.attributes["expression"]
    fields = {"inputs": old.inputs, "steps": old.steps, "results": old.results, **changes}
    op.attributes["expression"] = Expression(**fields)  # type: ignore[arg-type]


def _expression_inputs(graph: Graph) -> None:
    _set_expression(graph, inputs=(DType.FLOAT32, DType.BOOL))


def _expression_order(graph: Graph) -> None:
    step = _op(graph, "fused").attributes["expression"].steps[0]
    _set_expression(graph, steps=(type(step)("mul", (0, 2), DType.FLOAT32),))


def _expression_literal(graph: Graph) -> None:
    step = _op(graph, "fused").attributes["expression"].steps[0]
    _set_expression(graph, steps=(type(step)("literal", (), DType.FLOAT32),))


def _expression_result(graph: Graph) -> None:
    _set_expression(graph, results=(5,))


def _expression_results(graph: Graph) -> None:
    _set_expression(graph, results=(2, 2))


def _output_undefined(graph: Graph) -> None:
    graph.outputs = [Value(TensorType(DType.FLOAT32, (2,)), "stray"), *graph.outputs[1:]]


def _output_names(graph: Graph) -> None:
    graph.output_names.pop()


def _same_output_names(graph: Graph) -> None:
    graph.output_names[:] = ["y", "y"]


def _same_names(graph: Graph) -> None:
    _op(graph, "add").output.name = "x"


def _layout_of_other_items(graph: Graph) -> None:
    value = _op(graph, "add").output
    value.type = TensorType(DType.INT8, value.type.shape, Blocked(1, ()))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_layout_of_other_items, "%a = add: output 0 is int8, its layout has items of 4 bytes"),
        (_undefined, "%a = add: operand 0, %stray, is not defined"),
        (_too_late, "%a = add: operand 0, %y, is not defined"),
        (_forgotten_use, "%x lists 0 uses, the graph has 1"),
        (_extra_use, "%x lists 2 uses, the graph has 1"),
        (_wrong_index, "%a = add: output 0 has a wrong link to its definition"),
        (_wrong_op, "%a = add: output 0 has a wrong link to its definition"),
        (_input_with_op, "input 0, %x, has a wrong link to its definition"),
        (_count, "4 operations where the graph counts 5"),
        (_link, "%y = fused: the link to the operation before it is wrong"),
        (_cycle, "more than the 4 operations that the graph counts"),
        (_no_variable, "%v = variable: no variable has the label 'V'"),
        (_variable_type, "%v = variable: has type float32[2], its data int32[2]"),
        (_variable_data, "%v = variable: has type float32[2], its array float32[3]"),
        (_no_expression, "%y = fused: has no expression"),
        (_expression_inputs, "the inputs of the expression differ from the operands"),
        (_expression_order, "step %2 uses an operand that is not computed before it"),
        (_expression_literal, "step %2: a literal, and nothing else, has a value"),
        (_expression_result, "the expression returns an operand that it does not have"),
        (_expression_results, "the results of the expression differ from the outputs"),
        (_output_undefined, "output 'y' is not defined in the graph"),
        (_output_names, "2 outputs with 1 names"),
        (_same_output_names, "2 outputs have the name 'y'"),
        (_same_names, "two values have the name %x"),
    ],
)
def test_damage_is_reported(damage: Callable[[Graph], None], message: str) -> None:
    graph = parse_graph(TEXT)
    assert verify(graph, rule_problems) == []
    damage(graph)
    problems = verify(graph, rule_problems)
    assert any(message in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([State("k", 9, None)], "a state refers to input 9 of"),
        ([State("k", None, 7)], "a state refers to output 7 of"),
        ([State("k", 0, None), State("l", 0, None)], "2 states refer to input 0"),
        ([State("k", 0, None), State("k", None, 0)], "2 states have the name 'k'"),
        ([State("k", None, None)], "neither an input nor an output"),
        ([State("k", None, 0, 1)], "has an axis but no input to append to"),
    ],
)
def test_damage_of_states_is_reported(states: list[State], message: str) -> None:
    graph = parse_graph(TEXT)
    graph.states = states
    assert any(message in problem for problem in verify(graph)), verify(graph)


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (Count(0, 9, 0), "refers to outputs that the graph does not have"),
        (Count(0, 0, 0), "not one integer"),
        (Count(0, 0, 8), "output 0 is"),
    ],
)
def test_damage_of_counts_is_reported(count: Count, message: str) -> None:
    graph = parse_graph(TEXT)
    graph.counts = [count]
    assert any(message in problem for problem in verify(graph)), verify(graph)


def test_all_problems_are_reported() -> None:
    graph = parse_graph(TEXT)
    _no_variable(graph)
    _no_expression(graph)
    _same_output_names(graph)
    with pytest.raises(NnefError) as caught:
        check(graph, rule_problems, after="my_pass")
    assert len(caught.value.errors) == 3
    assert all(e.rule == "internal/ir" for e in caught.value.errors)
    assert "after my_pass: %v = variable" in str(caught.value)


def test_checker_adds_problems() -> None:
    graph = parse_graph(TEXT)

    def dislike_add(op: Op) -> list[str]:
        return ["not liked"] if op.name == "add" else []

    assert verify(graph, dislike_add) == ["%a = add: not liked"]
