"""Compare tensors of a compiled model with the float64 reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnefc.cli.support.models import compile_graph

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from nnefc.ir import Graph, Value
    from nnefc.runtime.run.model import CompiledModel

    Array = np.ndarray[Any, Any]


def compare_graph(
    graph: Graph,
    inputs: Mapping[str, Array],
    threads: int | None = None,
    accuracy: str = "fast",
) -> list[dict[str, Any]]:
    """`compare_models` for the graph as it is normally compiled."""
    compiled = compile_graph(graph, threads, accuracy)
    return compare_models(graph, inputs, compiled, threads, accuracy)


def compare_models(
    graph: Graph,
    inputs: Mapping[str, Array],
    compiled: CompiledModel,
    threads: int | None,
    accuracy: str,
) -> list[dict[str, Any]]:
    """The rows of `tensor_rows`, then one for each output of `compiled`."""
    rows, expected = tensor_rows(graph, inputs, threads, accuracy)
    outputs = _run(compiled, [inputs[value.name] for value in graph.inputs])
    rows += [
        row(name, "", "output", array, reference)
        for name, array, reference in zip(graph.output_names, outputs, expected, strict=True)
    ]
    return rows


def tensor_rows(
    graph: Graph, inputs: Mapping[str, Array], threads: int | None, accuracy: str
) -> tuple[list[dict[str, Any]], list[Array]]:
    """(a row for each tensor in execution order, reference values of the outputs).

    `error` is the largest absolute difference over the largest magnitude of the reference (over 1
    if that is subnormal); NaN where only one of the two has NaN.  `result` marks tensors that
    appear again as outputs.
    """
    from nnefc.ops.custom import spec
    from nnefc.ops.tools.cost import is_data
    from nnefc.ops.tools.reference import evaluate

    instrumented = graph.clone()
    outputs: Sequence[Value] = instrumented.outputs
    tensors = [(op, value) for op in instrumented.ops if not is_data(op) for value in op.outputs]
    instrumented.outputs = [value for _, value in tensors]
    instrumented.output_names = [f"#{i}" for i in range(len(tensors))]
    instrumented.states, instrumented.counts = [], []
    arrays = [inputs[value.name] for value in graph.inputs]
    intermediate: Sequence[Array] = ()
    if tensors:
        intermediate = _run(compile_graph(instrumented, threads, accuracy), arrays)
    expected = evaluate(instrumented, inputs, keep="all", lookup=spec).values
    results = set(outputs)
    rows = [
        row(value.name or f"#{i}", op.name, "tensor", array, expected[value], value in results)
        for i, ((op, value), array) in enumerate(zip(tensors, intermediate, strict=True))
    ]
    return rows, [expected[value] for value in outputs]


def _run(model: CompiledModel, arrays: Sequence[Array]) -> Sequence[Array]:
    """All results in order; their names need not be unique."""
    returned: Any = model(*arrays)
    return [returned] if len(model.outputs) == 1 else returned


def row(
    name: str,
    operation: str,
    kind: str,
    actual: Array,
    expected: Array,
    result: bool = False,
) -> dict[str, Any]:
    """The differences between a tensor and its reference; infinite if the shapes differ."""
    import numpy as np

    facts: dict[str, Any] = {
        "tensor": name,
        "operation": operation,
        "kind": kind,
        "result": result,
        "shape": list(actual.shape),
    }
    if actual.shape != expected.shape:
        return {**facts, "absolute": float("inf"), "error": float("inf")}
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (a == e) | (np.isnan(a) & np.isnan(e))
        difference = np.where(same, 0.0, np.abs(a - e))
        finite = np.abs(e[np.isfinite(e)])
        scale = float(finite.max(initial=0.0))
        absolute = float(difference.max(initial=0.0))
    error = absolute / (scale if scale > np.finfo(np.float64).tiny else 1.0)
    return {**facts, "absolute": absolute, "error": error}
