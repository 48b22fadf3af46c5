"""`nnefc compare`: compare a compiled model with the float64 reference, tensor by tensor."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from nnefc.cli.support.inputs import read_files
from nnefc.cli.support.opened_model import DocumentModel, open_model
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
from nnefc.cli.support.symbols import Symbols, print_symbols, symbol_facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from nnefc.cli.support.opened_model import OpenedModel

    Array = np.ndarray[Any, Any]

SESSION_STEPS: Final = 3
"""Calls of a model with states that are compared by default: a first one, two with states."""


Steps = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Compare N calls of a model with states: the first one, and those that find the "
        "states of the one before (default: 3).",
    ),
]


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
    steps: Steps = None,
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

    Of a model with states, the calls of a session are compared one by one: tensors, results and
    states. --symbol S=16,1 sets a symbol for the first call and for the others; by default, the
    others append the fewest items, such as one token. Symbols without a value get small ones.

    Examples:

        nnefc compare net.nnef.tgz

        nnefc compare net.nnef.tgz -i input.npy --all --tolerance 1e-5

        nnefc compare text.nnef.tgz --symbol S=16

        nnefc compare decoder.nnef.tgz --symbol S=16,1 --steps 4

        nnefc compare net.nnefc
    """
    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise usage(f"--tolerance {tolerance:g}: must be finite and at least 0")
    opened = open_model(context, chooses=True)
    given = read_files(opened.inputs, input, PictureOptions.of(context))
    rows = _rows(opened, given, random_inputs or 0, steps, threads)
    bad = [row for row in rows if not row["error"] <= tolerance]
    _report(rows, bad, tolerance, all, symbol_facts(opened), json)
    if bad:
        raise typer.Exit(1)


def _report(
    rows: list[dict[str, Any]],
    bad: list[dict[str, Any]],
    tolerance: float,
    all: bool,
    symbols: Mapping[str, Any],
    json: bool,
) -> None:
    """Print the symbols and the rows; `bad`: the rows beyond the tolerance."""
    if json:
        first = bad[0]["tensor"] if bad else None
        facts = {"tolerance": tolerance, "first_divergence": first, **symbols}
        print_json({**facts, "tensors": rows})
    else:
        print_symbols(console(), symbols)
        _print(rows, bad, tolerance, all)


def _rows(
    opened: OpenedModel,
    given: Mapping[str, Array],
    seed: int,
    steps: int | None,
    threads: int | None,
) -> list[dict[str, Any]]:
    """A row for each tensor and output; of each call if the model keeps states.

    `given`: arrays of inputs from files; the others are random with `seed`.
    """
    from nnefc.cli.compare.sessions import compare_session
    from nnefc.cli.compare.tensors import compare_models
    from nnefc.runtime.memory.tensors import random_array

    calls = opened.calls
    if calls is None or not isinstance(opened, DocumentModel):
        if (steps or 1) > 1:
            raise usage(f"--steps {steps}: the model keeps no states", "leave it out")
        inputs = {
            value.name: given[value.name]
            if value.name in given
            else random_array(value.type, seed, value.name)
            for value in opened.inputs
        }
        compiled = opened.compile(threads)
        return compare_models(opened.graph, inputs, compiled, threads, opened.accuracy)
    count = steps or (SESSION_STEPS if opened.graph.states else 1)
    return compare_session(opened, calls, given, seed, count, threads)


def _print(
    rows: list[dict[str, Any]],
    bad: list[dict[str, Any]],
    tolerance: float,
    all: bool,
) -> None:
    out = console()
    calls = ["call"] if rows and "call" in rows[0] else []
    columns = [*calls, "tensor", "operation", "shape", "max |error|", "relative", ""]
    view = table(*columns, numeric=[*calls, *columns[-3:-1]], fold=["tensor"])
    # the second compilation of an output that agrees would repeat its row
    distinct = [row for row in rows if not row["result"] or not row["error"] <= tolerance]
    for row in distinct if all else bad or [r for r in rows if r["kind"] != "tensor"]:
        shape = "x".join(map(str, row["shape"]))
        mark = "" if row["error"] <= tolerance else "← first" if row is bad[0] else "←"
        view.add_row(
            *([str(row["call"])] if calls else []),
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
