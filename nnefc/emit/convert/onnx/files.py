"""Write ONNX models: one file, or a file and one with the data of large tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from nnefc.formats.atomic import replace_file
from nnefc.formats.files import FilePath, is_stream
from nnefc.support.errors import NnefError, Place
from nnefc.support.progress import Progress

Array = np.ndarray[Any, Any]

MAX_BYTES: Final = (1 << 31) - 1
"""The size of a protocol buffer message."""
ALIGNMENT: Final = 4096
"""Offsets in a file of data are multiples of it, so that readers can map tensors."""
PIECE_BYTES: Final = 1 << 24
EXTERNAL: Final = 1
"""The value of TensorProto.data_location for data in another file."""
DATA_SUFFIX: Final = ".data"


def with_data(outline: Any, data: Mapping[str, Array]) -> Any:
    """The ModelProto `outline` with the data of its initializers in it."""
    made = type(outline)()
    made.CopyFrom(outline)
    for tensor in made.graph.initializer:
        if tensor.name in data:
            tensor.raw_data = data[tensor.name].tobytes()
    return made


def write_onnx(
    path: FilePath,
    outline: Any,
    data: Mapping[str, Array],
    *,
    external: bool = False,
    progress: Progress | None = None,
) -> list[Path]:
    """Write a model, whole or not at all; returns the files.

    Args:
        path: The file of the model; `PATH.data` beside it has the data that are external.
        outline: The ModelProto without the data of large initializers.
        data: Their data by name.
        external: Write the data to a file of their own also where one message can hold them,
            if there are any.

    Raises NnefError `data/...`.
    """
    size = outline.ByteSize() + sum(array.nbytes for array in data.values())
    # a message needs some bytes for each tensor in addition to its data
    if not data or (not external and size + 16 * len(data) <= MAX_BYTES):
        if progress is not None:
            progress(0, size, "model")
        with replace_file(path, size) as file:
            file.write(with_data(outline, data).SerializeToString())
        return [Path(path)]
    if is_stream(path):
        message = f"{size:,} bytes need a file of data, but the model goes to a stream"
        raise NnefError.of("data/length", message, Place(str(path)))
    beside = Path(path).with_name(Path(path).name + DATA_SUFFIX)
    made = _with_references(outline, data, beside.name)
    with replace_file(path) as file:
        file.write(made.SerializeToString())
        with replace_file(beside, size) as stored:
            done = 0
            for array in data.values():
                stored.write(bytes(-done % ALIGNMENT))
                done += -done % ALIGNMENT
                for piece in _pieces(array):
                    stored.write(piece)
                    done += len(piece)
                    if progress is not None:
                        progress(min(done, size), size, "model")
    return [Path(path), beside]


def _with_references(outline: Any, data: Mapping[str, Array], location: str) -> Any:
    """A copy of the model whose large initializers name their places in the file of data."""
    made = type(outline)()
    made.CopyFrom(outline)
    offset = 0
    places: dict[str, tuple[int, int]] = {}
    for name, array in data.items():
        offset += -offset % ALIGNMENT
        places[name] = offset, array.nbytes
        offset += array.nbytes
    for tensor in made.graph.initializer:
        if tensor.name not in places:
            continue
        tensor.data_location = EXTERNAL
        start, length = places[tensor.name]
        for key, value in (("location", location), ("offset", start), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
    return made


def _pieces(array: Array) -> Iterator[bytes]:
    """The bytes of an array in row-major order, without a copy of the whole."""
    if not array.flags.c_contiguous:
        rows = max(1, PIECE_BYTES // max(1, array.nbytes // max(1, array.shape[0])))
        for at in range(0, array.shape[0], rows):
            yield array[at : at + rows].tobytes()
        return
    flat = array.reshape(-1)
    items = max(1, PIECE_BYTES // array.itemsize)
    for at in range(0, flat.size, items):
        yield flat[at : at + items].tobytes()
