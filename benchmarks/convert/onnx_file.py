"""Convert an imported graph to an ONNX file, as a good exporter would write it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.convert.onnx_operations import HANDLERS
from benchmarks.convert.patterns import simplify
from nnefc.emit.convert.onnx.files import with_data
from nnefc.emit.convert.onnx.model import require_no_updates
from nnefc.emit.convert.onnx.writer import OnnxWriter
from nnefc.ir import Graph


def onnx_model(graph: Graph, *, fused: bool = False) -> Any:
    """The ModelProto of an imported graph; raises NnefError for updated variables."""
    require_no_updates(graph)
    writer = OnnxWriter(simplify(graph), fused=fused)
    return with_data(writer.model(HANDLERS), writer.data_of)


def has_fused_form(graph: Graph) -> bool:
    """Whether a graph has operations that `fused` writes as one operator."""
    return any(op.name in ("attention", "gelu_tanh") for op in simplify(graph).ops)


def write_onnx(graph: Graph, path: Path, *, fused: bool = False) -> None:
    """Write an imported graph to a file; raises NnefError."""
    import_module("onnx").save(onnx_model(graph, fused=fused), str(path))
