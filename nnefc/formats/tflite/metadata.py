"""Metadata of a TensorFlow Lite file: a FlatBuffer of its own, and files in an archive behind it.

They say what a model is for, and change nothing that it computes.  What is wrong with them is
listed as a fault, and is no error.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from nnefc.formats.archives.open_archive import CORRUPT
from nnefc.formats.files import printable, reason
from nnefc.formats.flatbuffers.reader import FlatBufferError, TableReader
from nnefc.formats.flatbuffers.schema import Schema, parse_schema
from nnefc.formats.tflite.model import Model

BUFFER: Final = "TFLITE_METADATA"
RUNTIME: Final = "min_runtime_version"
IDENTIFIER: Final = b"M001"
_ARCHIVE_BYTES: Final = 8 << 20
"""The end of a file in which an archive is looked for; its directory is limited by it."""
_LABEL_BYTES: Final = 1 << 20
"""Unpacked bytes of the labels of all tensors together."""
_DIRECTORY_END: Final = b"PK\x05\x06"
_COMMENT: Final = 22 + 0xFFFF
"""Bytes of the end of a directory with the longest comment."""
_TEXTS: Final = ("name", "description", "version", "author", "license", "min_parser_version")
_FILE_TYPES: Final = (
    *("unknown", "descriptions", "axis labels", "value labels", "score calibration"),
    *("vocabulary", "scann index"),
)
_LABELS: Final = ("axis labels", "value labels")
_COLORS: Final = ("unknown", "RGB", "grayscale")

_TABLES: Final = """
AssociatedFile name:string description:string type:int8 locale:string version:string
FeatureProperties
ImageProperties color_space:int8 -
BoundingBoxProperties - type:int8 coordinate_type:int8
AudioProperties sample_rate:uint32 channels:uint32
NormalizationOptions mean:[float32] std:[float32]
Other
ProcessUnit options_type:uint8 options:ProcessUnitOptions
TensorMetadata name:string description:string - content:TypedContent process_units:[ProcessUnit] \
    - associated_files:[AssociatedFile]
TypedContent content_properties_type:uint8 content_properties:ContentProperties
SubGraphMetadata name:string description:string input_tensor_metadata:[TensorMetadata] \
    output_tensor_metadata:[TensorMetadata] associated_files:[AssociatedFile]
ModelMetadata name:string description:string version:string subgraph_metadata:[SubGraphMetadata] \
    author:string license:string associated_files:[AssociatedFile] min_parser_version:string
"""


@cache
def metadata_schema() -> Schema:
    """The tables of metadata, as far as they are shown."""
    unions = {
        "ContentProperties": [
            *("FeatureProperties", "ImageProperties", "BoundingBoxProperties", "AudioProperties")
        ],
        "ProcessUnitOptions": ["NormalizationOptions", *["Other"] * 5],
    }
    return parse_schema(_TABLES, unions)


def describe_metadata(model: Model, content: memoryview) -> dict[str, Any]:
    """The metadata of a model in the file `content`, as data for JSON."""
    faults: list[str] = []
    runtime = bytes(model.metadata.get(RUNTIME, b"")[:32]).rstrip(b"\0").decode("ascii", "replace")
    facts: dict[str, Any] = {
        "buffers": list(model.metadata),
        "min_runtime_version": runtime,
        "faults": faults,
    }
    table = _read(model.metadata.get(BUFFER), faults)
    if table is None:
        return facts
    mains = table["subgraph_metadata"][:1]
    files = [*table["associated_files"], *(f for each in mains for f in each["associated_files"])]
    tensors: dict[str, list[Mapping[str, Any]]] = {
        side: [each for main in mains for each in main[f"{side[:-1]}_tensor_metadata"]]
        for side in ("inputs", "outputs")
    }
    files += [f for side in tensors.values() for each in side for f in each["associated_files"]]
    sizes, labels = _associated_files(files, content, faults)
    return {
        **facts,
        **{name: table[name] for name in _TEXTS},
        **{side: [_tensor(each) for each in listed] for side, listed in tensors.items()},
        "files": sizes,
        "labels": labels,
    }


def _read(buffer: memoryview | None, faults: list[str]) -> Mapping[str, Any] | None:
    """The table of a buffer; None without one, or with a fault."""
    if buffer is None:
        return None
    if bytes(buffer[4:8]) != IDENTIFIER:
        found = bytes(buffer[4:8])
        faults.append(f"bytes 4 to 8 of {BUFFER} are {found!r}, not {IDENTIFIER!r}")
        return None
    try:
        return TableReader(buffer, metadata_schema()).root("ModelMetadata")
    except FlatBufferError as error:
        faults.append(f"{BUFFER} is damaged: {error}")
        return None


def _tensor(table: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of an input or output."""
    units = [each["options"] for each in table["process_units"] if each["options"] is not None]
    scales = [options for name, options in units if name == "NormalizationOptions"]
    return {
        "name": table["name"],
        "description": table["description"],
        "content": _content_of(table["content"]),
        "normalization": [{key: list(each[key]) for key in ("mean", "std")} for each in scales],
        "files": [
            {"name": each["name"], "type": _type_of(each), "locale": each["locale"]}
            for each in table["associated_files"]
        ],
    }


def _content_of(content: Mapping[str, Any] | None) -> str:
    """What the items of a tensor are, or ""."""
    if content is None or content["content_properties"] is None:
        return ""
    kind, properties = content["content_properties"]
    match kind:
        case "ImageProperties":
            return f"image, {_named(_COLORS, properties['color_space'])}"
        case "AudioProperties":
            return f"audio, {properties['sample_rate']} Hz, channels: {properties['channels']}"
        case "BoundingBoxProperties":
            return "bounding boxes"
        case _:
            return "features"


def _named(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= number < len(names) else str(number)


def _type_of(file: Mapping[str, Any]) -> str:
    return _named(_FILE_TYPES, file["type"])


def _associated_files(
    files: Sequence[Mapping[str, Any]], content: memoryview, faults: list[str]
) -> tuple[dict[str, int], dict[str, list[str]]]:
    """The sizes of files in the archive behind a model, and the lines of those with labels."""
    if _DIRECTORY_END not in bytes(content[-_COMMENT:]):
        if files:
            faults.append("files are named, but no archive is behind the model")
        return {}, {}
    sizes: dict[str, int] = {}
    labels: dict[str, list[str]] = {}
    types = {each["name"]: _type_of(each) for each in files}
    try:
        with zipfile.ZipFile(io.BytesIO(content[-_ARCHIVE_BYTES:])) as archive:
            sizes = {each.filename: each.file_size for each in archive.infolist()}
            left = _LABEL_BYTES
            for name, type_ in types.items():
                if name not in sizes:
                    faults.append(f"the file '{printable(name)}' is not in the archive")
                elif type_ in _LABELS:
                    text = _unpacked(archive, name, left)
                    left -= len(text)
                    labels[name] = text.decode("utf-8", "replace").splitlines()
    except CORRUPT as error:
        faults.append(f"the archive behind the model cannot be read: {reason(error)}")
    return sizes, labels


def _unpacked(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """A file of an archive; raises ValueError for more than `most` bytes, or another method."""
    entry = archive.getinfo(name)
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"'{name}' has the compression method {entry.compress_type}")
    with archive.open(entry) as member:
        text = member.read(most + 1)
    if len(text) > most:
        raise ValueError(f"labels have more than {_LABEL_BYTES:,} bytes")
    return text
