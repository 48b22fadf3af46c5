"""Models to graphs: the container is opened, the document parsed, and the front end chosen."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal

from nnefc.formats.container import Container, open_container
from nnefc.frontends.common.graph_names import needs_session
from nnefc.frontends.tract.resources import rendered
from nnefc.ir import DType, Graph
from nnefc.support.errors import Diagnostics
from nnefc.support.limits import Limits
from nnefc.syntax.parser import decode, parse

if TYPE_CHECKING:
    from nnefc.frontends.tract.source import Source
    from nnefc.syntax import ast

Shapes = Mapping[str, Sequence[int]]
Dialect = Literal["auto", "nnef", "tract"]


def import_model(path: str | os.PathLike[str], **options: Any) -> Graph:
    """`read_model` of what has to be a graph: all symbols must have values."""
    graph = read_model(path, **options, dynamic=False)
    assert isinstance(graph, Graph)
    return graph


def read_model(
    path: str | os.PathLike[str],
    *,
    dialect: Dialect = "auto",
    limits: Limits | None = None,
    diagnostics: Diagnostics | None = None,
    shapes: Shapes | None = None,
    scalar: DType = DType.FLOAT32,
    integer: DType = DType.INT32,
    random_weights: int | None = None,
    quantize: bool = True,
    load_data: bool = True,
    require_data: bool = True,
    strict: bool = False,
    dynamic: bool = True,
    sources: bool = False,
) -> Graph | Source:
    """Read a model: document, data of variables, quantization.

    One whose inputs have shapes that are not known yet, or that keeps states, stays a `Source`,
    which gives graphs, if it may be `dynamic`.

    Args:
        path: A folder, a document (its folder supplies the data), or an archive.
        dialect: How the document is to be understood: as NNEF 1.0 or as sonos/tract does; "auto":
            as tract does if it names an extension of tract, and warnings are no errors.
        limits: Bounds on hostile input.
        diagnostics: Takes the warnings.
        shapes: Shapes of externals that replace those of the document, by name.
        scalar: Item type of `tensor<scalar>`; the dialect of tract has its own.
        integer: Item type of `tensor<integer>`, likewise.
        random_weights: Seed of the values of variables that have no data.
        quantize: Apply the quantization file, if there is one; it is checked in any case.
        load_data: Read the data of variables.
        require_data: Whether it is an error if there is none at all; data of some variables
            only is one in any case.
        strict: Warnings are errors (unless `diagnostics` is given, which says so itself).
        dynamic: Whether what is read may be a `Source`.
        sources: Documents in the dialect of tract are `Source`s in any case.

    Raises:
        NnefError: With all errors found.
    """
    limits = limits or Limits()
    diagnostics = diagnostics or Diagnostics(strict=strict, limit=limits.errors)
    allowed = dialect == "tract" or (dialect == "auto" and not diagnostics.strict)
    with ExitStack() as files:
        container = files.enter_context(open_container(path, limits=limits))
        text = decode(
            container.graph_text(), container.graph_file, limits=limits, diagnostics=diagnostics
        )
        file = container.graph_file
        if allowed and (dialect == "tract" or "tract_" in text):
            text, file = rendered(text, container, limits)
        document = parse(
            text,
            file,
            limits=limits,
            diagnostics=diagnostics,
            tract=None if allowed and dialect == "auto" else allowed,
        )
        if document.is_tract:
            source = _tract_source(
                document,
                container,
                limits,
                diagnostics,
                random_weights=random_weights,
                load_data=load_data and (require_data or bool(container.stored_names())),
            )
            source.require_inputs(shapes or {})
            if not sources and not (dynamic and source.unbound(shapes or {})):
                graph = source.graph(shapes or {}, diagnostics)
                if not (dynamic and needs_session(graph)):
                    return graph
            source.read_weights()
            files.pop_all()  # models within this one are read when they are needed
            return source
        from nnefc.frontends.nnef.model import import_document

        return import_document(
            document,
            container,
            limits,
            diagnostics,
            shapes=shapes,
            scalar=scalar,
            integer=integer,
            random_weights=random_weights,
            quantize=quantize,
            load_data=load_data,
            require_data=require_data,
        )


def _tract_source(
    document: ast.Document,
    container: Container,
    limits: Limits,
    diagnostics: Diagnostics,
    *,
    random_weights: int | None,
    load_data: bool,
) -> Source:
    from nnefc.frontends.tract.declarations import check_declarations
    from nnefc.frontends.tract.quantization import read_quantization
    from nnefc.frontends.tract.source import Source
    from nnefc.frontends.tract.weights import Weights

    check_declarations(document, diagnostics)
    quantization = read_quantization(container, limits, diagnostics)
    weights = Weights(container, diagnostics, random_weights=random_weights, load_data=load_data)
    return Source(document, weights, quantization, limits)
