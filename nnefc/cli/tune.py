"""`nnefc tune`: measure which algorithm is fastest for each convolution, and store the choices."""

from __future__ import annotations

import typer

from nnefc.cli.compile.run_tuning import print_tuning, run_tuning, tuning_facts
from nnefc.cli.support.documents import DocumentOptions
from nnefc.cli.support.import_and_compile import load
from nnefc.cli.support.options import (
    Batch,
    Dialect,
    Json,
    LimitOptions,
    Model,
    RandomWeights,
    Scalar,
    Shapes,
    Strict,
    Threads,
)
from nnefc.cli.support.printing import console, print_json
from nnefc.cli.support.symbols import Symbols


def tune(
    context: typer.Context,
    model: Model,
    random_weights: RandomWeights = None,
    batch: Batch = None,
    shape: Shapes = None,
    symbol: Symbols = None,
    dialect: Dialect = "auto",
    scalar: Scalar = "float32",
    threads: Threads = None,
    strict: Strict = False,
    json: Json = False,
    limit: LimitOptions = None,
) -> None:
    """Measure which algorithm is fastest for each convolution here, and store the choices.

    All commands and nnefc.compile then use them for convolutions of the same shapes, with the same
    number of threads. Tune with the number of threads and the shapes that the model will run with.
    Tuning takes seconds, for large networks minutes; other load makes it less accurate.

    nnefc compile --tune also compiles the model and shows its plan.

    Examples:

        nnefc tune net.nnef.tgz

        nnefc tune net.nnef.tgz --threads 2 --batch 8

        nnefc tune graph.nnef --random-weights 1 --json
    """
    document = DocumentOptions.of(context)
    graph = load(document.model, document.import_config(document.shapes()))
    tuning = run_tuning(graph, threads)
    print_json(tuning_facts(tuning)) if json else print_tuning(console(), tuning)
