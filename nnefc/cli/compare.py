"""`nnefc compare`: compare a compiled model with the float64 reference, tensor by tensor."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnefc.cli.support.inputs import read_inputs
from nnefc.cli.support.models import compile_graph
from nnefc.cli.support.opened_model import open_model
from nnefc.cli.support.options import (
    Accuracy,
    Batch,
    Dialect,
    Inputs,
    Json,
    LimitOptions,
    ModelOrArtifact,
    RandomInputs,
    RandomWeights,
    Scalar,
    Shapes,
    Threads,
    usage,
)
from nnefc.cli.support.pictures import Layout, Mean, PictureOptions, Std
from nnefc.cli.support.printing import console, count, print_json, print_table, table
from nnefc.cli.support.symbols import Symbols

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from nnefc.ir import Graph
    from nnefc.runtime.run.model import CompiledModel

    Array = np.ndarray[Any, Any]


def compare(
    context: typer.Context,
    model: ModelOrArtifact,
    input: Inputs = None,
    mean: Mean = None,
    std: Std = None,
    layout: Layout = "auto",
    tolerance: Annotated[
        float, typer.Option(help="Largest error relative to the largest magnitude of a tensor.")
    ] = 1e-4,
    all: Annotated[bool, typer.Option("--all", help="Show every tensor, not only outliers.")] = (
        False
    ),
    random_inputs: RandomInputs = 0,
    random_weights: RandomWeights = None,
    batch: Batch = None,
    shape: Shapes = None,
    symbol: Symbols = None,
    dialect: Dialect = "auto",
    scalar: Scalar = "float32",
    threads: Threads = None,
    accuracy: Accuracy = "fast",
    json: Json = False,
    limit: LimitOptions = None,
) -> None:
    """Compare a compiled model with the float64 reference, tensor by tensor.

    The outputs come from the model as it is normally compiled, intermediate tensors from a second
    compilation that returns them all. Status 1 if a tensor differs by more than the tolerance.

    For an artifact, the outputs come from the code in the file, and the reference evaluates the
    graph in the file, where batch normalisation, for instance, is folded into the weights.

    Examples:

        nnefc compare net.nnef.tgz

        nnefc compare net.nnef.tgz -i input.npy --all --tolerance 1e-5

        nnefc compare text.nnef.tgz --symbol S=16

        nnefc compare net.nnefc
    """
    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise usage(f"--tolerance {tolerance:g}: must be finite and at least 0")
    opened = open_model(context)
    inputs = read_inputs(opened.inputs, input, random_inputs, PictureOptions.of(context))
    compiled = opened.compile(threads)
    rows = compare_models(opened.graph, inputs, compiled, threads, opened.accuracy)
    bad = [row for row in rows if not row["error"] <= tolerance]
    if json:
        first = bad[0]["tensor"] if bad else None
        print_json({"tolerance": tolerance, "first_divergence": first, "tensors": rows})
    else:
        _print(rows, bad, tolerance, all)
    if bad:
        raise typer.Exit(1)


def _print(
    rows: list[dict[str, Any]],
    bad: list[dict[str, Any]],
    tolerance: float,
    all: bool,
) -> None:
    out = console()
    columns = ("tensor", "operation", "shape", "max |error|", "relative", "")
    view = table(*columns, numeric=columns[3:5], fold=["tensor"])
    # the second compilation of an output that agrees would repeat its row
    distinct = [row for row in rows if not row["result"] or not row["error"] <= tolerance]
    for row in distinct if all else bad or [r for r in rows if r["kind"] == "output"]:
        shape = "x".join(map(str, row["shape"]))
        mark = "" if row["error"] <= tolerance else "← first" if row is bad[0] else "←"
        view.add_row(
            row["tensor"],
            row["operation"] or row["kind"],
            shape,
            f"{row['absolute']:.3g}",
            f"{row['error']:.3g}",
            mark,
        )
    print_table(out, view)
    verdict = f"first divergence: {bad[0]['tensor']}" if bad else "no divergence"
    worst = max((row["error"] for row in rows), default=0.0)
    out.print(f"{count(len(distinct), 'tensor')}, largest relative error {worst:.3g}: {verdict}")


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
    """A row for each tensor in execution order, then one for each output of `compiled`.

    `error` is the largest absolute difference over the largest magnitude of the reference (over 1
    if that is subnormal); NaN where only one of the two has NaN.  `result` marks tensors that
    appear again as outputs.
    """
    from nnefc.ops.custom import spec
    from nnefc.ops.tools.cost import is_data
    from nnefc.ops.tools.reference import evaluate

    instrumented = graph.clone()
    results = list(zip(instrumented.output_names, instrumented.outputs, strict=True))
    tensors = [(op, value) for op in instrumented.ops if not is_data(op) for value in op.outputs]
    output_values = set(instrumented.outputs)
    instrumented.outputs = [value for _, value in tensors]
    instrumented.output_names = [f"#{i}" for i in range(len(tensors))]
    instrumented.states, instrumented.counts = [], []
    arrays = [inputs[value.name] for value in graph.inputs]
    intermediate = _run(compile_graph(instrumented, threads, accuracy), arrays)
    outputs = _run(compiled, arrays)
    expected = evaluate(instrumented, inputs, keep="all", lookup=spec).values
    rows = [
        _row(
            value.name or f"#{i}", op.name, "tensor", array, expected[value], value in output_values
        )
        for i, ((op, value), array) in enumerate(zip(tensors, intermediate, strict=True))
    ]
    rows += [
        _row(name, "", "output", array, expected[value])
        for (name, value), array in zip(results, outputs, strict=True)
    ]
    return rows


def _run(model: CompiledModel, arrays: Sequence[Array]) -> Sequence[Array]:
    """All results in order; their names need not be unique."""
    returned: Any = model(*arrays)
    return [returned] if len(model.outputs) == 1 else returned


def _row(
    name: str,
    operation: str,
    kind: str,
    actual: Array,
    expected: Array,
    result: bool = False,
) -> dict[str, Any]:
    import numpy as np

    a, e = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (a == e) | (np.isnan(a) & np.isnan(e))
        difference = np.where(same, 0.0, np.abs(a - e))
        finite = np.abs(e[np.isfinite(e)])
        scale = float(finite.max(initial=0.0))
        absolute = float(difference.max(initial=0.0))
    return {
        "tensor": name,
        "operation": operation,
        "kind": kind,
        "result": result,
        "shape": list(actual.shape),
        "absolute": absolute,
        "error": absolute / (scale if scale > np.finfo(np.float64).tiny else 1.0),
    }
