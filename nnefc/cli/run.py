"""`nnefc run`: arrays in, arrays out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnefc.cli.artifacts import Loaded, ModelOrArtifact, open_model, require_suffix
from nnefc.cli.batch import Batch
from nnefc.cli.common import (
    Accuracy,
    Json,
    LimitOptions,
    RandomWeights,
    Scalar,
    Shapes,
    Threads,
    console,
    print_json,
    print_table,
    report,
    table,
    usage,
)
from nnefc.errors import Diagnostic, Diagnostics, NnefError, Place
from nnefc.formats.artifact import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from nnefc.ir import Graph, Value
    from nnefc.runtime.model import CompiledModel

Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="[NAME=]FILE",
        help="A .npy, .dat, .png or .jpg file for one input, or an .npz that has them by name; "
        "repeatable. Pictures are resized, get the channels of the input (1: grey, 3: RGB, "
        "4: RGBA), and are scaled to 0..1 for scalars; integers get 0..255.",
    ),
]
RandomInputs = Annotated[
    int | None,
    typer.Option(metavar="SEED", min=0, help="Fill inputs that are not given with random values."),
]


SHOWN = 32
"""Outputs of at most so many values are shown whole in a table,"""
LISTED = 1000
"""and of at most so many in JSON;"""
FIRST = 8
"""of others so many values are."""


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
    scalar: Scalar = "float32",
    threads: Threads = None,
    accuracy: Accuracy = "fast",
    json: Json = False,
    limit: LimitOptions = None,
) -> None:
    """Run a model, and show or write its outputs.

    Examples:

        nnefc run net.nnef.tgz -i input.npy -o result.npz

        nnefc run net.nnef.tgz -i image=cat.png

        nnefc run graph.nnef --random-weights 1 --random-inputs 1 --reference

        nnefc run rnn.nnef.tgz -i x.npy --steps 10 --save after.nnef.tgz

        nnefc run rnn.nnefc -i x.npy --save after.nnefc
    """
    if reference and save is not None:
        raise usage("--save writes the variables of the compiled model: not with --reference")
    given = open_model(
        context,
        model,
        shape=shape,
        random_weights=random_weights,
        batch=batch,
        scalar=scalar,
        accuracy=accuracy,
        limit=limit,
    )
    if save is not None and isinstance(given, Loaded):
        require_suffix("--save", save)
    inputs = read_inputs(given.inputs, input, random_inputs)
    if reference:
        results = _evaluate_reference(given.graph, inputs, steps)
    else:
        compiled = given.compiled(threads)
        results = compiled.run(inputs)
        for _ in range(steps - 1):
            compiled.run(inputs, out=results)
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
                *(f"{facts[key]:.6g}" for key in ("min", "max", "mean")),
                _values(array),
            )
        print_table(console(), rows)


def _save(compiled: CompiledModel, path: Path) -> None:
    """Write a model with its variables as they are."""
    if path.suffix == SUFFIX:
        compiled.save(path)
        return
    from nnefc.api import save_archive

    save_archive(path, compiled)


def _evaluate_reference(
    graph: Graph, inputs: Mapping[str, np.ndarray[Any, Any]], steps: int
) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs of the last cycle by name, computed in float64."""
    from nnefc.frontends.nnef.custom import spec
    from nnefc.ops.reference import evaluate

    found = evaluate(graph, inputs, lookup=spec)
    for _ in range(steps - 1):
        found = evaluate(graph, inputs, found.variables, lookup=spec)
    return dict(found.outputs)


def _values(array: np.ndarray[Any, Any]) -> str:
    """The values in row-major order, all of them if they are few."""
    shown = array.ravel()[: array.size if array.size <= SHOWN else FIRST].tolist()
    text = " ".join(f"{v:.5g}" if isinstance(v, float) else str(v).lower() for v in shown)
    return text + (" …" if array.size > len(shown) else "")


def summary(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Shape, type, range and values of an array, in row-major order.

    `values` are all of them, or `first` the first ones where there are many.
    """
    import numpy as np

    whole = array.size <= LISTED
    with np.errstate(all="ignore"):
        return {
            "shape": list(array.shape),
            "dtype": str(array.dtype),
            "min": float(array.min()),
            "max": float(array.max()),
            "mean": float(array.mean(dtype=np.float64)),
            "values" if whole else "first": array.ravel()[: LISTED if whole else FIRST].tolist(),
        }


def read_inputs(
    wanted: Sequence[Value], options: Sequence[str] | None, seed: int | None
) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays for the inputs of a model: files by name, the rest random if there is a seed.

    What is changed or ignored on the way is noted on standard error.
    """
    from nnefc.formats.arrays import load_array
    from nnefc.runtime.tensors import random_array

    notes = Diagnostics()
    names = [value.name for value in wanted]
    given: dict[str, np.ndarray[Any, Any]] = {}
    for option in options or ():
        name, equals, path = option.partition("=")
        if not equals:
            name, path = "", option
        elif name not in names:
            raise usage(f"--input {option}: no input named {name}", f"inputs: {', '.join(names)}")
        if Path(path).suffix.lower() in {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp"}:
            given.update(_read_image(wanted, _only(name, names, given, option), path, notes))
            continue
        loaded = load_array(path)
        if isinstance(loaded, dict):
            given.update(
                {name: _single(loaded, option)} if name else _known(loaded, names, path, notes)
            )
        else:
            given[_only(name, names, given, option)] = loaded
    missing = [value for value in wanted if value.name not in given]
    if missing and seed is None:
        listed = ", ".join(f"{value.name} ({value.type})" for value in missing)
        raise usage(
            f"no data for {listed}", "give --input NAME=FILE, or --random-inputs SEED to try it out"
        )
    for value in missing:
        given[value.name] = random_array(value.type, seed or 0, value.name)
    arrays = {value.name: _as_type(given[value.name], value, notes) for value in wanted}
    report(notes.warnings)
    return arrays


def _as_type(array: np.ndarray[Any, Any], value: Value, notes: Diagnostics) -> np.ndarray[Any, Any]:
    """Files often hold float64 or bytes; convert where that keeps the kind of number."""
    dtype = value.type.dtype.numpy
    accepted = {"f": "fiu", "i": "iu", "b": "iu"}
    if array.dtype == dtype or array.dtype.kind not in accepted.get(dtype.kind, ""):
        return array
    message = f"input {value.name!r}: converted from {array.dtype} to {dtype}"
    notes.add(Diagnostic("input/dtype", message, severity="note"))
    return array != 0 if dtype.kind == "b" else array.astype(dtype)


def _known(
    arrays: Mapping[str, np.ndarray[Any, Any]], names: list[str], path: str, notes: Diagnostics
) -> dict[str, np.ndarray[Any, Any]]:
    """Those arrays of a file that are inputs; there must be one."""
    found = {name: array for name, array in arrays.items() if name in names}
    strays = ", ".join(name for name in arrays if name not in names)
    if not found:
        raise usage(
            f"--input {path}: no input named {strays or 'in the file'}",
            f"inputs: {', '.join(names)}",
        )
    if strays:
        message = f"not used, no inputs have these names: {strays}"
        notes.add(Diagnostic("input/option", message, Place(path), "note"))
    return found


def _only(name: str, names: list[str], given: Mapping[str, Any], option: str) -> str:
    """The input that a file without a name is for."""
    if name:
        return name
    left = [n for n in names if n not in given]
    if len(left) != 1:
        listed = ", ".join(left or names)
        raise usage(f"--input {option}: for which input?", f"write NAME={option}, NAME: {listed}")
    return left[0]


def _single(arrays: Mapping[str, np.ndarray[Any, Any]], option: str) -> np.ndarray[Any, Any]:
    if len(arrays) != 1:
        raise usage(f"--input {option}: the file holds {len(arrays)} arrays, not one")
    return next(iter(arrays.values()))


def _read_image(
    wanted: Sequence[Value], name: str, path: str, notes: Diagnostics
) -> dict[str, np.ndarray[Any, Any]]:
    from nnefc.formats.image import read_image

    for value in wanted:
        if value.name == name:
            type_ = value.type
            return {name: read_image(path, type_.dims, type_.dtype.numpy, diagnostics=notes)}
    raise usage(f"--input: no input named {name}")


def write_outputs(path: Path, results: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """An .npz file, or a folder with one tensor file per output."""
    from nnefc.formats.arrays import save_arrays
    from nnefc.formats.files import printable, reason
    from nnefc.formats.tensor_file import write_tensor

    if path.suffix == ".npz":
        save_arrays(path, results)
        return
    if path.suffix:
        raise usage(f"--output {path}: an .npz file or a folder, not {path.suffix}")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NnefError.of(
            "data/write", f"cannot make a folder: {reason(error)}", Place(printable(str(path)))
        ) from None
    for name, array in results.items():
        write_tensor(path / f"{name}.dat", array)
