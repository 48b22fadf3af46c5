"""Weights: what tensor files hold, whatever the document says of their type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nnefc.errors import Diagnostics, NnefError, Place, collecting
from nnefc.formats.container import Container
from nnefc.frontends.tract.values import Array, Known, Wrong
from nnefc.ir import DType, TensorType, Value
from nnefc.ir.graph import Variable

if TYPE_CHECKING:
    from nnefc.frontends.tract.maker import Maker

SMALL: Final = 64
FEW: Final = 8
"""Items up to which weights of integers, and of reals, are known: shapes, axes and factors are."""


class Weights:
    """The tensor files of a container."""

    def __init__(
        self,
        container: Container | None,
        diagnostics: Diagnostics,
        *,
        random_weights: int | None = None,
        load_data: bool = True,
    ) -> None:
        self.container = container
        self._diagnostics = diagnostics
        self._random = random_weights
        self._load = load_data
        self._known: dict[str, Any] = {}

    def read_all(self) -> None:
        """Read every file, so that the container is not needed any more; raises NnefError."""
        if self.container is None or not self._load:
            return
        with collecting(self._diagnostics):
            for label in self.container.tensor_names():
                array = self.container.tensor(label)
                if array is not None:
                    self._known.setdefault(label.lower(), array)

    def arrays(self) -> list[Array]:
        """What has been read."""
        return list(self._known.values())

    def variable(self, make: Maker, label: str, shape: tuple[int, ...]) -> Any:
        """The weight of a label as a tensor of a graph, or known if it is small."""
        key = label.lower()
        found = self._known.get(key)
        if found is None:
            array = self._read(label)
            if array is None:
                array = self._missing(label, shape)
            found = self._known[key] = array
        if found.shape != shape:
            if found.size != math.prod(shape):
                message = (
                    f"'{label}' has shape {list(found.shape)}, the document says {list(shape)}"
                )
                raise Wrong("data/shape", message)
            found = found.reshape(shape)
        dtype = DType(found.dtype.name)
        if found.size <= (FEW if dtype.is_float else SMALL) and len(shape) < 2:
            return Known(found, dtype)
        return self._value(make, label, found, dtype)

    def _value(self, make: Maker, label: str, array: Array, dtype: DType) -> Value:
        type_ = TensorType(dtype, array.shape)
        graph = make.evaluator.context.model.graph
        shared = graph.variables.get(label.lower())
        if shared is None:
            graph.variables[label.lower()] = Variable(label, type_, array)
        if make.graph is not graph:
            make.graph.variables[label.lower()] = graph.variables[label.lower()]
        attributes: Mapping[str, Any] = {"shape": array.shape, "label": label}
        return make("variable", dtype=dtype, **attributes)

    def _read(self, label: str) -> Array | None:
        if self.container is None or not self._load:
            return None
        try:
            with collecting(self._diagnostics):
                return self.container.tensor(label)
        except NnefError as error:
            raise Wrong(error.errors[0].rule, error.errors[0].message) from None

    def _missing(self, label: str, shape: tuple[int, ...]) -> Array:
        """What stands for a weight without a file; raises Wrong."""
        if self._random is None:
            if not self._load:
                return np.broadcast_to(np.float32(0), shape)
            place = None if self.container is None else Place(self.container.name)
            hint = f"{place or 'the model'} has no file {label}.dat; or use random values"
            raise Wrong("data/missing", f"there is no data for '{label}'", hint)
        from nnefc.frontends.nnef.data import random_data

        variable = Variable(label, TensorType(DType.FLOAT32, shape))
        return random_data(variable, self._random)
