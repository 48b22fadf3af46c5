"""Read an ONNX file: map it, parse its structure, check that every operator is known."""

from __future__ import annotations

import os
from collections.abc import Mapping

from nnefc.formats.onnx.model_file import OnnxFile
from nnefc.formats.source_files import SourceFiles
from nnefc.frontends.common.operators.recorded import EvaluateRecord
from nnefc.frontends.onnx.build_graph import check_without_inputs
from nnefc.frontends.onnx.checks.check_operators import check_operators
from nnefc.frontends.onnx.checks.expanded_size import check_expanded_size, check_recursion
from nnefc.frontends.onnx.model import OnnxModel
from nnefc.frontends.onnx.node import node_text
from nnefc.frontends.onnx.node_order import sort_nodes
from nnefc.frontends.onnx.signature import signature_of
from nnefc.frontends.onnx.source import OUTLINE, OnnxSource
from nnefc.frontends.onnx.tensors import Missing, TensorReader
from nnefc.support.errors import Diagnostics
from nnefc.support.limits import Limits


def read_onnx(
    path: str | os.PathLike[str],
    limits: Limits,
    diagnostics: Diagnostics,
    symbols: Mapping[str, int] | None = None,
    missing: Missing = None,
    content: bytes | None = None,
    evaluate_record: EvaluateRecord | None = None,
) -> OnnxSource:
    """The source of an ONNX file; raises NnefError with all errors of its structure.

    `missing`: what tensors are whose files do not exist; `content`: a model in memory, whose name
    is `path`; `evaluate_record`: see `OnnxModel`.
    """
    file = OnnxFile(path, content)
    tensors = TensorReader(file, limits, missing=missing)
    model = OnnxModel(file.outline(), file.name, tensors, limits, evaluate_record)
    return source_of_model(model, diagnostics, symbols)


def read_stored_onnx(
    files: SourceFiles, diagnostics: Diagnostics, evaluate_record: EvaluateRecord | None = None
) -> OnnxSource:
    """The source of a model that `OnnxSource.files` returned; raises NnefError."""
    tensors = TensorReader(None, files.limits, files.tensors)
    outline = files.texts[OUTLINE]
    model = OnnxModel(outline, files.file, tensors, files.limits, evaluate_record)
    return source_of_model(model, diagnostics, files.symbols).with_value_inputs(files.value_inputs)


def source_of_model(
    model: OnnxModel, diagnostics: Diagnostics, symbols: Mapping[str, int] | None = None
) -> OnnxSource:
    """The source of a parsed model; raises NnefError with all errors of its structure.

    Warns of graphs whose nodes are not sorted, and sorts them.
    """
    for node, name in sort_nodes(model.proto):
        what = node_text(node.op_type, node.name, node.output)
        message = f"{what}: a later node computes its input '{name}'"
        hint = "the standard asks for sorted nodes; nnefc has sorted them"
        diagnostics.warn("onnx/order", message, model.place, hint=hint)
    check_operators(model, diagnostics)
    if diagnostics.errors:
        check_without_inputs(model, diagnostics)
    check_recursion(model, diagnostics)
    check_expanded_size(model, diagnostics)
    signature = signature_of(model, diagnostics)
    diagnostics.raise_errors()
    return OnnxSource(model, signature, symbols)
