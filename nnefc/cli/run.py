"""`nnefc run`: run a model on arrays from files, and print or write its outputs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from nnefc.cli.support.artifacts import require_suffix
from nnefc.cli.support.inputs import files_of, read_inputs
from nnefc.cli.support.opened_model import ArtifactModel, OpenedModel, open_model
from nnefc.cli.support.option_groups import CompileOptions, DocumentOptions, InputOptions
from nnefc.cli.support.options import Json, ModelOrArtifact, RandomInputs, Threads, usage
from nnefc.cli.support.outputs import (
    check_output_path,
    output_files,
    refuse_read_files,
    stream_path,
    write_outputs,
)
from nnefc.cli.support.printing import console, print_json, print_table, table
from nnefc.formats.recognise_artifact import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from nnefc.runtime.run.model_interface import Model

    Array = np.ndarray[Any, Any]

MAX_VALUES_IN_TABLE: Final = 32
"""Larger outputs are abbreviated in a table."""
MAX_VALUES_IN_JSON: Final = 1000
"""Larger outputs are abbreviated in JSON."""
FIRST_VALUES: Final = 8
"""The number of values printed of abbreviated outputs."""
RANGE: Final = ("min", "max", "mean")
"""The statistics of an array that tables show."""


Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        readable=False,
        help="Write the outputs: an .npz file, a folder of .dat files, or for a single output an "
        ".npy or .dat file; - is standard output.",
    ),
]
Reference = Annotated[
    bool, typer.Option("--reference", help="Evaluate the float64 reference instead.")
]
Steps = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        help="Run N cycles on the same inputs: variables that the graph updates keep their "
        "values from one to the next. The outputs are those of the last cycle.",
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(
        metavar="ARCHIVE",
        readable=False,
        help="Write the model with the values that its variables have after the last cycle: a "
        ".tgz or .tar file, a folder, or an artifact (.nnefc). Artifacts are saved as artifacts.",
    ),
]


def run(
    context: typer.Context,
    model: ModelOrArtifact,
    inputs: InputOptions,
    output: Output = None,
    reference: Reference = False,
    steps: Steps = 1,
    save: Save = None,
    random_inputs: RandomInputs = None,
    threads: Threads = None,
    json: Json = False,
    *,
    compiling: CompileOptions,
    document: DocumentOptions,
) -> None:
    """Run a model, and print or write its outputs.

    Inputs with symbolic shapes (in the dialect of tract) take the shapes of their files, or those
    of --shape and --symbol; random inputs need these, since nothing else tells their shapes.

    Examples:

        nnefc run net.nnef.tgz -i input.npy -o result.npy

        nnefc run net.nnef.tgz -i image=cat.png --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225

        nnefc run net.nnef.tgz -i image=- -o - < image.npy | nnefc run next.nnef.tgz -i -

        nnefc run graph.nnef --random-weights 1 --random-inputs 1 --reference

        nnefc run rnn.nnef.tgz -i x.npy --steps 10 --save after.nnef.tgz

        nnefc run rnn.nnefc -i x.npy --save after.nnefc

        nnefc run text.nnef.tgz -i tokens.npy

        nnefc run text.nnef.tgz --symbol S=16 --random-inputs 1
    """
    if reference and save is not None:
        raise usage("--save writes the variables of the compiled model: not with --reference")
    if output is not None:
        check_output_path(output, json=json)
        refuse_read_files(model, files_of(inputs.input), output, [output])
    pictures, needs_data = inputs.pictures(), random_inputs is None
    opened = open_model(
        context, model, document, compiling, files=inputs.input, needs_data=needs_data
    )
    if save is not None and isinstance(opened, ArtifactModel):
        require_suffix("--save", save)
    wanted, known = opened.inputs, opened.value_arrays
    arrays, random = read_inputs(wanted, inputs.input, random_inputs, pictures, known)
    run = opened.evaluate if reference else partial(_run_compiled, opened, threads, save)
    results = _with_valid_indices(partial(run, steps=steps), arrays, random)
    written = [] if output is None else _write(output, results, model, files_of(inputs.input))
    if json:
        print_json({name: summary(array) for name, array in results.items()}, named=True)
    elif output is None:
        _print_outputs(results)
    elif written != [stream_path(output)]:  # files in a folder, whose names nobody typed
        console().print("\n".join(f"wrote {file}" for file in written), soft_wrap=True)


def _write(
    output: Path, results: Mapping[str, Array], model: str, read: Sequence[Path]
) -> list[Path]:
    """Write the results, unless this would replace files that were read; returns the files."""
    files = output_files(output, list(results))  # in a folder they have the names of outputs
    refuse_read_files(model, read, output, files)
    return write_outputs(output, results)


def _with_valid_indices(
    run: Callable[[Mapping[str, Array]], Mapping[str, Array]],
    arrays: Mapping[str, Array],
    random: Sequence[str],
) -> Mapping[str, Array]:
    from nnefc.runtime.memory.random_inputs import with_valid_indices

    return with_valid_indices(run, arrays, random)


def _run_compiled(
    opened: OpenedModel,
    threads: int | None,
    save: Path | None,
    inputs: Mapping[str, Array],
    steps: int,
) -> Mapping[str, Array]:
    """The results of the last of `steps` calls; then write the model to `save`."""
    compiled = opened.compile_stateful(threads)
    results = compiled.run(inputs)
    for _ in range(steps - 1):
        results = compiled.run(inputs)
    if save is not None:
        _save(compiled, save)
    return results


def _print_outputs(results: Mapping[str, Array]) -> None:
    """Print a row for each output."""
    view = table("output", "shape", "type", "min", "max", "mean", "values", fold=["values"])
    for name, array in results.items():
        facts = summary(array)
        view.add_row(
            name,
            "x".join(map(str, array.shape)),
            str(array.dtype),
            *("" if facts[key] is None else f"{facts[key]:.6g}" for key in RANGE),
            _values(array),
        )
    print_table(console(), view, optional=["mean", "type", "min", "max"])


def _save(compiled: Model, path: Path) -> None:
    """Write a model with the present values of its variables."""
    from nnefc.dynamic.dynamic_model import DynamicModel

    if isinstance(compiled, DynamicModel):
        raise compiled.refusal("--save")
    if path.suffix == SUFFIX:
        compiled.save(path)
        return
    from nnefc.api.archive import save_archive

    save_archive(path, compiled)


def _values(array: Array) -> str:
    """The values in row-major order; of large arrays the first ones."""
    is_small = array.size <= MAX_VALUES_IN_TABLE
    values = array.ravel()[: array.size if is_small else FIRST_VALUES].tolist()
    text = " ".join(f"{v:.5g}" if isinstance(v, float) else str(v).lower() for v in values)
    return text if is_small else f"{text} …"


def summary(array: Array) -> dict[str, Any]:
    """Shape, type, range and values of an array, for JSON.

    `values` lists all of them in row-major order; large arrays have `first` instead.  The range of
    an empty array is None.
    """
    import numpy as np

    is_small = array.size <= MAX_VALUES_IN_JSON
    range_: dict[str, float | None] = dict.fromkeys(RANGE)
    if array.size:
        with np.errstate(all="ignore"):
            extremes = float(array.min()), float(array.max())
            range_ = dict(zip(RANGE, (*extremes, float(array.mean(dtype=np.float64))), strict=True))
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        **range_,
        "values" if is_small else "first": array.ravel()[
            : array.size if is_small else FIRST_VALUES
        ].tolist(),
    }
