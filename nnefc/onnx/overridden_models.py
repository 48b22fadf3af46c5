"""Models some of whose initializers are arrays of a call: compiled for the names of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onnx import ModelProto

from nnefc.onnx.counting_model import CountingModel
from nnefc.onnx.kept_models import KeptModels

_MAX_MODELS: Final = 8
"""Compiled models that are kept for other calls."""


class OverriddenModels:
    """Compiles a model without the initializers that a call gives, and keeps it.

    They are inputs as others: their shapes must be those that the model declares for them.
    """

    def __init__(
        self, proto: ModelProto, threads: int | None, symbols: Mapping[str, int] | None = None
    ) -> None:
        """`proto`: without external data."""
        self._proto, self._threads, self._symbols = proto, threads, symbols
        self._models: KeptModels[CountingModel] = KeptModels(_MAX_MODELS)

    @property
    def shapes(self) -> dict[str, list[int | str | None]]:
        """The declared shapes of all inputs by name: numbers, names of dimensions, and None."""
        return {
            each.name: [
                dim.dim_param or (dim.dim_value if dim.HasField("dim_value") else None)
                for dim in each.type.tensor_type.shape.dim
            ]
            for each in self._proto.graph.input
        }

    def run(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """The results by name; raises NnefError with all errors."""
        given = {each.name for each in self._proto.graph.initializer} & named.keys()
        names = frozenset(given)
        return self._models.get(names, lambda: self._compiled(names)).run(named)

    def _compiled(self, names: frozenset[str]) -> CountingModel:
        """The model with these initializers as inputs."""
        changed = ModelProto()
        changed.CopyFrom(self._proto)
        kept = [each for each in self._proto.graph.initializer if each.name not in names]
        dims = {each.name: each.dims for each in self._proto.graph.initializer}
        del changed.graph.initializer[:]
        changed.graph.initializer.extend(kept)
        for each in changed.graph.input:
            if each.name in names and not each.type.tensor_type.HasField("shape"):
                for extent in dims[each.name]:
                    each.type.tensor_type.shape.dim.add().dim_value = extent
        return CountingModel.of_proto(changed, self._threads, self._symbols)
