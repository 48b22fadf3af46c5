"""Write a model as an NNEF archive, or as an ONNX file."""

from __future__ import annotations

import os
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Final

from nnefc.ir import Graph
from nnefc.options.import_config import Path
from nnefc.support.errors import NnefError, Place

if TYPE_CHECKING:
    from nnefc.runtime.run.model_interface import Model

_CODES: Final = ("quantize", "dequantize_blocks")
"""Operations of quantized graphs that documents of NNEF write in other ways."""


def save_archive(path: Path, model: Model | Graph, *, overwrite: bool = False) -> None:
    """Write a model as an NNEF container: the flattened document and the data of its variables.

    A quantized graph has a document with graph.quant, or one in the dialect of tract where NNEF
    cannot say what it computes.

    Args:
        path: A name that ends in .tar, .tgz or .tar.gz; a folder if it has no suffix or ends
            in a slash.  A name that ends in .onnx is an ONNX file.
        model: A graph, or a compiled model, whose variables are written with their current
            values.
        overwrite: Replace an existing file; a folder that is not empty is never replaced.

    Raises:
        NnefError: If a variable has no data, or the container cannot be written.
    """
    from nnefc.formats.container import write_container
    from nnefc.formats.files import require_path, require_unchanged
    from nnefc.frontends.nnef.flatten import flatten
    from nnefc.frontends.nnef.real_weights import with_real_weights

    require_path("the archive", path)
    if not hasattr(model, "graph") and not isinstance(model, Graph):
        raise NnefError.of(
            "input/argument",
            f"the model is given as {type(model).__name__}, expected a graph or a compiled model",
        )
    source = model if isinstance(model, Graph) else model.graph
    if os.fspath(path).lower().endswith(".onnx"):
        _save_onnx(FilePath(path), source, overwrite=overwrite)
        return
    if any(op.name in _CODES for op in source.ops):
        _save_codes(path, source, overwrite=overwrite)
        return
    graph = with_real_weights(source)
    stored = {variable.label: variable.data for variable in graph.variables.values()}
    if not isinstance(model, Graph):
        for label, data in model.variables.items():
            if graph.variables[label.lower()] is source.variables[label.lower()]:
                stored[label] = data
    tensors = {label: data for label, data in stored.items() if data is not None}
    require_unchanged(tensors.values())
    missing = [label for label in stored if label not in tensors]
    if missing:
        raise NnefError.of("data/missing", f"variables without data: {', '.join(missing)}")
    write_container(path, graph_text=flatten(graph), tensors=tensors, overwrite=overwrite)


def _save_codes(path: Path, graph: Graph, *, overwrite: bool) -> None:
    """Write a quantized graph as a container."""
    from nnefc.emit.convert.extents import Extents
    from nnefc.emit.convert.nnef_quantized import document_of_codes
    from nnefc.emit.convert.tract_model import tract_model
    from nnefc.support.block_formats import TRACT_FORMATS

    if any(op.name == "dequantize_blocks" for op in graph.ops):
        document = tract_model(graph, Extents(), ["weights in blocks"], TRACT_FORMATS)
    else:
        document = document_of_codes(graph, Extents())
    document.write(path, overwrite=overwrite)


def _save_onnx(path: FilePath, graph: Graph, *, overwrite: bool) -> None:
    """Write a graph as an ONNX file."""
    from nnefc.frontends.onnx.package import require_onnx

    require_onnx(str(path))
    from nnefc.emit.convert.onnx.model import onnx_model

    if not overwrite and path.exists():
        place, hint = Place(str(path)), "pass overwrite=True to replace it"
        raise NnefError.of("container/exists", "the file exists", place, hint)
    onnx_model(graph).write(path)
