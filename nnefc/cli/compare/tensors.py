"""Compare tensors of a compiled model with the float64 reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnefc.cli.compare.nan_origin import nan_origin
from nnefc.cli.support.import_and_compile import compile_graph
from nnefc.cli.support.printing import progress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from nnefc.cli.compare.comparison import Comparison
    from nnefc.ir import Graph, Value
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.run.compiled_model import CompiledModel

    Array = np.ndarray[Any, Any]


def compare_model(
    comparison: Comparison,
    graph: Graph,
    inputs: Mapping[str, Array],
    compiled: CompiledModel,
    config: CompileConfig,
) -> None:
    """Compare the outputs of `compiled`, after all tensors where a reference is needed."""
    comparison.add_inputs(inputs)
    expected: list[Array] = []
    if comparison.needs_reference:
        expected = compare_tensors(comparison, graph, inputs, config)
    outputs = run(compiled, [inputs[value.name] for value in graph.inputs])
    for name, array, reference in zip(graph.output_names, outputs, expected, strict=False):
        comparison.add(name, "output", array, reference)
    comparison.add_against(dict(zip(graph.output_names, outputs, strict=True)))


def compare_tensors(
    comparison: Comparison,
    graph: Graph,
    inputs: Mapping[str, Array],
    config: CompileConfig,
) -> list[Array]:
    """Add a row for each tensor in execution order; return the reference values of the outputs."""
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
        intermediate = run(compile_graph(instrumented, config), arrays)
    checks = config.check_indices
    expected = evaluate(instrumented, inputs, keep="all", lookup=spec, check_indices=checks).values
    results = set(outputs)
    with progress("comparing", late=True) as advance:
        for i, ((op, value), array) in enumerate(zip(tensors, intermediate, strict=True)):
            name, is_result = value.name or f"#{i}", value in results
            comparison.add(
                name, "tensor", array, expected[value], operation=op.name, result=is_result
            )
            advance(i + 1, len(tensors), name)
    comparison.found_nan(nan_origin(instrumented, expected, comparison.call))
    return [expected[value] for value in outputs]


def run(model: CompiledModel, arrays: Sequence[Array]) -> Sequence[Array]:
    """All results in order; their names need not be unique."""
    returned: Any = model(*arrays)
    return [returned] if len(model.outputs) == 1 else returned
