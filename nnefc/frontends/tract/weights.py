"""Weights: what tensor files hold, whatever the document says of their type."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nnefc.formats.container import Container
from nnefc.formats.tensor_file import StoredTensor
from nnefc.frontends.common.operand_checks import check_shape
from nnefc.frontends.common.random_data import random_data
from nnefc.frontends.common.values import (
    Array,
    ComplexTensor,
    KnownTensor,
    Operand,
    OperatorError,
    StringTensor,
)
from nnefc.ir import DType, TensorType, Value
from nnefc.ir.graph import Variable
from nnefc.support.errors import Diagnostics, Place, collecting

if TYPE_CHECKING:
    from nnefc.frontends.common.op_builder import OpBuilder

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
        prefix: str = "",
        labels: dict[str, str] | None = None,
    ) -> None:
        """`prefix`: what the labels begin with in the graph, those of a model within another;
        `labels`: what variables of the graph stand for, of it and all within it.
        """
        self.prefix = prefix
        self._labels = {} if labels is None else labels
        self.container = container
        self._diagnostics = diagnostics
        self._random = random_weights
        self._load = load_data
        self._known: dict[str, StoredTensor] = {}

    def within(self, container: Container, label: str) -> Weights:
        """Those of a model within this one."""
        return Weights(
            container,
            self._diagnostics,
            random_weights=self._random,
            load_data=self._load,
            prefix=f"{self.prefix}{label}/",
            labels=self._labels,
        )

    def read_all(self, labels: Iterable[str]) -> None:
        """Read the files of these weights that are there, so that graphs share them; raises
        NnefError.
        """
        if self.container is None or not self._load:
            return
        with collecting(self._diagnostics):
            for label in labels:
                stored = self.container.stored(label)
                if stored is not None:
                    self._known.setdefault(label, stored)

    def arrays(self) -> list[Array]:
        """What has been read."""
        return [stored.array for stored in self._known.values()]

    def variable(
        self, make: OpBuilder, label: str, shape: tuple[int, ...]
    ) -> Operand | ComplexTensor | StringTensor:
        """The weight of a label as a tensor of a graph, or known if it is small.

        Blocks of quantized items stay as they are in the file, in a variable of bytes.
        """
        stored = self._known.get(label)
        if stored is None:
            stored = self._known[label] = self._read(label, shape) or self._missing(label, shape)
        # blocks lie within rows, which another shape would cut elsewhere
        is_blocks = stored.blocks is not None
        if (is_blocks and stored.shape != shape) or math.prod(stored.shape) != math.prod(shape):
            have, want = list(stored.shape), list(shape)
            message = f"'{label}' has shape {have}, but the document says {want}"
            raise OperatorError("data/shape", message)
        if stored.blocks is not None:
            raw = self._value(make, label, stored.array, DType.UINT8)
            return make("dequantize_blocks", raw, format=stored.blocks, shape=shape)
        if stored.is_complex:
            pairs = (*shape, 2)
            check_shape(make, "shape", pairs, DType.UINT8)
            array = stored.array.reshape(pairs)
            return ComplexTensor(self._value(make, label, array, DType(array.dtype.name)))
        array = stored.array.reshape(shape)
        if array.dtype.kind == "O":
            return StringTensor(array, label)
        dtype = DType(array.dtype.name)
        few = array.size <= (FEW if dtype.is_float else SMALL) and len(shape) < 2
        if few or not array.size:
            return KnownTensor(array, dtype)
        return self._value(make, label, array, dtype)

    def items(self, value: Value) -> Array | None:
        """The items of a tensor of a graph if it is a weight, read now if they have not been."""
        if value.op is None or value.op.name != "variable":
            return None
        name: str = value.op.attributes["label"]
        label = self._labels[name.lower()].removeprefix(self.prefix)
        stored = self._known.get(label)
        if not self._load and self.container is not None:
            with collecting(self._diagnostics):
                stored = self.container.stored(label) or stored
        return None if stored is None else stored.array.reshape(value.type.dims)

    def _value(self, make: OpBuilder, label: str, array: Array, dtype: DType) -> Value:
        graph = make.evaluator.context.model.graph
        type_ = TensorType(dtype, array.shape)
        name = self._name(self.prefix + label)
        shared = graph.variables.setdefault(name.lower(), Variable(name, type_, array))
        if shared.type != type_:
            have, other = list(shared.type.dims), list(array.shape)
            message = f"'{self.prefix}{label}' is used with shapes {have} and {other}"
            raise OperatorError("data/shape", message)
        make.graph.variables[name.lower()] = shared
        attributes: Mapping[str, Any] = {"shape": array.shape, "label": name}
        return make("variable", dtype=dtype, **attributes)

    def _name(self, label: str) -> str:
        """The label in the graph, where labels that differ only in case are the same."""
        name, number = label, 1
        while self._labels.setdefault(name.lower(), label) != label:
            number += 1
            name = f"{label}_{number}"
        return name

    def _read(self, label: str, shape: tuple[int, ...]) -> StoredTensor | None:
        """What a file holds; where data is not wanted only what may be an attribute is read, and
        what is complex, as operators ask for that.
        """
        few = len(shape) < 2 and math.prod(shape) <= SMALL
        if self.container is None:
            return None
        if not (self._load or few or self.container.is_complex(label)):
            return None
        with collecting(self._diagnostics):
            return self.container.stored(label)

    def _missing(self, label: str, shape: tuple[int, ...]) -> StoredTensor:
        """What stands for a weight without a file; raises OperatorError."""
        if self._random is not None:
            variable = Variable(label, TensorType(DType.FLOAT32, shape))
            return StoredTensor(shape, random_data(variable, self._random), None)
        if not self._load:
            return StoredTensor(shape, np.broadcast_to(np.float32(0), shape), None)
        place = None if self.container is None else Place(self.container.name)
        hint = (
            f"{place or 'the model'} has no file {label}.dat, and no *.safetensors file has a"
            " tensor of that name; or use random values"
        )
        raise OperatorError("data/missing", f"there is no data for '{label}'", hint)
