"""Read a model: open the container, parse the document, run the front end of its dialect.

`read_model` is the first step of the pipeline, from files to a graph of the IR.  Functions import
the packages that read files: a model from the cache does not need them.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from nnefc.formats.paths import is_onnx, is_tflite, is_torch
from nnefc.ir import Graph
from nnefc.options.import_config import DEFAULT, ImportConfig, Path
from nnefc.support.errors import Diagnostics, NnefError, Place
from nnefc.support.memory_errors import memory_errors
from nnefc.support.wording import wording

if TYPE_CHECKING:
    from nnefc.formats.container import Container
    from nnefc.formats.source_files import SourceFiles
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.frontends.tract.source import TractSource
    from nnefc.syntax import ast


def read_graph(
    path: Path, config: ImportConfig = DEFAULT, diagnostics: Diagnostics | None = None
) -> Graph:
    """The graph of a model; all symbols in its shapes must have values.

    See `read_model` for the arguments.
    """
    graph = read_model(path, config, diagnostics, dynamic=False)
    assert isinstance(graph, Graph)
    return graph


def read_model(
    path: Path,
    config: ImportConfig = DEFAULT,
    diagnostics: Diagnostics | None = None,
    *,
    dynamic: bool = True,
    sources: bool = False,
) -> Graph | GraphSource:
    """The graph of a model, or a `GraphSource` that makes graphs for the shapes of a call.

    Args:
        path: A folder, a document (its folder supplies the data), an archive, an ONNX file, a
            TensorFlow Lite file, an nnpackage of such files, or a program of `torch.export.save`.
        config: How the document becomes a graph.
        diagnostics: Collects the warnings; None: they are dropped, or errors if `config` is strict.
        dynamic: Return a `GraphSource` if shapes of inputs have symbols without values, or if
            operators keep states; otherwise the former is an error.
        sources: Return a `GraphSource` for every ONNX and TensorFlow Lite model, and for every
            document in tract's dialect.

    Raises:
        NnefError: With all errors of the document, or if memory runs out.
    """
    with memory_errors("import the model"):
        return run_front_end(path, config, diagnostics or config.diagnostics(), dynamic, sources)


def run_front_end(
    path: Path, config: ImportConfig, diagnostics: Diagnostics, dynamic: bool, sources: bool
) -> Graph | GraphSource:
    """`read_model` without the conversion of MemoryError to NnefError."""
    if is_onnx(path):
        onnx = _onnx_source(path, config, diagnostics)
        return graph_or_source(onnx, config, diagnostics, dynamic, sources)
    if is_tflite(path):
        tflite = _tflite_source(path, config, diagnostics)
        return graph_or_source(tflite, config, diagnostics, dynamic, sources)
    if is_torch(path):
        torch = _torch_source(path, config)
        return graph_or_source(torch, config, diagnostics, dynamic, sources)
    from nnefc.formats.container import open_container
    from nnefc.formats.nnpackage.package_files import is_nnpackage

    if is_nnpackage(path):
        package = _tflite_source(path, config, diagnostics, is_package=True)
        return graph_or_source(package, config, diagnostics, dynamic, sources)
    with ExitStack() as files:
        container = files.enter_context(open_container(path, limits=config.limits))
        document = _parsed(container, config, diagnostics)
        if not document.is_tract:
            _refuse_symbols(config, container.graph_file)
            from nnefc.frontends.nnef.import_model import import_document
            from nnefc.frontends.recorded_operators import evaluate_record

            evaluate = evaluate_record if config.records else None
            return import_document(document, container, config, diagnostics, evaluate)
        source = _tract_source(document, container, config, diagnostics)
        model = graph_or_source(source, config, diagnostics, dynamic, sources)
        if model is source:
            files.pop_all()  # submodels are read when a graph needs them
        return model


def source_of(files: SourceFiles) -> GraphSource:
    """The source of the document in `files`, as `GraphSource.files` returned them."""
    from nnefc.formats.source_files import container_of

    seed = files.random_weights
    config = ImportConfig(
        symbols=files.symbols, chosen_limits=files.limits, random_weights=seed, dialect="tract"
    )
    diagnostics = config.diagnostics()
    with memory_errors("import the model"):
        if files.kind == "onnx":
            return _stored_onnx_source(files, diagnostics)
        if files.kind == "tflite":
            from nnefc.frontends.tflite.read_model import read_stored_tflite

            return read_stored_tflite(files, diagnostics)
        if files.kind == "torch":
            from nnefc.frontends.torch.source import read_stored_torch

            return read_stored_torch(files)
        if files.kind == "nnpackage":
            from nnefc.frontends.tflite.read_package import read_stored_package

            return read_stored_package(files, diagnostics)
        container = container_of(files)
        document = _parsed(container, config, diagnostics)
        source = _tract_source(document, container, config, diagnostics)
        source.read_weights()
    return source


def graph_or_source(
    source: GraphSource,
    config: ImportConfig,
    diagnostics: Diagnostics,
    dynamic: bool,
    sources: bool,
) -> Graph | GraphSource:
    """The graph of a source, or the source itself, with its weights read, if shapes are open.

    See `read_model` for `dynamic` and `sources`.
    """
    source.check(config.shapes)
    is_open = source.value_inputs or source.unbound(config.shapes)
    if not sources and not (dynamic and is_open):
        graph = source.graph(config.shapes, diagnostics)
        if not (dynamic and graph.needs_session):
            return graph
    source.read_weights()
    if not sources:
        source.check_nodes(config.shapes, diagnostics)
    return source


def read_onnx_bytes(
    content: bytes, config: ImportConfig, diagnostics: Diagnostics, *, dynamic: bool = True
) -> Graph | GraphSource:
    """The graph or the `GraphSource` of a serialized ONNX model; see `read_model`."""
    with memory_errors("import the model"):
        source = _onnx_source("the model", config, diagnostics, content)
        return graph_or_source(source, config, diagnostics, dynamic, sources=False)


def _stored_onnx_source(files: SourceFiles, diagnostics: Diagnostics) -> GraphSource:
    """The source of the ONNX model in `files`; raises as `_onnx_source` does."""
    from nnefc.frontends.onnx.package import require_onnx

    require_onnx(files.file)
    from nnefc.frontends.onnx.read_model import read_stored_onnx
    from nnefc.frontends.recorded_operators import evaluate_record

    return read_stored_onnx(files, diagnostics, evaluate_record)


def _onnx_source(
    path: Path, config: ImportConfig, diagnostics: Diagnostics, content: bytes | None = None
) -> GraphSource:
    """The source of an ONNX file; raises NnefError `onnx/package` without the package `onnx`."""
    from nnefc.formats.files import printable
    from nnefc.frontends.onnx.package import require_onnx

    file = printable(str(path))
    _refuse_dialect(config, file, "an ONNX model")
    require_onnx(file)
    from nnefc.frontends.onnx.read_model import read_onnx
    from nnefc.frontends.onnx.tensors import NO_DATA
    from nnefc.frontends.recorded_operators import evaluate_record

    seed, needs_data = config.random_weights, config.load_data and config.require_data
    missing = NO_DATA if seed is None and not needs_data else seed
    limits, symbols = config.limits, config.symbols
    evaluate = evaluate_record if config.records else None
    source = read_onnx(path, limits, diagnostics, symbols, missing, content, evaluate)
    return source.finding_value_inputs(config.shapes)


def _tflite_source(
    path: Path, config: ImportConfig, diagnostics: Diagnostics, *, is_package: bool = False
) -> GraphSource:
    """The source of a TensorFlow Lite file, or of an nnpackage of such files."""
    from nnefc.formats.files import printable

    _refuse_dialect(config, printable(str(path)), "a TensorFlow Lite model")
    if is_package:
        from nnefc.frontends.tflite.read_package import read_package

        return read_package(path, config.limits, diagnostics, config.shapes, config.symbols)
    from nnefc.frontends.tflite.read_model import read_tflite

    return read_tflite(path, config.limits, diagnostics, config.shapes, config.symbols)


def _torch_source(path: Path, config: ImportConfig) -> GraphSource:
    """The source of a program of `torch.export.save`."""
    from nnefc.formats.files import printable

    _refuse_dialect(config, printable(str(path)), "a program of PyTorch")
    from nnefc.frontends.torch.read_archive import read_torch

    return read_torch(path, config.limits, config.shapes, config.symbols)


def _refuse_dialect(config: ImportConfig, file: str, kind: str) -> None:
    """Raise NnefError for a dialect of NNEF; `kind`: a model of another format, as text."""
    if config.dialect != "auto":
        raise NnefError.of(
            "input/option",
            f"dialect = '{config.dialect}': {kind} has no dialect of NNEF",
            Place(file),
            "leave out --dialect or dialect=",
        )


def _refuse_symbols(config: ImportConfig, file: str) -> None:
    """Raise NnefError for values of symbols; documents in standard NNEF have none."""
    if config.symbols:
        raise NnefError.of(
            "input/symbol",
            f"{', '.join(config.symbols)}: a document in standard NNEF has no symbols",
            Place(file),
            wording("shapes={'NAME': EXTENTS}", "--shape NAME=EXTENTS")
            + " replaces the shape of an input",
        )


def _parsed(container: Container, config: ImportConfig, diagnostics: Diagnostics) -> ast.Document:
    """The syntax tree of the document in a container; templates of tract are expanded."""
    from nnefc.frontends.tract.render_template import rendered
    from nnefc.syntax.parser import decode, parse

    limits, dialect = config.limits, config.dialect
    file = container.graph_file
    text = decode(container.graph_text(), file, limits=limits, diagnostics=diagnostics)
    allowed = dialect == "tract" or (dialect == "auto" and not diagnostics.strict)
    if allowed and (dialect == "tract" or "tract_" in text):
        text, file = rendered(text, container, limits)
    return parse(
        text,
        file,
        limits=limits,
        diagnostics=diagnostics,
        tract=None if allowed and dialect == "auto" else allowed,
    )


def _tract_source(
    document: ast.Document, container: Container, config: ImportConfig, diagnostics: Diagnostics
) -> TractSource:
    from nnefc.frontends.tract.check_declarations import check_declarations
    from nnefc.frontends.tract.quantization import read_quantization
    from nnefc.frontends.tract.source import TractSource
    from nnefc.frontends.tract.weights import Weights

    check_declarations(document, diagnostics)
    quantization = read_quantization(container, config.limits, diagnostics)
    weights = Weights(
        container,
        diagnostics,
        random_weights=config.random_weights,
        load_data=config.load_data and (config.require_data or bool(container.stored_names())),
    )
    return TractSource(document, weights, quantization, config.limits, config.symbols)
