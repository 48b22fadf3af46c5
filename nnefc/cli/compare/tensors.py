"""Compare tensors of a compiled model with the float64 reference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

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


class Expected(NamedTuple):
    """The reference values of a call."""

    outputs: Sequence[Array]
    variables: Mapping[str, Array]
    """Those of the variables after the call, by label in lower case."""


def compare_model(
    comparison: Comparison,
    graph: Graph,
    inputs: Mapping[str, Array],
    compiled: CompiledModel,
    config: CompileConfig,
    variables: Mapping[str, Array] | None = None,
) -> Mapping[str, Array]:
    """Compare the outputs of `compiled`, after all tensors where a reference is needed.

    `variables`: see `compare_tensors`.  Returns the reference values of variables after the call,
    empty without a reference.
    """
    comparison.add_inputs(inputs)
    expected = Expected([], {})
    if comparison.needs_reference:
        expected = compare_tensors(comparison, graph, inputs, config, variables)
    outputs = run(compiled, [inputs[value.name] for value in graph.inputs])
    for name, array, reference in zip(graph.output_names, outputs, expected.outputs, strict=False):
        comparison.add(name, "output", array, reference)
    comparison.add_against(dict(zip(graph.output_names, outputs, strict=True)))
    return expected.variables


def compare_tensors(
    comparison: Comparison,
    graph: Graph,
    inputs: Mapping[str, Array],
    config: CompileConfig,
    variables: Mapping[str, Array] | None = None,
) -> Expected:
    """Add a row for each tensor in execution order; return the reference.

    `variables`: values before the call that replace those of the graph, by label in lower case.
    """
    from nnefc.ops.custom import spec
    from nnefc.ops.tools.cost import is_data
    from nnefc.ops.tools.reference import evaluate

    instrumented = graph.clone()
    for label, value in (variables or {}).items():
        variable = instrumented.variables[label]
        assert variable.data is not None
        data = value.astype(variable.data.dtype)
        instrumented.variables[label] = replace(variable, data=data)
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
    evaluation = evaluate(
        instrumented, inputs, variables, keep="all", lookup=spec, check_indices=checks
    )
    expected = evaluation.values
    results = set(outputs)
    with progress("comparing", late=True) as advance:
        for i, ((op, value), array) in enumerate(zip(tensors, intermediate, strict=True)):
            name, is_result = value.name or f"#{i}", value in results
            comparison.add(
                name, "tensor", array, expected[value], operation=op.name, result=is_result
            )
            advance(i + 1, len(tensors), name)
    comparison.found_nan(nan_origin(instrumented, expected, comparison.call))
    return Expected([expected[value] for value in outputs], evaluation.variables)


def run(model: CompiledModel, arrays: Sequence[Array]) -> Sequence[Array]:
    """All results in order; their names need not be unique."""
    returned: Any = model(*arrays)
    return [returned] if len(model.outputs) == 1 else returned
