"""Samples of the inputs of a model: from files, or from arrays of the caller."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np

from nnefc.formats.arrays import load_array
from nnefc.formats.files import printable
from nnefc.formats.image import LAYOUTS, SUFFIXES, read_image
from nnefc.ir import Value
from nnefc.support.errors import NnefError, Place

Array = np.ndarray[Any, Any]
Inputs = Sequence[Value]

ARRAYS: Final = (".npy", ".npz", ".dat")
"""Suffixes of files of arrays, in lower case."""
_KINDS: Final = {"f": "fiub", "i": "iub", "u": "iub", "b": "biu"}
"""Kinds of item types that become items of a kind."""


class Sample(dict[str, Array]):
    """The arrays of the inputs of a call by name, and the file that they come from."""

    def __init__(self, arrays: Mapping[str, Array], place: Place | None = None) -> None:
        super().__init__(arrays)
        self.place = place


class Pictures(NamedTuple):
    """How pictures become inputs, see `nnefc.formats.image.read_image`."""

    mean: float | Sequence[float] | None = None
    std: float | Sequence[float] | None = None
    layout: str = "auto"


AS_THEY_ARE: Final = Pictures()
"""Pictures with values 0..1 (integers: 0..255)."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The samples in the files of a folder, by name, or in one file; they may be read repeatedly.

    `.npz` files have arrays named like inputs.  `.npy` files, `.dat` files and pictures are for a
    model with one input.
    """

    files: Sequence[Path]
    inputs: Inputs
    pictures: Pictures = AS_THEY_ARE

    @classmethod
    def of(
        cls, path: str | os.PathLike[str], inputs: Inputs, pictures: Pictures = AS_THEY_ARE
    ) -> Folder:
        """Raises NnefError `quantization/samples` for a path without files of samples."""
        files = sample_files(path)
        if pictures != AS_THEY_ARE and not any(map(is_picture, files)):
            raise _not_for_arrays()
        return cls(files, inputs, pictures)

    def __length_hint__(self) -> int:
        """The number of files, each of which has at least one sample."""
        return len(self.files)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        for file in self.files:
            yield from self._read(file)

    def _read(self, file: Path) -> Iterator[dict[str, Array]]:
        if not is_picture(file):
            yield from samples_of(load_array(file), self.inputs, _place(file))
            return
        value = _only(self.inputs, _place(file))
        mean, std, layout = self.pictures
        dims, dtype = value.type.dims, value.type.dtype.numpy
        picture = read_image(file, dims, dtype, mean=mean, std=std, layout=layout)
        yield Sample({value.name: picture}, _place(file))


def sample_files(path: str | os.PathLike[str]) -> list[Path]:
    """The files of samples of a folder by name, or one file.

    Raises NnefError `quantization/samples` for a path without files of samples.
    """
    suffixes = (*ARRAYS, *SUFFIXES)
    root = Path(path)
    is_folder = root.is_dir()
    found = sorted(root.rglob("*")) if is_folder else [root]
    files = [each for each in found if each.suffix.lower() in suffixes]
    if not files:
        message = "the folder has no files of arrays and no pictures"
        if not is_folder:
            suffix = f"of the suffix {root.suffix}" if root.suffix else "without suffix"
            message = f"a file {suffix} is no array and no picture"
        if not root.exists():
            message = "no such file or folder"
        hint = f"samples are {', '.join(suffixes)} files"
        raise NnefError.of("quantization/samples", message, _place(root), hint)
    return files


def is_picture(file: Path) -> bool:
    """Whether a file is a picture, by its suffix."""
    return file.suffix.lower() in SUFFIXES


def _not_for_arrays() -> NnefError:
    message = "mean, std and layout are for pictures, but the samples are arrays"
    return NnefError.of("input/option", message)


@dataclass(frozen=True, slots=True)
class Given:
    """The samples of an iterable of arrays and of dicts of arrays by name."""

    items: Iterable[object]
    inputs: Inputs

    def __iter__(self) -> Iterator[dict[str, Array]]:
        for item in self.items:
            yield from samples_of(item, self.inputs)


def read_samples(
    data: object, inputs: Inputs, pictures: Pictures = AS_THEY_ARE
) -> Folder | Given | list[dict[str, Array]]:
    """The samples of a path, an array, a dict of arrays by name, or an iterable of both.

    Raises NnefError `quantization/samples`.
    """
    if pictures.layout not in LAYOUTS:
        listed = ", ".join(map(repr, LAYOUTS))
        message = f"layout = {pictures.layout!r}: must be one of {listed}"
        raise NnefError.of("input/argument", message)
    if isinstance(data, str | os.PathLike):
        return Folder.of(cast("str | os.PathLike[str]", data), inputs, pictures)
    if pictures != AS_THEY_ARE:
        raise _not_for_arrays()
    if isinstance(data, np.ndarray | Mapping):
        return list(samples_of(cast(object, data), inputs))
    if isinstance(data, Iterable):
        return Given(cast("Iterable[object]", data), inputs)
    raise _error(f"the samples are given as {type(data).__name__}", hint=_ACCEPTED)


_ACCEPTED: Final = "samples are a folder, arrays, or dicts of arrays by name"


def samples_of(
    item: object, inputs: Inputs, place: Place | None = None
) -> Iterator[dict[str, Array]]:
    """The samples of an array, or of arrays by name.

    An array may have several samples: along a further axis in front, or along axis 0, each with the
    batch of the input.  It may lack an axis 0 of extent 1.  Arrays with one sample are repeated for
    those with more.
    Raises NnefError `quantization/samples` for other shapes, types and names.
    """
    arrays = _by_name(item, inputs, place)
    pieces = [_pieces(arrays[value.name], value, place) for value in inputs]
    counts = {len(each) for each in pieces} - {1}
    if len(counts) > 1:
        listed = ", ".join(f"{v.name}: {len(p)}" for v, p in zip(inputs, pieces, strict=True))
        raise _error(f"inputs have different numbers of samples: {listed}", place)
    for i in range(max(counts, default=1)):
        arrays = {
            value.name: np.ascontiguousarray(each[i if len(each) > 1 else 0])
            for value, each in zip(inputs, pieces, strict=True)
        }
        yield Sample(arrays, place)


def _by_name(item: object, inputs: Inputs, place: Place | None) -> Mapping[str, Array]:
    names = [value.name for value in inputs]
    if not isinstance(item, Mapping):
        array = _as_array(item, place)
        if array.dtype.kind not in "fiub":
            is_array = isinstance(item, np.ndarray)
            kind = f"an array of {array.dtype}" if is_array else type(item).__name__
            raise _error(f"a sample is given as {kind}", place, _ACCEPTED)
        return {_only(inputs, place).name: array}
    given = cast("Mapping[str, object]", item)
    missing = [name for name in names if name not in given]
    if missing:
        found = ", ".join(map(str, given)) or "none"
        message = f"no array for {', '.join(missing)}"
        raise _error(message, place, f"the names of the arrays are: {printable(found)}")
    others = [str(name) for name in given if name not in names]
    if others and place is None:
        message = f"the model has no input {printable(', '.join(others))}"
        raise _error(message, hint=f"its inputs are: {', '.join(names)}")
    return {name: _as_array(given[name], place) for name in names}


def _as_array(item: object, place: Place | None) -> Array:
    try:
        return np.asarray(item)
    except ValueError:  # rows of different lengths
        message = f"a sample is given as a {type(item).__name__} of rows of different lengths"
        raise _error(message, place, _ACCEPTED) from None


def _only(inputs: Inputs, place: Place | None) -> Value:
    """The only input; raises NnefError if there are others."""
    if len(inputs) != 1:
        listed = ", ".join(value.name for value in inputs)
        raise _error(f"an array is for one input, but the model has {listed}", place, _BY_NAME)
    return inputs[0]


_BY_NAME: Final = "give arrays by name: a dict, or an .npz file"


def _pieces(array: Array, value: Value, place: Place | None) -> Sequence[Array] | Array:
    """The samples of an array for an input, [samples, ...] in the shape and type of the input."""
    dims, dtype = value.type.dims, value.type.dtype
    typed = _converted(array, value, place)
    if array.shape == dims:
        return [typed]
    if dims and dims[0] == 1 and array.shape == dims[1:]:
        return [typed[None]]
    if array.size and array.shape[1:] == dims and array.ndim > len(dims):
        return typed
    joined = dims and array.size and array.shape[1:] == dims[1:] and array.ndim == len(dims)
    if joined and array.shape[0] % dims[0] == 0:
        return typed.reshape(-1, *dims)
    raise _error(
        f"input '{value.name}' is {dtype}{list(dims)}, the array {array.dtype}{list(array.shape)}",
        place,
        f"several samples have the shape [N,{','.join(map(str, dims))}]",
    )


def _converted(array: Array, value: Value, place: Place | None) -> Array:
    """An array with the item type of an input, if that holds its items."""
    dtype = value.type.dtype
    kind = "f" if dtype.is_float else dtype.numpy.kind
    with np.errstate(over="ignore", invalid="ignore"):
        typed = array.astype(dtype.numpy) if array.dtype.kind in _KINDS.get(kind, "") else None
    if typed is not None and kind == "f" and (np.isinf(typed) & np.isfinite(array)).any():
        largest = f"{np.abs(array[np.isfinite(array)]).max():g}"
        message = f"input '{value.name}' is {dtype}, which does not hold {largest}"
        raise _error(message, place, "scale the samples as the inputs of later calls are scaled")
    if typed is None or (kind in "iu" and not np.array_equal(typed, array)):
        message = f"input '{value.name}' is {dtype}, which does not hold the {array.dtype} given"
        raise _error(message, place)
    return typed


def _place(path: Path) -> Place:
    return Place(printable(str(path)))


def _error(message: str, place: Place | None = None, hint: str = "") -> NnefError:
    return NnefError.of("quantization/samples", message, place, hint)
