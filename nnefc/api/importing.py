"""Import a model: from files to a graph of the IR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from nnefc.formats.read_progress import reporting_to
from nnefc.frontends.read_model import read_model
from nnefc.ir import Graph
from nnefc.options.arguments import check_flags, check_names, check_progress
from nnefc.options.import_config import (
    IMPORT_OPTIONS,
    ImportConfig,
    ImportOptions,
    Path,
    import_config,
)
from nnefc.support.errors import NnefError, warn_python

if TYPE_CHECKING:
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.support.progress import Progress


def import_model(
    source: Path,
    *,
    strict: bool = False,
    load_data: bool = True,
    progress: Progress | None = None,
    **options: Unpack[ImportOptions],
) -> Graph:
    """Read a model into the intermediate representation.

    Variables need data: files of the model, or `random_weights`.  With `load_data=False` a document
    without data can be imported and printed.

    Args:
        source: A folder, an archive (.tar, .tgz, .tar.bz2, .tar.xz, .zip), a bare `graph.nnef`, or
            an ONNX or TensorFlow Lite file, for which `scalar`, `integer` and `quantize` mean
            nothing.
        strict: Accept NNEF 1.0.2 only: warnings are errors.
        load_data: False leaves variables without data; such a graph cannot be compiled.
        progress: Called as `progress(done, total, label)` while large files are read.
        options: `shapes`, `symbols`, `scalar`, `integer`, `random_weights`, `quantize`, `limits`,
            `dialect`: see `ImportOptions`.

    Raises:
        NnefError: With all errors.  Warnings are issued as `NnefWarning`.
    """
    check_names(import_model, options, IMPORT_OPTIONS)
    check_flags(strict=strict)
    check_progress(progress)
    config = import_config(source, options, strict=strict, load_data=load_data)
    graph, _ = read_with_warnings(source, config, progress, dynamic=False)
    assert isinstance(graph, Graph)
    return graph


def read_with_warnings(
    source: Path, config: ImportConfig, progress: Progress | None, *, dynamic: bool
) -> tuple[Graph | GraphSource, list[str]]:
    """The result of `read_model`, and the messages of its warnings, which are issued, too."""
    diagnostics = config.diagnostics()
    try:
        with reporting_to(progress):
            model = read_model(source, config, diagnostics, dynamic=dynamic)
    finally:
        messages = [str(diagnostic) for diagnostic in diagnostics.warnings]
        for message in messages:
            warn_python(message)
    return model, messages


def graph_from(source: Path | Graph, *, strict: bool, **options: Unpack[ImportOptions]) -> Graph:
    """The imported graph of a model; a graph is returned unchanged, and takes no options."""
    if not isinstance(source, Graph):
        return import_model(source, strict=strict, **options)
    if names := [*options, *(["strict"] if strict else [])]:
        raise NnefError.of(
            "input/option",
            f"a graph is imported already: {', '.join(names)} cannot apply to it",
            hint="pass options of the import to import_model",
        )
    return source
