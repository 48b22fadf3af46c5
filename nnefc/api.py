"""The Python face: documents in, graphs and compiled models out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from nnefc.errors import Diagnostics, NnefError, NnefWarning
from nnefc.ir import DType, Graph
from nnefc.limits import Limits

if TYPE_CHECKING:
    from nnefc.runtime.model import CompiledModel

Shapes = Mapping[str, Sequence[int]]
Progress = Callable[[int, int, str], None]
Path = str | os.PathLike[str]


def import_model(
    source: Path,
    *,
    shapes: Shapes | None = None,
    scalar: str = "float32",
    integer: str = "int32",
    random_weights: int | None = None,
    quantize: bool = True,
    strict: bool = False,
    limits: Limits | None = None,
) -> Graph:
    """Read a model into the intermediate representation.

    Args:
        source: A folder, an archive (.tar, .tgz) or a bare `graph.nnef`.
        shapes: New shapes of externals, by name; they propagate.
        scalar: Type that computes `tensor<scalar>`: "float32" or "float64".
        integer: Type of `tensor<integer>`: "int32" or "int64".
        random_weights: Seed; fills variables that have no data, which are otherwise an error.
        quantize: Apply `graph.quant` if there is one.
        strict: NNEF 1.0.2 to the letter: what is otherwise a warning is an error.
        limits: Bounds on hostile input.

    Raises:
        NnefError: With all errors found; warnings are issued as `NnefWarning`.
    """
    limits = limits or Limits()
    diagnostics = Diagnostics(strict=strict, limit=limits.errors)
    try:
        return import_with(
            source,
            diagnostics,
            shapes=shapes,
            scalar=scalar,
            integer=integer,
            random_weights=random_weights,
            quantize=quantize,
            limits=limits,
        )
    finally:
        for diagnostic in diagnostics.warnings:
            warnings.warn(NnefWarning(str(diagnostic)), stacklevel=2)


def import_with(
    source: Path,
    diagnostics: Diagnostics,
    *,
    shapes: Shapes | None = None,
    scalar: str = "float32",
    integer: str = "int32",
    random_weights: int | None = None,
    quantize: bool = True,
    load_data: bool = True,
    limits: Limits | None = None,
) -> Graph:
    """`import_model` for callers that collect the warnings themselves."""
    from nnefc.frontends.nnef import import_model as import_nnef

    return import_nnef(
        source,
        diagnostics=diagnostics,
        shapes=shapes,
        scalar=_dtype("scalar", scalar, (DType.FLOAT32, DType.FLOAT64)),
        integer=_dtype("integer", integer, (DType.INT32, DType.INT64)),
        random_weights=random_weights,
        quantize=quantize,
        load_data=load_data,
        limits=limits or Limits(),
    )


def compile(
    source: Path | Graph,
    *,
    shapes: Shapes | None = None,
    threads: int | None = None,
    scalar: str = "float32",
    integer: str = "int32",
    random_weights: int | None = None,
    quantize: bool = True,
    strict: bool = False,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> CompiledModel:
    """Compile a model to native code.

    Args:
        source: What `import_model` takes, or a graph from it (left as it is; the arguments
            that say how to import do not apply then).
        shapes, scalar, integer, random_weights, quantize, strict, limits: See `import_model`.
        threads: Threads a call may use, the calling one included; None: all usable CPUs.
        progress: Called as `progress(done, total, label)` while kernels are compiled.

    Returns:
        A callable: arrays in the order of the graph's parameters in, one array or a tuple out.

    Raises:
        NnefError: With all errors found.
    """
    from nnefc.frontends.nnef.custom import require_known
    from nnefc.frontends.nnef.custom import spec as custom_spec
    from nnefc.lower import lower
    from nnefc.passes.pipeline import run_pipeline
    from nnefc.runtime.model import CompiledModel

    if threads is not None and threads < 1:
        raise NnefError.of("input/threads", f"threads = {threads}: must be at least 1")
    if isinstance(source, Graph):
        graph = source
    else:
        graph = import_model(
            source,
            shapes=shapes,
            scalar=scalar,
            integer=integer,
            random_weights=random_weights,
            quantize=quantize,
            strict=strict,
            limits=limits,
        )
    require_known(graph)
    working = graph.clone()
    run_pipeline(working, lookup=custom_spec)
    return CompiledModel(lower(working), graph, threads=threads, progress=progress)


def save_archive(path: Path, model: CompiledModel | Graph, *, overwrite: bool = False) -> None:
    """Write a model as an NNEF container: the flattened document and the data of its variables.

    Args:
        path: A folder, or a name that ends in .tar, .tgz or .tar.gz.
        model: A graph, or a compiled model; the latter's variables are written with the
            values they have now.
        overwrite: Replace a file that is there; a folder that is not empty is never replaced.

    Raises:
        NnefError: If a variable has no data, or the container cannot be written.
    """
    from nnefc.formats.container import write_container
    from nnefc.frontends.nnef.flatten import flatten

    graph = model if isinstance(model, Graph) else model.graph
    stored = (
        {variable.label: variable.data for variable in graph.variables.values()}
        if isinstance(model, Graph)
        else dict(model.variables)
    )
    tensors = {label: data for label, data in stored.items() if data is not None}
    missing = [label for label in stored if label not in tensors]
    if missing:
        raise NnefError.of("data/missing", f"variables without data: {', '.join(missing)}")
    write_container(path, graph_text=flatten(graph), tensors=tensors, overwrite=overwrite)


def check_model(source: Path, diagnostics: Diagnostics, limits: Limits) -> None:
    """Check a document with its data and quantization; nothing is compiled.

    Data that is not there is not an error: a document is valid without.
    """
    from nnefc.frontends.nnef import import_model as import_nnef

    import_nnef(source, diagnostics=diagnostics, limits=limits, load_data=True, require_data=False)


def _dtype(what: str, name: str, choices: tuple[DType, ...]) -> DType:
    for dtype in choices:
        if dtype.value == name:
            return dtype
    listed = " or ".join(dtype.value for dtype in choices)
    raise NnefError.of("input/dtype", f"{what} = {name!r}: must be {listed}")
