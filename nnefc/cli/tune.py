"""`nnefc tune`: measure which algorithm is fastest for each convolution, and store the choices."""

from __future__ import annotations

from nnefc.cli.compile.run_tuning import print_tuning, run_tuning, tuning_facts
from nnefc.cli.support.import_and_compile import load
from nnefc.cli.support.option_groups import CompileOptions, DocumentOptions
from nnefc.cli.support.options import Json, Model, Precision, Strict, Threads
from nnefc.cli.support.printing import console, print_json


def tune(
    model: Model,
    threads: Threads = None,
    json: Json = False,
    strict: Strict = False,
    precision: Precision = "float32",
    *,
    document: DocumentOptions,
) -> None:
    """Measure which algorithm is fastest for each convolution here, and store the choices.

    All commands and nnefc.compile then use them for convolutions of the same shapes, with the same
    number of threads. Tune with the number of threads and the shapes that the model will run with.
    Tuning takes seconds, for large networks minutes; other load makes it less accurate. A model
    with symbols in its shapes is tuned for one value of each: --symbol S=128.

    nnefc compile --tune also compiles the model and shows its plan.

    Examples:

        nnefc tune net.nnef.tgz

        nnefc tune net.nnef.tgz --threads 2 --batch 8

        nnefc tune graph.nnef --random-weights 1 --json
    """
    graph = load(model, document.config_of(model, strict=strict), "tuning measures known shapes")
    config = CompileOptions(precision=precision).config(threads)
    tuning = run_tuning(graph, config)
    print_json(tuning_facts(tuning)) if json else print_tuning(console(), tuning)
