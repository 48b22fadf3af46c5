"""Import: a parsed document with its container, or a text, to a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnefc.formats.container import Container
from nnefc.frontends.nnef.custom import unregistered
from nnefc.frontends.nnef.document import Choice, Elaboration, elaborate
from nnefc.ir import DType, Graph
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError
from nnefc.support.limits import Limits
from nnefc.syntax import ast
from nnefc.syntax.parser import parse

Shapes = Mapping[str, Sequence[int]]


def import_document(
    document: ast.Document,
    container: Container,
    limits: Limits,
    diagnostics: Diagnostics,
    *,
    shapes: Shapes | None,
    scalar: DType,
    integer: DType,
    random_weights: int | None,
    quantize: bool,
    load_data: bool,
    require_data: bool,
) -> Graph:
    """The graph of a document with data and quantization; see `nnefc.frontends.read_model`."""
    choice = _choice(document, shapes, scalar, integer, limits)
    elaboration = _elaborated(document, limits, diagnostics, choice)
    _attach(
        elaboration,
        container,
        limits,
        diagnostics,
        random_weights=random_weights,
        quantize=quantize,
        load_data=load_data,
        require_data=require_data,
    )
    return elaboration.graph


def import_text(
    text: str,
    file: str = "<text>",
    *,
    limits: Limits | None = None,
    diagnostics: Diagnostics | None = None,
    shapes: Shapes | None = None,
    scalar: DType = DType.FLOAT32,
    integer: DType = DType.INT32,
    random_weights: int | None = None,
    strict: bool = False,
) -> Graph:
    """Read a document that has no data; see `nnefc.frontends.read_model`.

    `file` names it in messages.
    """
    limits = limits or Limits()
    diagnostics = diagnostics or Diagnostics(strict=strict, limit=limits.errors)
    document = parse(text, file, limits=limits, diagnostics=diagnostics)
    choice = _choice(document, shapes, scalar, integer, limits)
    elaboration = _elaborated(document, limits, diagnostics, choice)
    if random_weights is not None:
        from nnefc.frontends.nnef.data import load_data

        load_data(elaboration.graph, None, diagnostics, random_weights=random_weights)
    return elaboration.graph


def check_document(
    document: ast.Document,
    *,
    limits: Limits | None = None,
    diagnostics: Diagnostics | None = None,
) -> None:
    """Check a document by itself; raises NnefError with all errors.

    Custom operations that nobody registered are no error; what depends on the shapes of
    their results is not checked.
    """
    limits = limits or Limits()
    diagnostics = diagnostics or Diagnostics(limit=limits.errors)
    elaborate(document, limits=limits, diagnostics=diagnostics)
    diagnostics.raise_errors()


def graph_of(document: ast.Document) -> Graph:
    """The graph of a document that stands by itself."""
    diagnostics = Diagnostics()
    return _elaborated(document, Limits(), diagnostics, Choice()).graph


def _elaborated(
    document: ast.Document, limits: Limits, diagnostics: Diagnostics, choice: Choice
) -> Elaboration:
    elaboration = elaborate(document, limits=limits, diagnostics=diagnostics, choice=choice)
    diagnostics.raise_errors()
    if not elaboration.complete:
        missing = [
            unregistered(name, document.source.place(declaration.fragment.at))
            for name, declaration in elaboration.scope.declared.items()
            if declaration.spec is None and declaration.fragment.body is None
        ]
        assert missing, "only an operation that is not known leaves a graph incomplete"
        raise NnefError(missing)
    return elaboration


def _attach(
    elaboration: Elaboration,
    container: Container,
    limits: Limits,
    diagnostics: Diagnostics,
    *,
    random_weights: int | None,
    quantize: bool,
    load_data: bool,
    require_data: bool,
) -> None:
    """Data and quantization."""
    from nnefc.frontends.nnef import data, quantization

    entries: list[quantization.Quantization] = []
    text = container.quantization()
    if text is not None and container.quantization_file is not None:
        entries = quantization.read_quantization(
            text, container.quantization_file, elaboration, limits, diagnostics
        )
    if load_data:
        data.load_data(
            elaboration.graph,
            container,
            diagnostics,
            random_weights=random_weights,
            require=require_data,
            dequantize=quantization.decoders(elaboration, entries),
        )
    if quantize and entries:
        quantization.apply_quantization(elaboration, entries, diagnostics)
    diagnostics.raise_errors()


def _choice(
    document: ast.Document,
    shapes: Shapes | None,
    scalar: DType,
    integer: DType,
    limits: Limits,
) -> Choice:
    """Check the caller's choices. Raises NnefError `input/shape` naming all that is wrong."""
    chosen: dict[str, tuple[int, ...]] = {}
    problems: list[str] = []
    parameters = [p.name for p in document.graph.parameters]
    for name, shape in (shapes or {}).items():
        extents = tuple(shape)
        if name not in parameters:
            problems.append(f"the graph has no input '{name}'; it has {', '.join(parameters)}")
        elif not all(isinstance(n, int) and n > 0 for n in extents):
            problems.append(f"shape of '{name}' must be of positive integers, not {extents}")
        elif len(extents) > limits.rank:
            problems.append(f"shape of '{name}' has rank {len(extents)}; at most {limits.rank}")
        chosen[name] = extents
    if problems:
        raise NnefError(Diagnostic("input/shape", problem) for problem in problems)
    return Choice(scalar=scalar, integer=integer, shapes=chosen)
