"""TensorFlow Lite models as graph sources: one model, graphs for any input shapes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from nnefc.formats.source_files import SourceFiles
from nnefc.formats.tflite.model import Model, Tensor
from nnefc.frontends.common.graph_names import output_names
from nnefc.frontends.common.graph_source import DeclaredOutput
from nnefc.frontends.common.graph_states import GraphStates
from nnefc.frontends.common.graph_variables import VariableNames
from nnefc.frontends.common.signature import Signature, SymbolicInput
from nnefc.frontends.common.symbolic_source import SymbolicSource
from nnefc.frontends.common.values import Array
from nnefc.frontends.tflite.build_graph import build_graph
from nnefc.frontends.tflite.tensors import DTYPES
from nnefc.ir import DType, Graph
from nnefc.support.errors import Diagnostics, Place
from nnefc.support.limits import Limits
from nnefc.syntax import ast

CONTENT: Final = "model.tflite"
"""The path of the model among the texts of `SourceFiles`."""
SHAPES: Final = "shapes.json"
"""The path of the shapes of inputs that replace those of the model."""


class TfliteSource(SymbolicSource):
    """A model; implements `GraphSource`."""

    def __init__(
        self,
        model: Model,
        content: bytes | memoryview,
        limits: Limits,
        shapes: Mapping[str, Sequence[int]] | None = None,
        given: Mapping[str, int] | None = None,
        *,
        in_reals: bool = False,
    ) -> None:
        """`shapes`: of inputs, which replace those of the file; `given`: values of symbols.

        `in_reals`: operators on codes are computed in reals, see `real_form`.
        """
        main = model.subgraphs[0]
        names = model.names(0)
        inputs = [
            (names.inputs.get(i) if names else None) or main.tensors[i].name or f"input_{i}"
            for i in main.inputs
        ]
        outputs = [
            (names.outputs.get(i) if names else None) or main.tensors[i].name or f"output_{i}"
            for i in main.outputs
        ]
        self.model = model
        self.limits = limits
        self._content = content
        self._in_reals = in_reals
        self._entropy = int.from_bytes(os.urandom(8), "little")
        self._shapes = {name: tuple(shape) for name, shape in (shapes or {}).items()}
        self._names = VariableNames()
        unique = output_names(inputs)
        declared: list[SymbolicInput] = []
        for name, index in zip(unique, main.inputs, strict=True):
            tensor = main.tensors[index]
            shape = (shapes or {}).get(name)
            extents = _extents(name, tensor) if shape is None else _literals(shape)
            dtype = DTYPES.get(tensor.type, DType.FLOAT32)
            declared.append(SymbolicInput(name, Place(model.file), extents, dtype))
        super().__init__(Signature(tuple(declared)), unique, given)
        self.name = main.name or "graph"
        self.outputs = output_names(outputs)

    def with_symbols(self, values: Mapping[str, int]) -> TfliteSource:
        """A source of the same model, in which exactly these symbols are `given`."""
        return self._with(values, in_reals=self._in_reals)

    def real_form(self) -> TfliteSource:
        """A source of the same model whose operators on codes are computed in reals."""
        return self._with(self.given, in_reals=True)

    def _with(self, given: Mapping[str, int], *, in_reals: bool) -> TfliteSource:
        """A source of the same model with these options."""
        shapes = self._shapes
        return TfliteSource(
            self.model, self._content, self.limits, shapes, given, in_reals=in_reals
        )

    @property
    def growing_axes(self) -> Mapping[str, int]:
        """Empty: states have fixed shapes."""
        return {}

    def read_weights(self) -> None:
        """Nothing: weights are views of the file."""

    def arrays(self) -> Iterable[Array]:
        """Empty: graphs share the mapped file."""
        return ()

    def files(self) -> SourceFiles:
        """The model, as its file has it, and the shapes of inputs that replace its own."""
        texts = {CONTENT: bytes(self._content), SHAPES: json.dumps(self._shapes).encode()}
        given = dict(self.given)
        return SourceFiles(self.model.file, texts, {}, None, given, self.limits, "tflite")

    def models(self) -> Sequence[tuple[Model, memoryview]]:
        """The models of the network and their files."""
        return [(self.model, memoryview(self._content))]

    def declared_outputs(self) -> list[DeclaredOutput]:
        """Empty: with other shapes of inputs, outputs have other shapes than the file says."""
        return []

    def description(self) -> dict[str, Any]:
        """The description, the operators, the signatures and the metadata."""
        from nnefc.formats.tflite.metadata import describe_metadata

        main = self.model.subgraphs[0]
        metadata = [
            {"file": model.file, **describe_metadata(model, content)}
            for model, content in self.models()
        ]
        return {
            "dialect": "tflite",
            "description": self.model.description,
            "operators": sorted({f"{each.full_name} {each.version}" for each in main.operators}),
            "signatures": [
                {
                    "key": each.key,
                    "subgraph": each.subgraph,
                    "inputs": list(each.inputs.values()),
                    "outputs": list(each.outputs.values()),
                }
                for each in self.model.signatures
            ],
            "metadata": metadata,
            "symbols": self.signature.all_symbols,
        }

    def graph(
        self,
        shapes: Mapping[str, Sequence[int]],
        diagnostics: Diagnostics | None = None,
        *,
        states: Mapping[str, Sequence[int]] | None = None,
        lifted: Mapping[str, int] | None = None,
        in_place: bool = True,
        capacity: int | None = None,
    ) -> Graph:
        """The graph for input `shapes` by name; raises NnefError with all errors.

        `lifted`: values of the symbols, which may be symbolic (`nnefc.symbolic.integers`).
        """
        diagnostics = diagnostics or Diagnostics(limit=self.limits.errors)
        self.require_inputs(shapes)
        chosen, _ = self.bound(shapes, lifted)
        stored = GraphStates(states or {}, capacity)
        names, model = self._names, self.model
        return build_graph(
            model,
            self.inputs,
            self.outputs,
            chosen,
            self.limits,
            names,
            stored,
            diagnostics,
            in_reals=self._in_reals,
            entropy=self._entropy,
        )


def _literals(shape: Sequence[int]) -> tuple[ast.Expression, ...]:
    return tuple(ast.Literal_(0, extent) for extent in shape)


def _extents(name: str, tensor: Tensor) -> tuple[ast.Expression, ...]:
    """The extents of an input of the file; each -1 in its shape signature is another symbol."""
    if len(tensor.signature) != len(tensor.shape):
        return _literals(tensor.shape)
    return tuple(
        ast.Identifier(0, f"{name}_{axis}") if declared == -1 else ast.Literal_(0, extent)
        for axis, (declared, extent) in enumerate(zip(tensor.signature, tensor.shape, strict=True))
    )
