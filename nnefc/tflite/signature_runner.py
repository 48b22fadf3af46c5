"""`SignatureRunner`: call a signature of a model with arrays by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nnefc.formats.tflite.model import Signature
from nnefc.support.errors import NnefError
from nnefc.tflite.tensors import SubgraphTensors

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]


class SignatureRunner:
    """A signature of an `Interpreter`, which returns it from `get_signature_runner`.

    Both have the same tensors and states.
    """

    def __init__(self, tensors: SubgraphTensors, signature: Signature) -> None:
        self._tensors = tensors
        self._inputs = _by_name(signature.inputs)
        self._outputs = _by_name(signature.outputs)

    def __call__(self, **named: Any) -> dict[str, Array]:
        """The outputs by name for all inputs by name.

        An input takes the shape of its array; the model is compiled for shapes that are new.

        Raises:
            NnefError: `input/name` for missing and unknown names, `input/dtype` for an array of
                another item type; all errors of the model for these shapes.
        """
        missing = [name for name in self._inputs if name not in named]
        unknown = [name for name in named if name not in self._inputs]
        if missing or unknown:
            listed = ", ".join(self._inputs) or "none"
            wrong = "there is no input" if unknown else "there is no array for input"
            message = f"{wrong} {', '.join(unknown or missing)}; the inputs are {listed}"
            raise NnefError.of("input/name", message)
        tensors = self._tensors
        for name, value in named.items():
            tensors.resize(self._inputs[name], np.shape(value), strict=False)
        tensors.allocate()
        for name, value in named.items():
            tensors.set(self._inputs[name], value)
        tensors.invoke()
        return {name: tensors.value(i).copy() for name, i in self._outputs.items()}

    def get_input_details(self) -> dict[str, dict[str, Any]]:
        """The details of the inputs by name, as `Interpreter.get_input_details` has them."""
        return {name: self._tensors.details(i) for name, i in self._inputs.items()}

    def get_output_details(self) -> dict[str, dict[str, Any]]:
        """The details of the outputs by name, as `Interpreter.get_output_details` has them."""
        return {name: self._tensors.details(i) for name, i in self._outputs.items()}


def _by_name(names: Mapping[int, str]) -> dict[str, int]:
    """Indices by name, in the order of the names, as LiteRT has them."""
    return dict(sorted((name, i) for i, name in names.items()))
