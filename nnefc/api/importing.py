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
    check_names("import_model", options, IMPORT_OPTIONS)
    check_flags(strict=strict)
    check_progress(progress)
    config = import_config(source, options, strict=strict, load_data=load_data)
    graph, _ = read_with_warnings(source, config, progress, dynamic=False)
    assert isinstance(graph, Graph)
    return graph


def read_with_warnings(
    source: Path, config: ImportConfig, progress: Progress | None, *, dynamic: bool
) -> tuple[Graph | GraphSource, list[str]]:
    """What `read_model` returns, and the messages of the warnings, which are issued as well."""
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
    """The imported graph of a model; a graph is returned as it is, and takes no options."""
    if not isinstance(source, Graph):
        return import_model(source, strict=strict, **options)
    if given := [*options, *(["strict"] if strict else [])]:
        raise NnefError.of(
            "input/option",
            f"a graph is imported already: {', '.join(given)} cannot apply to it",
            hint="give what says how to import to import_model",
        )
    return source
