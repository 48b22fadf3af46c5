"""The inputs and outputs of a subgraph between the calls of an interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnefc.formats.files import printable
from nnefc.formats.tflite.model import Subgraph, Tensor
from nnefc.frontends.common.values import OperatorError
from nnefc.frontends.tflite.tensors import constant
from nnefc.options.arguments import as_integer
from nnefc.support.errors import NnefError
from nnefc.tflite.compile_subgraph import ModelContent
from nnefc.tflite.details import details_of, item_type
from nnefc.tflite.models_of_shapes import ModelsOfShapes

if TYPE_CHECKING:
    from nnefc.runtime.run.model_interface import Model

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


class SubgraphTensors:
    """The arrays of a subgraph, and the model that computes them for the present shapes."""

    def __init__(self, content: ModelContent, subgraph: int, threads: int | None) -> None:
        self.subgraph: Subgraph = content.file.subgraphs[subgraph]
        self._models = ModelsOfShapes(content, subgraph, threads)
        tensors = self.subgraph.tensors
        self._shapes = {i: tensors[i].shape for i in self.subgraph.inputs}
        self._outputs = {i: tensors[i].shape for i in self.subgraph.outputs}
        self._model: Model | None = None
        self._arrays: dict[int, Array] = {}

    def checked(self, index: object) -> Tensor:
        """The tensor of this index; raises NnefError `input/argument` if there is none."""
        number, count = as_integer(index), len(self.subgraph.tensors)
        if number is None or not 0 <= number < count:
            message = f"there is no tensor {index!r}: the subgraph has {count} tensors"
            raise NnefError.of("input/argument", message)
        return self.subgraph.tensors[number]

    def details(self, index: int) -> dict[str, Any]:
        """What LiteRT tells about a tensor."""
        tensor = self.subgraph.tensors[index]
        shape = self._shapes.get(index, self._outputs.get(index, tensor.shape))
        return details_of(tensor, shape, self.subgraph.tensors)

    def every(self) -> list[dict[str, Any]]:
        """The details of all tensors whose items have a type of NumPy."""
        return [self.details(each.index) for each in self.subgraph.tensors if item_type(each)]

    def resize(self, index: object, shape: Sequence[int], *, strict: bool) -> None:
        """Replace the shape of an input; `allocate` then compiles the model for it."""
        tensor = self._input(index)
        extents = _extents(shape)
        known = tensor.signature or tensor.shape
        fixed = [
            -1 if extent == -1 else now
            for extent, now in zip(known, self._shapes[tensor.index], strict=False)
        ]
        fits = len(fixed) == len(extents) and all(
            a in (-1, b) for a, b in zip(fixed, extents, strict=True)
        )
        if strict and not fits:
            message = f"{tensor} has shape {list(known)}: it cannot become {list(extents)}"
            raise NnefError.of("input/shape", message, hint="strict=False")
        if extents != self._shapes[tensor.index]:
            self._shapes[tensor.index] = extents
            self._model = None

    def allocate(self) -> None:
        """Compile the model for the present shapes, unless it is ready; states are then reset."""
        if self._model is not None:
            return
        main = self.subgraph
        found = self._models.find([self._shapes[i] for i in main.inputs])
        self._arrays = {
            i: np.zeros(spec.shape, spec.dtype)
            for i, spec in zip(main.inputs, found.inputs, strict=True)
        }
        for i, spec in zip(main.outputs, found.outputs, strict=True):
            if -1 not in spec.shape:
                self._outputs[i] = spec.shape
                self._arrays.setdefault(i, np.zeros(spec.shape, spec.dtype))
        self._model = found.model

    def set(self, index: object, value: object) -> None:
        """Copy a value into an input."""
        tensor = self._input(index)
        self._ready()
        target = self._arrays[tensor.index]
        try:
            array: Array = np.asarray(value)
        except (TypeError, ValueError) as error:
            message = f"{tensor}: the value is no array: {error}"
            raise NnefError.of("input/array", message) from None
        if array.dtype != target.dtype:
            message = f"{tensor} has items of {target.dtype}, the value {array.dtype}"
            raise NnefError.of("input/dtype", message, hint=f"value.astype('{target.dtype}')")
        if array.shape != target.shape:
            message = f"{tensor} has shape {list(target.shape)}, the value {list(array.shape)}"
            hint = f"resize_tensor_input({tensor.index}, {list(array.shape)}), allocate_tensors()"
            raise NnefError.of("input/shape", message, hint=hint)
        np.copyto(target, array)

    def invoke(self) -> None:
        """Compute the outputs, and the next states."""
        model = self._ready()
        main = self.subgraph
        found: Any = model(*(self._arrays[i] for i in main.inputs))
        results: Sequence[Array] = [found] if len(main.outputs) == 1 else found
        for i, result in zip(main.outputs, results, strict=True):
            self._outputs[i] = result.shape
            if i not in self._shapes:
                self._arrays[i] = result

    def value(self, index: object) -> Array:
        """The array of an input, an output or a constant, not copied."""
        tensor = self.checked(index)
        if tensor.index not in self._shapes and tensor.index not in self._outputs:
            return _constant(tensor)
        self._ready()
        array = self._arrays.get(tensor.index)
        if array is None:
            message = f"{tensor} has a shape that only a call tells"
            raise NnefError.of("input/argument", message, hint="invoke()")
        return array

    def reset(self) -> None:
        """Restore the first values of variable tensors."""
        if self._model is not None:
            self._model.reset()

    def _input(self, index: object) -> Tensor:
        tensor = self.checked(index)
        if tensor.index not in self._shapes:
            listed = ", ".join(map(str, self._shapes))
            message = f"{tensor} is no input; the inputs are {listed or 'none'}"
            raise NnefError.of("input/argument", message)
        return tensor

    def _ready(self) -> Model:
        if self._model is None:
            message = "the tensors are not allocated"
            raise NnefError.of("input/argument", message, hint="allocate_tensors()")
        return self._model


def _constant(tensor: Tensor) -> Array:
    """The items of a constant; raises NnefError for computed tensors."""
    if tensor.data is None:
        message = f"{printable(str(tensor))} is neither input nor output: intermediate tensors are "
        raise NnefError.of("input/argument", message + "not kept")
    try:
        return constant(tensor).array
    except OperatorError as error:
        raise NnefError.of(error.rule, error.message) from None


def _extents(shape: object) -> Shape:
    """A shape; raises NnefError `input/shape` unless it is a sequence of extents."""
    message = f"shape = {shape!r}: expected a sequence of extents, which are 0 or more"
    try:
        extents: Array = np.asarray(shape)
    except ValueError:
        raise NnefError.of("input/shape", message) from None
    is_integer = extents.dtype.kind in "iu" or not extents.size
    if extents.ndim != 1 or not is_integer or (extents < 0).any():
        raise NnefError.of("input/shape", message)
    return tuple(int(extent) for extent in extents)
