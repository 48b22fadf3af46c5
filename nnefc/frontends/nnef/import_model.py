"""Import NNEF 1.0: from a parsed document with its container, or from text, to a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnefc.formats.container import Container
from nnefc.formats.paths import RECORDS
from nnefc.frontends.nnef.build_graph import Elaboration, ImportChoices, elaborate
from nnefc.frontends.nnef.variable_literals import StoredData
from nnefc.ir import DType, Graph
from nnefc.ops.custom import unregistered
from nnefc.options.import_config import DEFAULT, ImportConfig
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError, Place
from nnefc.support.limits import Limits
from nnefc.syntax import ast
from nnefc.syntax.parser import parse

if TYPE_CHECKING:
    from nnefc.frontends.common.operators.recorded import EvaluateRecord
    from nnefc.frontends.nnef.quantization import Quantization
    from nnefc.frontends.nnef.recorded import DocumentNodes


def import_document(
    document: ast.Document,
    container: Container,
    config: ImportConfig,
    diagnostics: Diagnostics,
    evaluate_record: EvaluateRecord | None = None,
) -> Graph:
    """The graph of a document, with its data and quantization.

    `evaluate_record`: evaluates the operators that records name; None ignores these.
    """
    choice = _choice(document, config)
    elaboration = _elaborated(document, config.limits, diagnostics, choice, container.tensor)
    entries = _with_data(elaboration, container, config, diagnostics)
    if config.quantize and entries:
        _quantize(elaboration, entries, container, config, diagnostics, evaluate_record)
    diagnostics.raise_errors()
    return elaboration.graph


def recorded_document(
    document: ast.Document, container: Container, diagnostics: Diagnostics
) -> DocumentNodes:
    """What records of a document in standard NNEF may refer to; raises NnefError."""
    from nnefc.frontends.nnef.recorded import DocumentNodes

    elaboration = _elaborated(document, Limits(), diagnostics, ImportChoices(), container.tensor)
    entries = _with_data(elaboration, container, DEFAULT, diagnostics)
    diagnostics.raise_errors()
    return DocumentNodes(elaboration, entries)


def import_text(
    text: str,
    file: str = "<text>",
    config: ImportConfig = DEFAULT,
    diagnostics: Diagnostics | None = None,
) -> Graph:
    """The graph of a document without data; `file` names it in messages.

    Raises NnefError with all errors; warnings go to `diagnostics`.
    """
    limits = config.limits
    diagnostics = diagnostics or config.diagnostics()
    document = parse(text, file, limits=limits, diagnostics=diagnostics)
    elaboration = _elaborated(document, limits, diagnostics, _choice(document, config))
    if config.random_weights is not None:
        from nnefc.frontends.nnef.variable_data import load_data

        load_data(elaboration.graph, None, diagnostics, random_weights=config.random_weights)
    return elaboration.graph


def check_document(
    document: ast.Document,
    *,
    limits: Limits | None = None,
    diagnostics: Diagnostics | None = None,
) -> None:
    """Check a document without its data; raises NnefError with all errors.

    Custom operations that are not registered are no error; expressions that depend on the
    shapes of their results are not checked.
    """
    limits = limits or Limits()
    diagnostics = diagnostics or Diagnostics(limit=limits.errors)
    elaborate(document, limits=limits, diagnostics=diagnostics)
    diagnostics.raise_errors()


def graph_of(document: ast.Document) -> Graph:
    """The graph of a document without data, with default options."""
    diagnostics = Diagnostics()
    return _elaborated(document, Limits(), diagnostics, ImportChoices()).graph


def _elaborated(
    document: ast.Document,
    limits: Limits,
    diagnostics: Diagnostics,
    choice: ImportChoices,
    stored: StoredData | None = None,
) -> Elaboration:
    elaboration = elaborate(
        document, limits=limits, diagnostics=diagnostics, choice=choice, stored=stored
    )
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


def _with_data(
    elaboration: Elaboration, container: Container, config: ImportConfig, diagnostics: Diagnostics
) -> list[Quantization]:
    """Load the data of variables; returns the entries of the quantization file."""
    from nnefc.frontends.nnef import quantization, variable_data

    entries: list[Quantization] = []
    text = container.quantization()
    if text is not None and container.quantization_file is not None:
        entries = quantization.read_quantization(
            text, container.quantization_file, elaboration, config.limits, diagnostics
        )
    if config.load_data:
        variable_data.load_data(
            elaboration.graph,
            container,
            diagnostics,
            random_weights=config.random_weights,
            require=config.require_data,
            codes=quantization.stored_codes(elaboration, entries, may_stay=config.quantize),
        )
    return entries


def _quantize(
    elaboration: Elaboration,
    entries: list[Quantization],
    container: Container,
    config: ImportConfig,
    diagnostics: Diagnostics,
    evaluate_record: EvaluateRecord | None,
) -> None:
    """Apply the quantization file, and the records of operators in the container.

    Records need data; without them, the operations are those of the document.
    """
    from nnefc.frontends.nnef.quantization import apply_quantization

    records = None
    has_data = all(each.data is not None for each in elaboration.graph.variables.values())
    if evaluate_record is not None and has_data and not diagnostics.errors:
        text = container.resource(RECORDS)
        if text is not None:
            from nnefc.frontends.nnef.recorded import DocumentRecords

            place = Place(container.graph_file)
            records = DocumentRecords.of(elaboration, entries, text, place, evaluate_record)
    quantized = apply_quantization(elaboration, entries, diagnostics)
    if records is not None and not diagnostics.errors:
        records.apply(elaboration.graph, quantized, config.limits)
        if (ignored := records.warning()) is not None:
            diagnostics.add(ignored)


def _choice(document: ast.Document, config: ImportConfig) -> ImportChoices:
    """The item types and input shapes of a configuration; raises NnefError `input/shape`."""
    chosen: dict[str, tuple[int, ...]] = {}
    problems: list[str] = []
    parameters = [p.name for p in document.graph.parameters]
    for name, shape in config.shapes.items():
        extents = tuple(shape)
        if name not in parameters:
            problems.append(f"the graph has no input '{name}'; it has {', '.join(parameters)}")
        elif not all(isinstance(n, int) and n > 0 for n in extents):
            problems.append(f"shape of '{name}' must be of positive integers, not {extents}")
        elif len(extents) > config.limits.rank:
            problems.append(
                f"shape of '{name}' has rank {len(extents)}; at most {config.limits.rank}"
            )
        chosen[name] = extents
    if problems:
        raise NnefError(Diagnostic("input/shape", problem) for problem in problems)
    return ImportChoices(scalar=DType(config.scalar), integer=DType(config.integer), shapes=chosen)
