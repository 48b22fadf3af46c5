"""`nnefc compare`: the compiled model against the float64 reference, tensor by tensor."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnefc.cli.support.artifacts import ModelOrArtifact, open_model
from nnefc.cli.support.batch import Batch
from nnefc.cli.support.inputs import Inputs, RandomInputs, read_inputs
from nnefc.cli.support.models import compile_graph
from nnefc.cli.support.options import (
    Accuracy,
    Dialect,
    Json,
    LimitOptions,
    RandomWeights,
    Scalar,
    Shapes,
    Threads,
    usage,
)
from nnefc.cli.support.printing import console, count, print_json, print_table, table

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
    dialect: Dialect = "auto",
    scalar: Scalar = "float32",
    threads: Threads = None,
    accuracy: Accuracy = "fast",
    json: Json = False,
    limit: LimitOptions = None,
) -> None:
    """Compare a compiled model with the float64 reference, tensor by tensor.

    The outputs come from the model as it is normally compiled; the tensors in between from
    a second compilation that keeps them all.  Status 1 if one differs by more than the tolerance.

    Of an artifact the outputs are those of the code in the file; the reference evaluates the graph
    in the file, where batch normalisation, for instance, is part of the weights.

    Examples:

        nnefc compare net.nnef.tgz

        nnefc compare net.nnef.tgz -i input.npy --all --tolerance 1e-5

        nnefc compare net.nnefc
    """
    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise usage(f"--tolerance {tolerance:g}: must be a finite number, at least 0")
    given = open_model(context)
    inputs = read_inputs(given.inputs, input, random_inputs)
    rows = compare_models(given.graph, inputs, given.compiled(threads), threads, given.accuracy)
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
    # an output that agrees in both compilations is shown once, as it is normally compiled
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
    """`compare_models` with the graph as it is normally compiled."""
    compiled = compile_graph(graph, threads, accuracy)
    return compare_models(graph, inputs, compiled, threads, accuracy)


def compare_models(
    graph: Graph,
    inputs: Mapping[str, Array],
    compiled: CompiledModel,
    threads: int | None,
    accuracy: str,
) -> list[dict[str, Any]]:
    """One row per tensor in execution order, then one per output of `compiled`.

    `error` is the largest absolute difference over the largest magnitude of the reference
    (over 1 if that is smaller than the smallest normal number); NaN where one has NaN and
    the other has not.  `result` marks the tensors that appear again as outputs.
    """
    from nnefc.ops.custom import spec
    from nnefc.ops.tools.reference import evaluate

    kept = graph.clone()
    results = list(zip(kept.output_names, kept.outputs, strict=True))
    tensors = [
        (op, value)
        for op in kept.ops
        if op.name not in ("constant", "variable")
        for value in op.outputs
    ]
    outcomes = set(kept.outputs)
    kept.outputs = [value for _, value in tensors]
    kept.output_names = [f"#{i}" for i in range(len(tensors))]
    kept.states, kept.counts = [], []
    arrays = [inputs[value.name] for value in graph.inputs]
    instrumented = _run(compile_graph(kept, threads, accuracy), arrays)
    outputs = _run(compiled, arrays)
    expected = evaluate(kept, inputs, keep="all", lookup=spec).values
    rows = [
        _row(value.name or f"#{i}", op.name, "tensor", array, expected[value], value in outcomes)
        for i, ((op, value), array) in enumerate(zip(tensors, instrumented, strict=True))
    ]
    rows += [
        _row(name, "", "output", array, expected[value])
        for (name, value), array in zip(results, outputs, strict=True)
    ]
    return rows


def _run(model: CompiledModel, arrays: Sequence[Array]) -> Sequence[Array]:
    """All results in order; their names need not be unique."""
    got: Any = model(*arrays)
    return [got] if len(model.outputs) == 1 else got


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
