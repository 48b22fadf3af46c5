"""Models with inputs of any rank: compiled for the ranks of the arrays of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from onnx import ModelProto

from nnefc.onnx.compile_bytes import check_operators_of
from nnefc.onnx.counting_model import CountingModel
from nnefc.onnx.kept_models import KeptModels
from nnefc.support.errors import Diagnostic, NnefError

_MAX_MODELS: Final = 16
"""Compiled models that are kept for other calls."""


class RankedModels:
    """Compiles a model for the ranks of the arrays of each call, and keeps it.

    The extents are symbols, as those without a name are in a model.
    """

    def __init__(
        self,
        proto: ModelProto,
        names: Sequence[str],
        threads: int | None,
        symbols: Mapping[str, int] | None = None,
    ) -> None:
        """`names`: the inputs without a shape.  Raises NnefError for unknown operators."""
        check_operators_of(proto.SerializeToString())
        self._proto, self._names = proto, names
        self._threads, self._symbols = threads, symbols
        self._models: KeptModels[CountingModel] = KeptModels(_MAX_MODELS)

    def run(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """The results by name; raises NnefError with all errors."""
        if missing := [name for name in self._names if name not in named]:
            raise NnefError(
                Diagnostic("input/name", f"input '{name}' is missing") for name in missing
            )
        ranks = tuple(np.ndim(named[name]) for name in self._names)
        return self._models.get(ranks, lambda: self._compiled(ranks)).run(named)

    def _compiled(self, ranks: Sequence[int]) -> CountingModel:
        """The model for these ranks of the inputs without a shape."""
        ranked = ModelProto()
        ranked.CopyFrom(self._proto)
        rank_of = dict(zip(self._names, ranks, strict=True))
        for each in ranked.graph.input:
            if each.name in rank_of:
                shape = each.type.tensor_type.shape
                shape.SetInParent()
                for _ in range(rank_of[each.name]):
                    shape.dim.add()
        return CountingModel.of_proto(ranked, self._threads, self._symbols)
