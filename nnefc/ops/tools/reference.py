"""The reference interpreter: computes every operation by its NumPy formula, in float64 and int64.

Tests compare compiled models with it; it is written to be correct, not fast.  After each operation
integers wrap around in their item type; floats are not rounded to theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nnefc.ir import Expression, Graph, Op, TensorType, Value
from nnefc.ir.graph import walk
from nnefc.ops.core.arrays import Array, widen, wrap
from nnefc.ops.core.broadcast import align
from nnefc.ops.core.index_check import WrongIndex, checking_indices
from nnefc.ops.core.interface import kind_of, sequence
from nnefc.ops.core.spec import Interpreter, Lookup, OpSpec, no_custom
from nnefc.ops.tools.build import emitter
from nnefc.ops.tools.table import operations
from nnefc.support.errors import Diagnostic, NnefError
from nnefc.support.index_message import index_error


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The results of one run of a graph; items are float64, int64, uint64 or bool.

    `outputs`: by output name.  `values`: all values with `keep="all"`, else those of the outputs.
    `variables`: data of the variables after the run, by label in lower case.
    """

    outputs: dict[str, Array]
    values: dict[Value, Array]
    variables: dict[str, Array]


def evaluate(
    graph: Graph,
    inputs: Mapping[str, Any],
    variables: Mapping[str, Any] | None = None,
    *,
    keep: Literal["outputs", "all"] = "outputs",
    lookup: Lookup = no_custom,
    check_indices: bool = True,
) -> Evaluation:
    """Run `graph` once.

    `inputs`: by name of the graph's inputs.  `variables`: by label, in any case; they override the
    data in the graph.  `keep`: with "outputs", values are dropped after their last use.
    `lookup`: custom operations, which are computed by their expansion.  `check_indices`: False
    uses the nearest item for an index out of range.
    Raises NnefError: `input/...` for inputs that are missing, unknown, or of a wrong shape or type;
    `data/variable` for variables without data; `custom/reference` for operations that have neither
    reference nor expansion.
    """
    values = _inputs(graph, inputs)
    initial = _variables(graph, variables or {})
    _require_computable(graph, lookup)
    with np.errstate(all="ignore"), checking_indices(check_indices):
        updated = _run(graph, values, initial, keep, lookup)
    outputs = {n: values[v] for n, v in zip(graph.output_names, graph.outputs)}
    return Evaluation(outputs, values, {**initial, **updated})


def _run(
    graph: Graph,
    values: dict[Value, Array],
    variables: Mapping[str, Array],
    keep: Literal["outputs", "all"],
    lookup: Lookup,
) -> dict[str, Array]:
    """Compute the values of a graph into `values`, which has the inputs; returns the updates."""
    updated: dict[str, Array] = {}
    uses = Counter(v for op in graph.ops for v in op.inputs)
    outputs = set(graph.outputs)
    for op in graph.ops:
        operands = [values[v] for v in op.inputs]
        if op.name == "variable":
            results = [variables[op.attributes["label"].lower()]]
        else:
            results = apply(op, operands, lookup, variables)
        if op.name == "update":
            updated[_label(op)] = results[0]
        for value, result in zip(op.outputs, results, strict=True):
            _check(op, value, result)
            values[value] = result
        if keep == "outputs":
            uses.subtract(op.inputs)
            for value in {*op.inputs, *op.outputs} - outputs:
                if not uses[value]:
                    values.pop(value, None)
    return updated


def apply(
    op: Op,
    operands: list[Array],
    lookup: Lookup = no_custom,
    variables: Mapping[str, Array] | None = None,
) -> list[Array]:
    """Compute the results of one operation other than `variable`.

    `variables`: those of the graph, by label in lower case, where bodies may have them.
    """
    spec = operations().get(op.name) or lookup(op.name)
    assert spec is not None, op.name
    if spec.evaluate is not None:
        return list(spec.evaluate(op, operands, _Interpreter(lookup, variables or {})))
    if spec.reference is None:
        return _apply_expansion(op, spec, operands)
    extra = {"dtype": op.output.type.dtype} if spec.chooses_type else {}
    try:
        result = spec.reference(*spec.operands(operands).values(), **op.attributes, **extra)
    except WrongIndex as wrong:
        raise _index_error(op, operands, wrong) from None
    results = sequence(result)
    if results is None:
        results = [np.asarray(result)]
    return [wrap(r, v.type.dtype) for r, v in zip(results, op.outputs, strict=True)]


def _index_error(op: Op, operands: list[Array], wrong: WrongIndex) -> NnefError:
    """The error that a compiled model raises for the index."""
    name = next((v.name for v, x in zip(op.inputs, operands) if x is wrong.indices), "")
    position = [int(i) for i in np.unravel_index(wrong.position, wrong.indices.shape)]
    return index_error(
        f"{op.name} %{op.outputs[0].name}" if op.outputs[0].name else op.name,
        name,
        position if wrong.indices.ndim else (),
        wrong.value,
        wrong.valid,
        op.location.place if op.location else None,
    )


@dataclass(frozen=True, slots=True)
class _Interpreter(Interpreter):
    """The services to `evaluate` functions of operations."""

    lookup: Lookup
    variables: Mapping[str, Array]

    def apply(self, op: Op, operands: list[Array]) -> list[Array]:
        return apply(op, operands, self.lookup, self.variables)

    def expression(
        self, expression: Expression, operands: list[Array], types: list[TensorType]
    ) -> list[Array]:
        return evaluate_expression(expression, operands, types)

    def run(self, body: Graph, operands: list[Array]) -> list[Array]:
        values = dict(zip(body.inputs, operands, strict=True))
        _run(body, values, self.variables, "outputs", self.lookup)
        return [values[v] for v in body.outputs]


def _apply_expansion(op: Op, spec: OpSpec, operands: list[Array]) -> list[Array]:
    """Compute the results of an operation without reference by its expansion."""
    assert spec.expand is not None
    graph = Graph(op.name)
    inputs = [graph.add_input(v.type, f"x{i}") for i, v in enumerate(op.inputs)]
    compound = Op(op.name, inputs, op.attributes, [v.type for v in op.outputs])
    graph.insert(compound)
    expanded = spec.expand(emitter(graph, compound, op.location), compound)
    graph.erase(compound)
    for i, value in enumerate(sequence(expanded) or [expanded]):
        graph.add_output(value, f"y{i}")
    return list(evaluate(graph, {v.name: x for v, x in zip(inputs, operands)}).outputs.values())


def evaluate_expression(
    expression: Expression, operands: list[Array], types: list[TensorType]
) -> list[Array]:
    """Compute the results of an expression, which have `types`."""
    values = list(operands)
    for step in expression.steps:
        if step.op == "literal":
            values.append(widen(np.asarray(step.value), step.dtype))
            continue
        spec = operations()[step.op]
        assert spec.reference is not None, step.op
        arguments = [values[i] for i in step.operands]
        extra = {"dtype": step.dtype} if spec.chooses_type else {}
        values.append(wrap(np.asarray(spec.reference(*arguments, **extra)), step.dtype))
    results: list[Array] = []
    for i, type_ in zip(expression.results, types, strict=True):
        # a result may be independent of the operands that determine the output's shape
        like = np.empty((1,) * type_.rank)
        results.append(np.broadcast_to(align(values[i], like)[0], type_.dims))
    return results


def _require_computable(graph: Graph, lookup: Lookup) -> None:
    """Raise NnefError for operations without reference and expansion, once per name."""
    missing: dict[str, Diagnostic] = {}
    for op in walk(graph):
        spec = operations().get(op.name) or lookup(op.name)
        computable = spec is not None and (spec.reference or spec.evaluate or spec.expand)
        if not computable and op.name != "variable":
            message = f"operation {op.name} has no reference"
            place = op.location.place if op.location else None
            missing.setdefault(op.name, Diagnostic("custom/reference", message, place))
    if missing:
        raise NnefError(missing.values())


_KINDS = {"scalar": "fiu", "integer": "iu", "logical": "b"}
"""Kinds of NumPy item types that are accepted for a primitive type."""


def _inputs(graph: Graph, inputs: Mapping[str, Any]) -> dict[Value, Array]:
    """The inputs as values of the graph; raises NnefError with everything that is wrong."""
    problems: list[Diagnostic] = []
    values: dict[Value, Array] = {}
    wanted = {v.name: v for v in graph.inputs}
    for name in inputs:
        if name not in wanted:
            expected = ", ".join(wanted) or "none"
            message = f"the graph has no input {name!r}; its inputs are {expected}"
            problems.append(Diagnostic("input/unknown", message))
    for name, value in wanted.items():
        if name not in inputs:
            problems.append(Diagnostic("input/missing", f"input {name!r} is missing"))
            continue
        array = np.asarray(inputs[name])
        alike = array.dtype.kind in _KINDS.get(kind_of(value.type.dtype), "")
        if not alike and array.dtype != value.type.dtype.numpy:
            message = f"input {name!r} must be {value.type}, not of type {array.dtype}"
            problems.append(Diagnostic("input/type", message))
            continue
        values[value] = widen(array, value.type.dtype)
        if array.shape != value.type.shape:
            message = f"input {name!r} must have shape {value.type}, not {array.shape}"
            problems.append(Diagnostic("input/shape", message))
    if problems:
        raise NnefError(problems)
    return values


def _variables(graph: Graph, variables: Mapping[str, Any]) -> dict[str, Array]:
    """The data of the variables by label in lower case, before the run."""
    overrides = {label.lower(): data for label, data in variables.items()}
    problems: list[Diagnostic] = []
    arrays: dict[str, Array] = {}
    for key, variable in graph.variables.items():
        data = overrides.pop(key, variable.data)
        if data is None:
            problems.append(Diagnostic("data/variable", f"variable {variable.label!r} has no data"))
            continue
        arrays[key] = array = widen(data, variable.type.dtype)
        if array.shape != variable.type.shape:
            message = f"variable {variable.label!r} is {variable.type}, its data {array.shape}"
            problems.append(Diagnostic("data/variable", message))
    problems += [Diagnostic("data/variable", f"there is no variable {key!r}") for key in overrides]
    if problems:
        raise NnefError(problems)
    return arrays


def _label(op: Op) -> str:
    """The label, in lower case, of the variable that an `update` replaces."""
    source = op.inputs[0].op
    assert source is not None and source.name == "variable", "update needs a variable"
    return source.attributes["label"].lower()


def _check(op: Op, value: Value, result: Array) -> None:
    """Raise NnefError `internal/shape` if a reference disagrees with its shape rule."""
    type_ = value.type
    if type_.shape is not None and result.shape != type_.shape:
        raise NnefError.of(
            "internal/shape", f"{op.name} gives shape {result.shape} where its type is {type_}"
        )
