"""The Python face: documents in, graphs and compiled models out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

from nnefc.driver.compile import compile_with, methods_for
from nnefc.formats.watch import watched
from nnefc.ir import DType, Graph
from nnefc.options.arguments import (
    check_accuracy,
    check_dialect,
    check_environment,
    check_flags,
    check_import,
    check_limits,
    check_names,
    check_progress,
    check_threads,
    memory_for,
)
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError, Place, warn_python
from nnefc.support.limits import Limits

if TYPE_CHECKING:
    from nnefc.frontends.tract.source import Source
    from nnefc.runtime.compile.kernel_compiler import Progress
    from nnefc.runtime.run.model import CompiledModel

Shapes = Mapping[str, Sequence[int]]
Path = str | os.PathLike[str]


class ImportOptions(TypedDict, total=False):
    """How a document becomes a graph; every one may be left out."""

    shapes: Shapes | None
    """New shapes of externals, by name; they propagate."""
    scalar: str
    """Type that computes `tensor<scalar>`: "float32" (unless given) or "float64"."""
    integer: str
    """Type of `tensor<integer>`: "int32" (unless given) or "int64"."""
    random_weights: int | None
    """Seed; fills variables that have no data, which are otherwise an error."""
    quantize: bool
    """Apply `graph.quant` if there is one, as is done unless this is False."""
    limits: Limits | None
    """Bounds on hostile input."""
    dialect: str
    """How the document is to be understood: "auto", "nnef" or "tract"."""


OPTIONS = tuple(ImportOptions.__annotations__)
"""The names of all of them."""


def import_model(
    source: Path,
    *,
    strict: bool = False,
    load_data: bool = True,
    progress: Progress | None = None,
    **options: Unpack[ImportOptions],
) -> Graph:
    """Read a model into the intermediate representation.

    Variables need data: files of the model, or `random_weights`.  A document that has none can be
    looked at with `load_data=False`.

    Args:
        source: A folder, an archive (.tar, .tgz, .tar.bz2, .tar.xz, .zip) or a bare `graph.nnef`.
        strict: NNEF 1.0.2 to the letter: what is otherwise a warning is an error.
        load_data: False leaves variables without data; such a graph can be printed, not compiled.
        progress: Called as `progress(done, total, label)` while much data is read.
        options: `shapes`, `scalar`, `integer`, `random_weights`, `quantize`, `limits`,
            `dialect`: see `ImportOptions`.

    Raises:
        NnefError: With all errors found; warnings are issued as `NnefWarning`.
    """
    check_names("import_model", options, OPTIONS)
    check_flags(strict=strict)
    check_progress(progress)
    graph, _ = _imported(source, strict, load_data, options, progress)
    assert isinstance(graph, Graph)
    return graph


def _imported(
    source: Path,
    strict: bool,
    load_data: bool,
    options: ImportOptions,
    progress: Progress | None,
    *,
    dynamic: bool = False,
) -> tuple[Graph | Source, list[str]]:
    """What a document is, and the warnings, which Python is given."""
    limits = check_limits(options.get("limits"))
    diagnostics = Diagnostics(strict=strict, limit=limits.errors)
    try:
        with watched(progress):
            found = read_with(source, diagnostics, dynamic, load_data=load_data, **options)
    finally:
        messages = [str(diagnostic) for diagnostic in diagnostics.warnings]
        for message in messages:
            warn_python(message)
    return found, messages


def import_with(
    source: Path,
    diagnostics: Diagnostics,
    *,
    load_data: bool = True,
    **options: Unpack[ImportOptions],
) -> Graph:
    """`import_model` for callers that collect the warnings themselves, or need no data."""
    graph = read_with(source, diagnostics, dynamic=False, load_data=load_data, **options)
    assert isinstance(graph, Graph)
    return graph


def read_with(
    source: Path,
    diagnostics: Diagnostics,
    dynamic: bool,
    *,
    shapes: Shapes | None = None,
    scalar: str = "float32",
    integer: str = "int32",
    random_weights: int | None = None,
    quantize: bool = True,
    load_data: bool = True,
    limits: Limits | None = None,
    dialect: str = "auto",
    sources: bool = False,
) -> Graph | Source:
    """What a document is: a graph, or a `Source` of graphs if it may be `dynamic`.

    It is one if shapes of inputs are not known, or operators keep states; if `sources` are wanted
    any document in the dialect of tract is.
    """
    from nnefc.frontends.read_model import read_model

    path, chosen, seed = check_import(source, shapes, random_weights)
    check_flags(quantize=quantize, load_data=load_data)
    with memory_for("import the model"):
        return read_model(
            path,
            diagnostics=diagnostics,
            shapes=chosen,
            scalar=_dtype("scalar", scalar, (DType.FLOAT32, DType.FLOAT64)),
            integer=_dtype("integer", integer, (DType.INT32, DType.INT64)),
            random_weights=seed,
            quantize=quantize,
            load_data=load_data,
            limits=check_limits(limits),
            dialect=check_dialect(dialect),
            dynamic=dynamic,
            sources=sources,
        )


def compile(
    source: Path | Graph,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    strict: bool = False,
    accuracy: Literal["fast", "strict"] = "fast",
    tuned: bool = True,
    keep: bool = True,
    **options: Unpack[ImportOptions],
) -> CompiledModel:
    """Compile a model to native code, or find it as it was compiled before.

    Variables need data: files of the model, or `random_weights`.

    Args:
        source: What `import_model` takes, or a graph from it, which is left as it is.
        threads: Threads a call may use, the calling one included; None: all usable CPUs.
        progress: Called as `progress(done, total, label)` while kernels are compiled, and before
            that while much data is read.
        strict: As for `import_model`; not with a graph.
        accuracy: "fast" may compute convolutions by Winograd's method, whose rounding errors are
            a few times larger: below 2e-4 of the largest result of a convolution; a NaN or an
            infinity spreads over some pixels more.  "strict" keeps to sums of products, below 1e-5.
        tuned: Compute convolutions as `tune` found to be fastest on this machine, where it has
            measured; False: as estimates suggest.
        keep: Keep the compiled model in the cache folder if it takes 4 MB or more, and take it from
            there when the same document is compiled the same way again.
        options: `shapes`, `scalar`, `integer`, `random_weights`, `quantize`, `limits`,
            `dialect`, as for `import_model`; not with a graph.

    Returns:
        A callable: arrays in the order of the graph's parameters in, one array or a tuple out.
        A document whose inputs have symbols for extents that `shapes` does not tell, or whose
        operators keep states, gives a `DynamicModel`, which takes arrays of any shapes that fit.

    Raises:
        NnefError: With all errors found.
    """
    from nnefc.model_cache.entry import ModelCacheEntry, NotCacheable

    check_names("compile", options, OPTIONS)
    threads = check_threads(threads)
    check_environment()
    check_accuracy(accuracy)
    check_progress(progress)
    check_flags(strict=strict, tuned=tuned, keep=keep)
    methods = methods_for(None if tuned else {}, threads, accuracy)
    if isinstance(source, Graph):
        graph = graph_of(source, strict=strict, **options)
        _require_stateless(graph)
    else:
        _, shapes, seed = check_import(source, options.get("shapes"), options.get("random_weights"))
        options |= {"shapes": shapes, "random_weights": seed}
        kept = None
        with suppress(NotCacheable):
            if keep:
                kept = ModelCacheEntry.of(
                    source,
                    options,
                    strict=strict,
                    threads=threads,
                    accuracy=accuracy,
                    methods=methods,
                )
        if kept is not None and (found := kept.find()):
            for message in found.warnings:
                warn_python(message)
            return found.model
        found, messages = _imported(source, strict, True, options, progress, dynamic=True)
        if not isinstance(found, Graph):
            from nnefc.dynamic.model import DynamicModel

            return DynamicModel(
                found,
                shapes or {},
                threads=threads,
                accuracy=accuracy,
                methods=methods,
                progress=progress,
            )
        graph = found
        if kept is not None and (model := kept.make(graph, messages, progress)):
            return model
    return compile_with(
        graph, threads=threads, progress=progress, accuracy=accuracy, methods=methods
    )


def _require_stateless(graph: Graph) -> None:
    """Raise NnefError for a graph of which states go in and out, which calls would not keep."""
    from nnefc.dynamic.states import only_sessions
    from nnefc.frontends.common.graph_names import kept_shapes

    if kept := kept_shapes(graph):
        raise only_sessions("a graph", kept)


def graph_of(source: Path | Graph, *, strict: bool, **options: Unpack[ImportOptions]) -> Graph:
    """The graph of a model, or the one that was given, for which there are no options."""
    if not isinstance(source, Graph):
        return import_model(source, strict=strict, **options)
    if given := [*options, *(["strict"] if strict else [])]:
        raise NnefError.of(
            "input/option",
            f"a graph is imported already: {', '.join(given)} cannot apply to it",
            hint="give what says how to import to import_model",
        )
    return source


def save_archive(path: Path, model: CompiledModel | Graph, *, overwrite: bool = False) -> None:
    """Write a model as an NNEF container: the flattened document and the data of its variables.

    Args:
        path: A name that ends in .tar, .tgz or .tar.gz; a folder if it has no suffix or ends
            in a slash.
        model: A graph, or a compiled model; the latter's variables are written with the
            values they have now.
        overwrite: Replace a file that is there; a folder that is not empty is never replaced.

    Raises:
        NnefError: If a variable has no data, or the container cannot be written.
    """
    from nnefc.formats.container import write_container
    from nnefc.formats.files import require_unchanged
    from nnefc.formats.given import require_path
    from nnefc.frontends.nnef.flatten import flatten

    require_path("the archive", path)
    if not hasattr(model, "graph") and not isinstance(model, Graph):
        raise NnefError.of(
            "input/argument",
            f"the model is given as {type(model).__name__}, expected a graph or a compiled model",
        )
    graph = model if isinstance(model, Graph) else model.graph
    stored = (
        {variable.label: variable.data for variable in graph.variables.values()}
        if isinstance(model, Graph)
        else dict(model.variables)
    )
    tensors = {label: data for label, data in stored.items() if data is not None}
    require_unchanged(tensors.values())
    missing = [label for label in stored if label not in tensors]
    if missing:
        raise NnefError.of("data/missing", f"variables without data: {', '.join(missing)}")
    write_container(path, graph_text=flatten(graph), tensors=tensors, overwrite=overwrite)


def check_model(
    source: Path, diagnostics: Diagnostics, limits: Limits, dialect: str = "auto"
) -> None:
    """Check a document with its data and quantization; nothing is compiled.

    Data that is not there is not an error: a document is valid without.  Symbols that no shape
    tells have small values for this, which a note names; operators that keep states are checked
    for a first call and for a second one.
    """
    from nnefc.frontends.common.graph_names import kept_shapes
    from nnefc.frontends.read_model import read_model
    from nnefc.frontends.tract.sample_shapes import try_out

    found = read_model(
        source,
        diagnostics=diagnostics,
        limits=limits,
        load_data=True,
        require_data=False,
        dialect=check_dialect(dialect),
    )
    if isinstance(found, Graph):
        return
    trial = try_out(found, {}, diagnostics)
    if trial.values:
        message = f"{found.name} is checked with {trial}: its inputs have symbols for extents"
        diagnostics.add(Diagnostic("tract/trial", message, Place(str(source)), "note"))
    if states := kept_shapes(trial.graph):
        found.graph(trial.shapes, diagnostics, states=states)


def _dtype(what: str, name: str, choices: tuple[DType, ...]) -> DType:
    for dtype in choices:
        if dtype.value == name:
            return dtype
    listed = " or ".join(dtype.value for dtype in choices)
    raise NnefError.of("input/dtype", f"{what} = {name!r}: must be {listed}")
