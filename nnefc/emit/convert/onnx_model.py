"""Convert a graph to an ONNX model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from nnefc.emit.convert.complete_windows import complete_windows
from nnefc.emit.convert.converted import Converted, ends_of
from nnefc.emit.convert.nnef_model import operation_counts, require_fixed_results
from nnefc.emit.convert.onnx_operations import HANDLERS
from nnefc.emit.convert.onnx_writer import OnnxWriter, is_stored
from nnefc.emit.convert.standard_operations import without_dead_code
from nnefc.formats.atomic import replace_file
from nnefc.formats.files import FilePath
from nnefc.ir import Graph
from nnefc.passes.canonicalise.expand_compounds import ExpandCompounds
from nnefc.support.errors import NnefError, Place
from nnefc.support.progress import Progress

MAX_BYTES: Final = (1 << 31) - 1
"""The size of a protocol buffer message."""


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """A ModelProto with the weights in it."""

    converted: Converted
    proto: Any

    def write(self, path: FilePath, progress: Progress | None = None) -> None:
        """Write the file, whole or not at all; raises NnefError `data/...`."""
        size = self.proto.ByteSize()
        if size > MAX_BYTES:
            message = f"{size:,} bytes exceed the {MAX_BYTES:,} of a protocol buffer message"
            raise NnefError.of("data/length", message, Place(str(path)))
        if progress is not None:
            progress(0, size, "model")
        with replace_file(path, size) as file:
            file.write(self.proto.SerializeToString())


def onnx_model(graph: Graph) -> OnnxModel:
    """The ONNX model of a graph.

    Operations without an operator are composed of others, if they have an `expand`.  Raises
    NnefError `onnx/unsupported` with everything that cannot be written.
    """
    require_fixed_results(graph)
    require_no_updates(graph)
    copy = without_dead_code(graph)
    ExpandCompounds(only=lambda op: op.name not in HANDLERS).run(copy)
    complete_windows(copy)
    proto = OnnxWriter(copy, fused=False).model(HANDLERS)
    inputs, results = ends_of(
        graph, [value.name for value in graph.inputs], list(graph.output_names)
    )
    stored = {value for op in copy.ops for value in op.inputs if is_stored(value)}
    converted = Converted(
        dialect="ONNX, operators ai.onnx 17",
        operations=operation_counts(copy),
        inputs=inputs,
        results=results,
        weight_bytes=sum(int(value.type.nbytes) for value in stored),
    )
    return OnnxModel(converted, proto)


def require_no_updates(graph: Graph) -> None:
    """Raise NnefError `onnx/unsupported` for variables that the graph updates, and for states."""
    if graph.updated_labels or graph.states:
        message = "the model updates variables from call to call, which ONNX cannot say"
        raise NnefError.of("onnx/unsupported", message)
