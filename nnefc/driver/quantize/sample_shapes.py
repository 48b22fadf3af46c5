"""Shapes of inputs with symbols, from the first sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from nnefc.driver.quantize.samples import is_picture, sample_files
from nnefc.formats.arrays import load_array
from nnefc.formats.files import FilePath, printable
from nnefc.ir import Shape, TensorType
from nnefc.support.errors import NnefError, Place

Array = np.ndarray[Any, Any]
UNKNOWN: Final = -1
"""An extent that is a symbol."""


def shapes_of_samples(
    types: Mapping[str, TensorType], data: FilePath
) -> dict[str, tuple[int, ...]]:
    """Shapes of the inputs that have symbols without a value, from the first file of samples.

    `types`: those of all inputs, with -1 for symbols.  Axis 0 of a file may have several samples,
    so a symbol there is 1.  Raises NnefError `quantization/samples` for other arrays, and for
    symbols that no array tells.
    """
    open_inputs = {name: type_.dims for name, type_ in types.items() if UNKNOWN in type_.dims}
    if not open_inputs:
        return {}
    file = sample_files(data)[0]
    place = Place(printable(str(file)))
    arrays: Mapping[str, Array] = {}
    if not is_picture(file):
        content = load_array(file)
        arrays = content if isinstance(content, dict) else dict.fromkeys([*types][:1], content)
    return {name: _shape(name, dims, arrays.get(name), place) for name, dims in open_inputs.items()}


def _shape(name: str, dims: Shape, array: Array | None, place: Place) -> Shape:
    """The shape of one sample of an input; raises NnefError."""
    batch, rest = dims[:1], dims[1:]
    if array is not None:
        found = array.shape
        if len(found) > len(dims):
            found = found[len(found) - len(dims) :]
        elif len(found) == len(dims) and batch == (UNKNOWN,):
            found = (1, *found[1:])
        elif len(found) < len(dims):
            found = (1, *found)
        if len(found) == len(dims) and all(d in (UNKNOWN, n) for d, n in zip(dims, found)):
            return found
        message = f"the array {list(array.shape)} is no sample of input '{name}'"
        listed = ",".join("?" if n == UNKNOWN else str(n) for n in dims)
        raise NnefError.of("quantization/samples", message, place, f"its shape is [{listed}]")
    if UNKNOWN not in rest:
        return (1, *rest)
    message = f"the samples do not tell the shape of input '{name}'"
    hint = f"give it: --shape {name}=EXTENTS"
    raise NnefError.of("quantization/samples", message, place, hint)
