"""`nnefc compare`: compare a compiled model with the float64 reference, tensor by tensor."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from nnefc.cli.compare.comparison import Comparison
from nnefc.cli.compare.report import report
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
from nnefc.cli.support.symbols import Symbols, symbol_facts

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
    compilation that returns them all. Status 1 if a tensor differs by more than the tolerance, or
    if a NaN or an infinity is in one of the two only. NaN in both agrees; a line names the first
    operation that makes one.

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
    comparison = Comparison()
    _compare(comparison, opened, given, random_inputs or 0, steps, threads)
    if not report(comparison, tolerance, all, symbol_facts(opened), json):
        raise typer.Exit(1)


def _compare(
    comparison: Comparison,
    opened: OpenedModel,
    given: Mapping[str, Array],
    seed: int,
    steps: int | None,
    threads: int | None,
) -> None:
    """Compare each tensor and output; those of each call if the model keeps states.

    `given`: arrays of inputs from files; the others are random with `seed`.
    """
    from nnefc.cli.compare.sessions import compare_session
    from nnefc.cli.compare.tensors import compare_model
    from nnefc.runtime.memory.caller_arrays import random_array

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
        compare_model(comparison, opened.graph, inputs, compiled, threads, opened.accuracy)
        return
    count = steps or (SESSION_STEPS if opened.graph.states else 1)
    compare_session(comparison, opened, calls, given, seed, count, threads)
