"""Compile a subgraph of a TensorFlow Lite model for shapes of its inputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nnefc.formats.tflite.model import Model as File
from nnefc.formats.tflite.model_file import map_model, read_model_bytes
from nnefc.frontends.tflite.source import TfliteSource
from nnefc.options.import_config import import_config
from nnefc.support.errors import NnefError, warn_python

if TYPE_CHECKING:
    from nnefc.dynamic.dynamic_model import DynamicModel
    from nnefc.runtime.run.model_interface import Model

Shapes = Sequence[tuple[int, ...]]


@dataclass(frozen=True)
class ModelContent:
    """A model, its bytes, and its path if it is a file."""

    file: File
    content: memoryview
    path: str | os.PathLike[str] | None = None

    @classmethod
    def of_path(cls, path: str | os.PathLike[str]) -> ModelContent:
        """The model of a file; raises NnefError with all errors of its structure."""
        name, content = map_model(path)
        return cls(_read(content, name), content, path)

    @classmethod
    def of_bytes(cls, content: bytes | bytearray | memoryview) -> ModelContent:
        """The model in memory; raises NnefError with all errors of its structure."""
        copied = memoryview(bytes(content))
        return cls(_read(copied, "the model"), copied)

    def compiled(self, subgraph: int, shapes: Shapes, threads: int | None) -> Model:
        """A subgraph for shapes of its inputs, in order; raises NnefError with all errors.

        The main subgraph of a file is opened from the model cache if it was compiled before.
        """
        limits = import_config("model.tflite", {}).limits
        chosen = _with_main(self.file, subgraph)
        main = chosen.subgraphs[0]
        names = TfliteSource(chosen, self.content, limits).inputs
        inputs = [main.tensors[i] for i in main.inputs]
        named = {
            name: shape
            for name, shape, tensor in zip(names, shapes, inputs, strict=True)
            if shape != tensor.shape or -1 in tensor.signature
        }
        if self.path is not None and subgraph == 0:
            from nnefc.api.compile import compile

            return compile(self.path, threads=threads, shapes=named)
        return _compiled(chosen, self.content, named, threads)

    def symbolic(self, subgraph: int, signatures: Shapes, threads: int | None) -> DynamicModel:
        """A subgraph for all shapes of its inputs with these signatures; raises NnefError.

        Extents of -1 vary.  The main subgraph is opened from the model cache if the signatures are
        those of the file.
        """
        from nnefc.dynamic.dynamic_model import DynamicModel

        chosen = _with_main(self.file, subgraph)
        main = chosen.subgraphs[0]
        of_file = [main.tensors[i].signature or main.tensors[i].shape for i in main.inputs]
        if self.path is not None and subgraph == 0 and of_file == list(signatures):
            from nnefc.api.compile import compile

            model = compile(self.path, threads=threads)
        else:
            tensors = list(main.tensors)
            for i, signature in zip(main.inputs, signatures, strict=True):
                tensors[i] = replace(tensors[i], signature=signature)
            varying = replace(main, tensors=tensors)
            chosen = replace(chosen, subgraphs=[varying, *chosen.subgraphs[1:]])
            model = _compiled(chosen, self.content, {}, threads)
        assert isinstance(model, DynamicModel), "shapes vary"
        return model


def _read(content: memoryview, name: str) -> File:
    config = import_config("model.tflite", {})
    return read_model_bytes(content, name, config.limits, config.diagnostics())


def _with_main(file: File, subgraph: int) -> File:
    """The model with another main subgraph; raises NnefError if they share variables."""
    if subgraph == 0:
        return file
    if any(each.name == "VAR_HANDLE" for graph in file.subgraphs for each in graph.operators):
        message = f"subgraph {subgraph} shares resource variables with others: "
        raise NnefError.of("tflite/unsupported", message + "only the main subgraph can be run")
    main = replace(file.subgraphs[subgraph], index=0)
    signatures = [
        replace(each, subgraph=0) for each in file.signatures if each.subgraph == subgraph
    ]
    return replace(file, subgraphs=[main, *file.subgraphs[1:]], signatures=signatures)


def _compiled(
    file: File, content: memoryview, shapes: Mapping[str, Sequence[int]], threads: int | None
) -> Model:
    """The compiled main subgraph of a model; the model cache is not used."""
    from nnefc.artifacts.graph_origin import FromGraph
    from nnefc.driver.compile import check_environment, compile_graph
    from nnefc.driver.lower_graph import with_tuned_algorithms
    from nnefc.dynamic.dynamic_model import DynamicModel
    from nnefc.frontends.read_model import graph_or_source
    from nnefc.frontends.tflite.check_operators import check_operators
    from nnefc.ir import Graph
    from nnefc.options.compile_config import CompileConfig
    from nnefc.support.memory_errors import memory_errors

    check_environment()
    config = with_tuned_algorithms(CompileConfig.of(threads))
    importing = import_config("model.tflite", {"shapes": shapes})
    diagnostics = importing.diagnostics()
    with memory_errors("import the model"):
        check_operators(file, diagnostics)
        diagnostics.raise_errors()
        source = TfliteSource(file, content, importing.limits, shapes)
        found = graph_or_source(source, importing, diagnostics, dynamic=True, sources=False)
    for warning in diagnostics.warnings:
        warn_python(str(warning))
    if isinstance(found, Graph):
        return compile_graph(found, config, origin=FromGraph(found, config))
    return DynamicModel.of(found, importing.shapes, config, None)
