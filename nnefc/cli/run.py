"""`nnefc run`: arrays in, arrays out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnefc.cli.support.artifacts import ArtifactModel, ModelOrArtifact, open_model, require_suffix
from nnefc.cli.support.batch import Batch
from nnefc.cli.support.inputs import Inputs, RandomInputs, read_inputs
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
from nnefc.cli.support.printing import console, print_json, print_table, table
from nnefc.formats.artifact import SUFFIX
from nnefc.support.errors import NnefError, Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from nnefc.runtime.run.interface import Model

SHOWN = 32
"""Outputs with at most so many values are shown whole in a table."""
LISTED = 1000
"""Outputs with at most so many values are shown whole in JSON."""
FIRST = 8
"""The number of values shown of larger outputs."""
RANGE = ("min", "max", "mean")
"""The statistics of an array that tables show."""


def run(
    context: typer.Context,
    model: ModelOrArtifact,
    input: Inputs = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            readable=False,
            help="Write the outputs: an .npz file, or a folder of .dat files.",
        ),
    ] = None,
    reference: Annotated[
        bool, typer.Option("--reference", help="Evaluate in float64 with the reference instead.")
    ] = False,
    steps: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Run so many cycles on the same inputs: variables that the graph updates keep "
            "their values from one to the next. The outputs are those of the last.",
        ),
    ] = 1,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="ARCHIVE",
            readable=False,
            help="Write the model with its variables as they are after the last cycle: a .tgz or "
            ".tar file, a folder, or an artifact (.nnefc), as which an artifact is written again.",
        ),
    ] = None,
    random_inputs: RandomInputs = None,
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
    """Run a model, and show or write its outputs.

    Inputs whose shapes have symbols (in the dialect of tract) take the shapes of the given arrays,
    or those of --shape.

    Examples:

        nnefc run net.nnef.tgz -i input.npy -o result.npz

        nnefc run net.nnef.tgz -i image=cat.png

        nnefc run graph.nnef --random-weights 1 --random-inputs 1 --reference

        nnefc run rnn.nnef.tgz -i x.npy --steps 10 --save after.nnef.tgz

        nnefc run rnn.nnefc -i x.npy --save after.nnefc

        nnefc run text.nnef.tgz -i tokens.npy

        nnefc run text.nnef.tgz --shape tokens=1,16 --random-inputs 1
    """
    if reference and save is not None:
        raise usage("--save writes the variables of the compiled model: not with --reference")
    given = open_model(context)
    if save is not None and isinstance(given, ArtifactModel):
        require_suffix("--save", save)
    inputs = read_inputs(given.inputs, input, random_inputs)
    if reference:
        results = given.evaluated(inputs, steps)
    else:
        compiled = given.running(threads)
        results = compiled.run(inputs)
        for _ in range(steps - 1):
            results = compiled.run(inputs)
        if save is not None:
            _save(compiled, save)
    if output is not None:
        write_outputs(output, results)
    if json:
        print_json({name: summary(array) for name, array in results.items()})
    elif output is None:
        rows = table("output", "shape", "type", "min", "max", "mean", "values", fold=["values"])
        for name, array in results.items():
            facts = summary(array)
            rows.add_row(
                name,
                "x".join(map(str, array.shape)),
                str(array.dtype),
                *("" if facts[key] is None else f"{facts[key]:.6g}" for key in RANGE),
                _values(array),
            )
        print_table(console(), rows)


def _save(compiled: Model, path: Path) -> None:
    """Write a model with its variables as they are."""
    from nnefc.dynamic.model import DynamicModel

    if isinstance(compiled, DynamicModel):
        raise compiled.refusal("--save")
    if path.suffix == SUFFIX:
        compiled.save(path)
        return
    from nnefc.api.archive import save_archive

    save_archive(path, compiled)


def _values(array: np.ndarray[Any, Any]) -> str:
    """The values in row-major order, all of them if they are few."""
    shown = array.ravel()[: array.size if array.size <= SHOWN else FIRST].tolist()
    text = " ".join(f"{v:.5g}" if isinstance(v, float) else str(v).lower() for v in shown)
    return text + (" …" if array.size > len(shown) else "")


def summary(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Shape, type, range and values of an array, in row-major order.

    `values` are all of them, or `first` the first ones where there are many.  Where there are none
    they have no range.
    """
    import numpy as np

    whole = array.size <= LISTED
    range_: dict[str, float | None] = dict.fromkeys(RANGE)
    if array.size:
        with np.errstate(all="ignore"):
            extremes = float(array.min()), float(array.max())
            range_ = dict(zip(RANGE, (*extremes, float(array.mean(dtype=np.float64))), strict=True))
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        **range_,
        "values" if whole else "first": array.ravel()[: LISTED if whole else FIRST].tolist(),
    }


def write_outputs(path: Path, results: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """An .npz file, or a folder with one tensor file per output."""
    from nnefc.formats.arrays import save_arrays
    from nnefc.formats.files import describe, printable, reason
    from nnefc.formats.tensor_file import write_tensor

    if path.suffix == ".npz":
        save_arrays(path, results)
        return
    if path.suffix:
        raise usage(f"--output {path}: an .npz file or a folder, not {path.suffix}")
    place = Place(printable(str(path)))
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        kind = describe(path.stat().st_mode) if path.exists() else "a link to nowhere"
        raise NnefError.of(
            "data/write",
            f"this is {kind}, not a folder",
            place,
            "outputs are written to an .npz file, or into a folder, each to a file of its own",
        ) from None
    except OSError as error:
        raise NnefError.of("data/write", f"cannot make a folder: {reason(error)}", place) from None
    for name, array in results.items():
        write_tensor(path / f"{name}.dat", array)
