"""Compile serialized ONNX models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from nnefc.options.compile_config import CompileConfig
from nnefc.options.import_config import ImportOptions, import_config
from nnefc.support.errors import warn_python

if TYPE_CHECKING:
    from nnefc.runtime.run.model_interface import Model


def compile_bytes(
    content: bytes, threads: int | None = None, **options: Unpack[ImportOptions]
) -> Model:
    """The model of a serialized ONNX model, as of `nnefc.compile`; raises NnefError.

    The model cache is not used.
    """
    from nnefc.artifacts.graph_origin import FromGraph
    from nnefc.driver.compile import check_environment, compile_graph
    from nnefc.driver.lower_graph import with_tuned_algorithms
    from nnefc.dynamic.dynamic_model import DynamicModel
    from nnefc.frontends.read_model import read_onnx_bytes
    from nnefc.ir import Graph

    check_environment()
    config = with_tuned_algorithms(CompileConfig.of(threads))
    importing = import_config("model.onnx", options)
    diagnostics = importing.diagnostics()
    found = read_onnx_bytes(content, importing, diagnostics)
    for warning in diagnostics.warnings:
        warn_python(str(warning))
    if isinstance(found, Graph):
        return compile_graph(found, config, origin=FromGraph(found, config))
    return DynamicModel.of(found, importing.shapes, config, None)


def check_operators_of(content: bytes) -> None:
    """Raise NnefError with all operators of a serialized model that are not supported."""
    from nnefc.formats.onnx.model_file import OnnxFile
    from nnefc.frontends.onnx.checks.check_operators import check_operators
    from nnefc.frontends.onnx.model import OnnxModel
    from nnefc.frontends.onnx.tensors import TensorReader

    importing = import_config("model.onnx", {})
    diagnostics, limits = importing.diagnostics(), importing.limits
    file = OnnxFile("the model", content)
    check_operators(
        OnnxModel(file.outline(), file.name, TensorReader(file, limits), limits), diagnostics
    )
    diagnostics.raise_errors()


def lengths_of_results(content: bytes, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The lengths of the results of a serialized model that are sequences, by name.

    Others have the numbers of `frontends.onnx.sequences.length_of`.  Raises NnefError.
    """
    from nnefc.frontends.onnx.read_model import read_onnx

    importing = import_config("model.onnx", {"shapes": shapes})
    source = read_onnx("the model", importing.limits, importing.diagnostics(), content=content)
    return source.lengths_of_results(importing.shapes)
