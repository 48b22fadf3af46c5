"""Compile serialized ONNX models."""

from __future__ import annotations

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
