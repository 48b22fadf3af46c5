"""Convert a graph to an NNEF document with the data of its variables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nnefc.emit.convert.converted import Converted, ends_of
from nnefc.emit.convert.standard_operations import (
    beyond_standard,
    require_one_width,
    store_arrays,
    with_standard_operations,
)
from nnefc.formats.container_writer import write_container
from nnefc.formats.files import FilePath, require_unchanged
from nnefc.formats.paths import DOCUMENT, QUANTIZATION, label_path
from nnefc.formats.tensor_writer import Encoding
from nnefc.frontends.nnef.flatten import flattened
from nnefc.frontends.nnef.real_weights import with_real_weights
from nnefc.ir import Graph
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError
from nnefc.support.limits import Limits
from nnefc.support.progress import Progress

if TYPE_CHECKING:
    import numpy as np

    from nnefc.frontends.nnef.recorded import DocumentNodes

    Array = np.ndarray[Any, Any]

NOT_COUNTED: Final = ("variable", "constant", "dequantize_blocks")
"""Operations that only hold data."""


@dataclass(frozen=True, slots=True)
class NnefModel:
    """A document and the data of its variables."""

    converted: Converted
    text: str
    tensors: Mapping[str, Array]
    encodings: Mapping[str, Encoding] = field(default_factory=dict[str, Encoding])
    """How tensors are stored, where that does not follow from their arrays."""
    quantization: str | None = None
    """The quantization file."""
    codes: Mapping[str, str] = field(default_factory=dict[str, str])
    """The names of tensors that it quantizes, by those of their codes in the graph."""
    records: str | None = None
    """Records of the operators that groups of operations stand for."""

    def write(
        self, path: FilePath, progress: Progress | None = None, *, overwrite: bool = True
    ) -> None:
        """Write a container, whole or not at all; `overwrite`: a file that exists is replaced.

        Raises NnefError `container/...` or `data/...`.
        """
        require_unchanged(self.tensors.values())
        write_container(
            path,
            graph_text=self.text,
            tensors=self.tensors,
            encodings=self.encodings,
            quantization=self.quantization,
            records=self.records,
            overwrite=overwrite,
            progress=progress,
        )


def nnef_model(graph: Graph) -> NnefModel:
    """The document of a graph, in NNEF 1.0.2 as far as it has the operations.

    Raises NnefError `flatten/...` with everything that NNEF cannot say, `data/missing` for
    variables without data.
    """
    require_inputs(graph)
    require_fixed_results(graph)
    standard = with_standard_operations(with_real_weights(graph))
    store_arrays(standard)
    document = flattened(standard)
    require_one_width(standard)
    tensors = data_of(standard)
    inputs, results = ends_of(graph, document.inputs, document.results)
    beyond = Counter(what for op in standard.ops if (what := beyond_standard(op)))
    converted = Converted(
        dialect="NNEF" if beyond else "NNEF 1.0.2",
        operations=operation_counts(standard),
        inputs=inputs,
        results=results,
        weight_bytes=sum(array.nbytes for array in tensors.values()),
        beyond=dict(beyond),
    )
    return NnefModel(converted, document.text, tensors)


def operation_counts(graph: Graph) -> dict[str, int]:
    """The number of operations of a graph by name, the most frequent first."""
    counts = Counter(op.name for op in graph.ops if op.name not in NOT_COUNTED)
    return dict(counts.most_common())


def data_of(graph: Graph) -> dict[str, Array]:
    """The data of the variables by label; raises NnefError `data/missing`."""
    missing = [variable.label for variable in graph.variables.values() if variable.data is None]
    if missing:
        message = f"variables without data: {', '.join(missing)}"
        raise NnefError.of("data/missing", message)
    return {
        variable.label: variable.data
        for variable in graph.variables.values()
        if variable.data is not None
    }


def require_fixed_results(graph: Graph) -> None:
    """Raise NnefError `flatten/count` for results whose extents only a run tells."""
    problems = [
        Diagnostic(
            "flatten/count",
            f"axis {count.axis} of result '{graph.output_names[count.of]}' has an extent that only"
            " a run tells",
        )
        for count in graph.counts
    ]
    if problems:
        raise NnefError(problems)


def require_inputs(graph: Graph) -> None:
    """Raise NnefError `flatten/operation` for a graph without inputs."""
    if not graph.inputs:
        raise NnefError.of(
            "flatten/operation", "the model has no inputs, but a graph of NNEF has at least one"
        )


def read_again(model: NnefModel) -> DocumentNodes:
    """The operations of a document in standard NNEF, as its reader finds them."""
    from nnefc.formats.source_files import SourceFiles, container_of
    from nnefc.formats.tensor_file import StoredTensor
    from nnefc.frontends.nnef.import_model import recorded_document
    from nnefc.syntax.parser import parse

    texts = {DOCUMENT: model.text.encode()}
    if model.quantization is not None:
        texts[QUANTIZATION] = model.quantization.encode()
    tensors = {
        label_path(label, DOCUMENT): StoredTensor(array.shape, array)
        for label, array in model.tensors.items()
    }
    limits, diagnostics = Limits(), Diagnostics()
    files = SourceFiles(DOCUMENT, texts, tensors, None, {}, limits)
    document = parse(model.text, DOCUMENT, limits=limits, diagnostics=diagnostics)
    return recorded_document(document, container_of(files), diagnostics)
