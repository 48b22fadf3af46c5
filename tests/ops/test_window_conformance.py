"""Expected values of independent oracles, for the operations over windows and regions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.ir import DType, Graph, TensorType, Value
from nnefc.ops.standard import box_and_sample, convolution, normalization, pooling, roi, sampling
from nnefc.ops.tools.build import build, constant
from nnefc.ops.tools.reference import evaluate
from nnefc.syntax import ast
from nnefc.syntax.parser import parse
from tests.helpers.nnef.conformance import cases, needs_conformance

MODULES = (convolution, box_and_sample, sampling, pooling, roi, normalization)
NAMES = frozenset(spec.name for module in MODULES for spec in module.SPECS)
DTYPES = {None: DType.FLOAT32, "scalar": DType.FLOAT32, "integer": DType.INT32}


def literal(node: ast.Expression) -> Any:
    match node:
        case ast.Literal_():
            return node.value
        case ast.Unary(operator="-"):
            return -literal(node.operand)
        case ast.Array() | ast.Tuple():
            return tuple(map(literal, node.items))
        case _:
            raise ValueError(node)


def invocations(document: ast.Document) -> list[tuple[list[str], ast.Invocation]]:
    found: list[tuple[list[str], ast.Invocation]] = []
    for assignment in document.graph.body:
        target, call = assignment.target, assignment.value
        names = target.items if isinstance(target, ast.Array | ast.Tuple) else (target,)
        if not isinstance(call, ast.Invocation):
            return []
        found.append(([n.name for n in names if isinstance(n, ast.Identifier)], call))
    return found


def graph_of(document: ast.Document, results: list[str]) -> Graph:
    """The graph of a flat document whose only sources are externals."""
    graph = Graph()
    values: dict[str, Value] = {}
    for names, call in invocations(document):
        operands: list[Value] = []
        attributes: dict[str, Any] = {}
        named: dict[str, ast.Expression] = {}
        for argument in call.arguments:
            if isinstance(argument.value, ast.Identifier) and argument.name is None:
                operands.append(values[argument.value.name])
            elif argument.name is None:
                operands.append(constant(graph, literal(argument.value), DType.FLOAT32))
            else:
                named[argument.name] = argument.value
        for name in ("input", "filter", "bias"):
            given = named.pop(name, None) if call.name == "conv" else None
            if isinstance(given, ast.Identifier):
                operands.append(values[given.name])
            elif given is not None:
                operands.append(constant(graph, literal(given), DType.FLOAT32))
        attributes = {name: literal(value) for name, value in named.items()}
        if call.name == "external":
            type_ = TensorType(DTYPES[call.dtype], attributes["shape"])
            values[names[0]] = graph.add_input(type_, names[0])
            continue
        op = build(graph, call.name, operands, attributes)
        values.update(zip(names, op.outputs, strict=True))
    for name in results:
        graph.add_output(values[name], name)
    return graph


def mine() -> list[Path]:
    """Cases whose operations are those under test."""
    found: list[Path] = []
    for case in cases("numeric/*") + cases("numeric_ext/*"):
        document = parse((case / "graph.nnef").read_text(), "graph.nnef")
        names = {call.name for _, call in invocations(document)} - {"external"}
        if names and names <= NAMES:
            found.append(case)
    return found


@needs_conformance
@pytest.mark.parametrize("case", mine(), ids=lambda case: case.name)
def test_reference(case: Path) -> None:
    about = json.loads((case / "case.json").read_text())
    data = np.load(case / "io.npz")
    document = parse((case / "graph.nnef").read_text(), "graph.nnef")
    graph = graph_of(document, about["outputs"])
    result = evaluate(graph, {name: data[name] for name in about["inputs"]})
    for name in about["outputs"]:
        np.testing.assert_allclose(
            result.outputs[name], data[name], rtol=about["rtol"], atol=about["atol"]
        )


@needs_conformance
def test_conformance_cases_exist() -> None:
    assert len(mine()) > 40
