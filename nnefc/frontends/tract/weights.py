"""Weights of a document: tensor files, whose item type overrides the declared one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np

from nnefc.formats.container import Container
from nnefc.formats.paths import TENSOR_SUFFIX, label_path
from nnefc.formats.tensor_file import StoredTensor
from nnefc.frontends.common.graph_variables import VariableNames, variable_value
from nnefc.frontends.common.operand_checks import check_shape
from nnefc.frontends.common.random_data import random_data
from nnefc.frontends.common.values import (
    Array,
    ComplexTensor,
    EmptyTensor,
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

MAX_KNOWN_INTEGERS: Final = 64
"""Items up to which an integer weight is a known tensor: shapes and axes are attributes."""
MAX_KNOWN_REALS: Final = 8
"""Items up to which a real weight is a known tensor: factors are attributes."""


class Weights:
    """The tensor files of a container as variables of graphs."""

    def __init__(
        self,
        container: Container | None,
        diagnostics: Diagnostics,
        *,
        random_weights: int | None = None,
        load_data: bool = True,
        prefix: str = "",
        names: VariableNames | None = None,
    ) -> None:
        """`random_weights`: the seed of random values for missing files.  `load_data`: whether the
        items of all files are read.  `prefix`: the path of a submodel, which its labels have in the
        graph.  `names`: the names of variables, shared with submodels.
        """
        self.prefix = prefix
        self._names = names or VariableNames()
        self.container = container
        self._diagnostics = diagnostics
        self.random_weights = random_weights
        self._load = load_data
        self._known: dict[str, StoredTensor] = {}
        self.texts: dict[str, str] = {}
        """The texts of the document and its quantization by path, set by those who parse them."""
        self._submodels: dict[str, Weights] = {}

    def within(self, container: Container, label: str) -> Weights:
        """The weights of submodel `label`, which is in `container`.

        Those that were read for an earlier graph are not read again.
        """
        weights = Weights(
            container,
            self._diagnostics,
            random_weights=self.random_weights,
            load_data=self._load,
            prefix=f"{self.prefix}{label}/",
            names=self._names,
        )
        if (before := self._submodels.get(label)) is not None:
            weights._known, weights._submodels = before._known, before._submodels
        self._submodels[label] = weights
        return weights

    def add_files(
        self, texts: dict[str, bytes], tensors: dict[str, StoredTensor], folder: str = ""
    ) -> None:
        """Add what graphs have read so far: texts and tensors by path, submodels in folders."""
        for path, text in self.texts.items():
            texts[folder + path] = text.encode()
        if self.container is not None:
            for path, content in self.container.resources.items():
                texts[folder + path] = content
        for label, stored in self._known.items():
            tensors.setdefault(folder + label_path(label, self.prefix), stored)
        for label, weights in self._submodels.items():
            root = label_path(label, self.prefix).removesuffix(TENSOR_SUFFIX)
            weights.add_files(texts, tensors, f"{folder}{root}/")

    def read_all(self, labels: Iterable[str]) -> None:
        """Read the existing files of these weights, so that graphs share them; raises NnefError."""
        if self.container is None or not self._load:
            return
        with collecting(self._diagnostics):
            for label in labels:
                stored = self.container.stored(label)
                if stored is not None:
                    self._known.setdefault(label, stored)

    def arrays(self) -> list[Array]:
        """The arrays read so far."""
        return [stored.array for stored in self._known.values()]

    def variable(
        self, make: OpBuilder, label: str, shape: tuple[int, ...]
    ) -> Operand | ComplexTensor | StringTensor:
        """The weight `label`: a known tensor if it is small, otherwise a variable of the graph.

        Block-quantized weights (Q4_0, Q8_1) are variables of the bytes in the file, followed by
        `dequantize_blocks`.  Raises OperatorError for another shape, NnefError for a bad file.
        """
        stored = self._known.get(label)
        if stored is None:
            stored = self._known[label] = self._read(label, shape) or self._missing(label, shape)
        # blocks do not cross rows, so the shape must match, not only the number of items
        is_blocks = stored.blocks is not None
        if (is_blocks and stored.shape != shape) or math.prod(stored.shape) != math.prod(shape):
            have, want = list(stored.shape), list(shape)
            message = f"'{label}' has shape {have}, but the document says {want}"
            raise OperatorError("data/shape", message)
        if not math.prod(shape):
            return _without_items(label, stored, shape)
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
        few = (
            array.size <= (MAX_KNOWN_REALS if dtype.is_float else MAX_KNOWN_INTEGERS)
            and len(shape) < 2
        )
        if few:
            return KnownTensor(array, dtype)
        return self._value(make, label, array, dtype)

    def items(self, value: Value) -> Array | None:
        """The items of a tensor that is a variable, read if necessary; None for other tensors."""
        if value.op is None or value.op.name != "variable":
            return None
        name: str = value.op.attributes["label"]
        label = self._names.label(name).removeprefix(self.prefix)
        stored = self._known.get(label)
        if not self._load and self.container is not None:
            with collecting(self._diagnostics):
                stored = self.container.stored(label) or stored
        return None if stored is None else stored.array.reshape(value.type.dims)

    def _value(self, make: OpBuilder, label: str, array: Array, dtype: DType) -> Value:
        """The variable of weight `label` with the data `array`."""
        graph = make.evaluator.context.model.graph
        return variable_value(make, graph, self._names, self.prefix + label, array, dtype)

    def _read(self, label: str, shape: tuple[int, ...]) -> StoredTensor | None:
        """The tensor file of a label; None if it is missing or its data is not wanted.

        Without `load_data`, small weights are read because they may be attributes, and complex ones
        because their type selects the variants of operators.
        """
        few = len(shape) < 2 and math.prod(shape) <= MAX_KNOWN_INTEGERS
        if self.container is None:
            return None
        if not (self._load or few or self.container.is_complex(label)):
            return None
        with collecting(self._diagnostics):
            return self.container.stored(label)

    def _missing(self, label: str, shape: tuple[int, ...]) -> StoredTensor:
        """Random items for a weight, or zeros without `load_data`; else raises OperatorError."""
        if self.random_weights is not None:
            variable = Variable(label, TensorType(DType.FLOAT32, shape))
            return StoredTensor(shape, random_data(variable, self.random_weights), None)
        if not self._load:
            return StoredTensor(shape, np.broadcast_to(np.float32(0), shape), None)
        place = None if self.container is None else Place(self.container.name)
        hint = (
            f"{place or 'the model'} has no file {label}.dat, and no *.safetensors file has a"
            " tensor of that name; or use random values"
        )
        raise OperatorError("data/missing", f"there is no data for '{label}'", hint)


def _without_items(
    label: str, stored: StoredTensor, shape: tuple[int, ...]
) -> Operand | ComplexTensor | StringTensor:
    """A weight without items."""
    if stored.blocks is not None:
        return EmptyTensor(TensorType(DType.FLOAT32, shape))
    if stored.array.dtype.kind == "O":
        return StringTensor(stored.array.reshape(shape), label)
    dtype = DType(stored.array.dtype.name)
    if stored.is_complex:
        return ComplexTensor(EmptyTensor(TensorType(dtype, (*shape, 2))))
    return EmptyTensor(TensorType(dtype, shape))
