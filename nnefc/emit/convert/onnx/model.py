"""Convert a graph to an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nnefc.emit.convert.complete_windows import complete_windows
from nnefc.emit.convert.converted import Converted, ends_of
from nnefc.emit.convert.extents import Extents, require_values, symbolic_form
from nnefc.emit.convert.nnef_model import operation_counts
from nnefc.emit.convert.onnx.blocks import BLOCKS, packed_bytes
from nnefc.emit.convert.onnx.control_flow import CONTROL_FLOW
from nnefc.emit.convert.onnx.detection import DETECTION
from nnefc.emit.convert.onnx.extended import EXTENDED
from nnefc.emit.convert.onnx.files import with_data, write_onnx
from nnefc.emit.convert.onnx.fourier import FOURIER
from nnefc.emit.convert.onnx.operations import HANDLERS
from nnefc.emit.convert.onnx.opset import opset_of
from nnefc.emit.convert.onnx.quantized import CONVERSIONS, is_linear
from nnefc.emit.convert.onnx.writer import OnnxWriter
from nnefc.emit.convert.standard_operations import without_dead_code
from nnefc.emit.convert.suppression import suppressions_as_loops
from nnefc.emit.convert.weighted_gather import weighted_gathers_as_loops
from nnefc.formats.files import FilePath, require_unchanged
from nnefc.frontends.common.graph_source import GraphSource, Shapes
from nnefc.ir import DType, Graph, Op
from nnefc.ir.graph import walk
from nnefc.ops.tools.cost import stored_bytes
from nnefc.passes.canonicalise.expand_compounds import ExpandCompounds
from nnefc.support.block_formats import BLOCK_BYTES
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.progress import Progress

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


WRITTEN: Final = {
    **{**HANDLERS, **EXTENDED, **DETECTION, **FOURIER, **CONVERSIONS, **CONTROL_FLOW},
    **BLOCKS,
}
"""The handlers of all operations."""


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """A ModelProto, and the data of its large initializers."""

    converted: Converted
    outline: Any
    """The ModelProto without these data."""
    data: Mapping[str, Array]

    @property
    def proto(self) -> Any:
        """A new ModelProto with all data in it."""
        return with_data(self.outline, self.data)

    def write(
        self, path: FilePath, progress: Progress | None = None, *, external: bool = False
    ) -> list[Path]:
        """Write the file, whole or not at all; returns the files.  Raises NnefError `data/...`.

        The data of large tensors go to `PATH.data` if they are `external`, or above 2 GiB.
        """
        require_unchanged(self.data.values())
        return write_onnx(path, self.outline, self.data, external=external, progress=progress)


def onnx_model_of(
    model: Graph | GraphSource, shapes: Shapes, diagnostics: Diagnostics
) -> OnnxModel:
    """The ONNX model of a graph, or of a source whose extents are symbols where `shapes` has none.

    `diagnostics`: receives the warnings of a source.  Raises NnefError as `onnx_model` does, and
    `flatten/symbol` or `flatten/value` for values that a model needs.
    """
    if isinstance(model, Graph):
        return onnx_model(model)
    require_values(model, shapes)
    return onnx_model(*symbolic_form(model, shapes, diagnostics))


def onnx_model(graph: Graph, extents: Extents | None = None) -> OnnxModel:
    """The ONNX model of a graph, whose extents may depend on symbols.

    Operations without an operator are composed of others, if they have an `expand`.  Raises
    NnefError `onnx/unsupported` with everything that cannot be written, `flatten/symbol` for
    symbols whose values decide what is written.
    """
    require_no_updates(graph)
    copy = without_dead_code(graph, keeps_branches=True, blocks=BLOCK_BYTES)
    suppressions_as_loops(copy, only=lambda op: op.inputs[1].type.dtype is DType.FLOAT64)
    weighted_gathers_as_loops(copy)
    for each in _graphs(copy):
        ExpandCompounds(only=lambda op: not _is_written(op)).run(each)
        complete_windows(each)
    extents = extents or Extents()
    opset = opset_of(copy)
    writer = OnnxWriter(copy, opset=opset, extents=extents)
    outline = writer.model(WRITTEN)
    extents.require_open()
    counts = {count.output for count in graph.counts}
    names = [name for i, name in enumerate(graph.output_names) if i not in counts]
    inputs, results = ends_of(graph, [value.name for value in graph.inputs], names, extents)
    converted = Converted(
        dialect=f"ONNX, operators ai.onnx {opset}",
        operations=operation_counts(copy),
        inputs=inputs,
        results=results,
        weight_bytes=stored_bytes(copy) + packed_bytes(copy),
    )
    return OnnxModel(converted, outline, writer.data_of)


def _graphs(graph: Graph) -> list[Graph]:
    """A graph and the bodies of its operations."""
    return [graph, *(body for op in walk(graph) for body in op.bodies)]


def _is_written(op: Op) -> bool:
    """Whether a handler writes an operation as it is."""
    return op.name in WRITTEN and (op.name not in CONVERSIONS or is_linear(op))


def require_no_updates(graph: Graph) -> None:
    """Raise NnefError `onnx/unsupported` for variables that the graph updates, and for states."""
    if graph.updated_labels or graph.states:
        message = "the model updates variables from call to call, which ONNX cannot say"
        raise NnefError.of("onnx/unsupported", message)
