"""Read a TensorFlow Lite file: map it, verify it, make a `Model` of its tables.

Weights and metadata are views of the mapped file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nnefc.formats.files import map_file, open_regular, printable, reason, size_of
from nnefc.formats.flatbuffers.reader import FlatBufferError, TableReader
from nnefc.formats.paths import CIRCLE_IDENTIFIER, TFLITE_IDENTIFIER
from nnefc.formats.tflite.check_model import check_model
from nnefc.formats.tflite.enumerations import (
    CIRCLE_OPERATORS,
    CUSTOM,
    ITEM_TYPES,
    OPERATORS,
    PLACEHOLDER,
)
from nnefc.formats.tflite.model import (
    Blocks,
    Model,
    Operator,
    Quantization,
    Signature,
    Subgraph,
    Tensor,
)
from nnefc.formats.tflite.schema import VERSIONS, schema
from nnefc.formats.tflite.sparse import Sparsity, SparsityError
from nnefc.support.errors import Diagnostics, NnefError, Place
from nnefc.support.limits import Limits

NAMED_OPTIONS: Final = ("builtin_options", "builtin_options_2")
_OTHER_KINDS: Final = (
    (b"version https://git-lfs", "it is a pointer of Git LFS", "git lfs pull gets the file itself"),
    (b"<", "it is a web page, or other XML", "get the file itself, not the page about it"),
    (b"PK\x03\x04", "it is a zip archive", "unpack it first"),
)
"""Beginnings of files that are often found in the place of a model; what they are, what to do."""


def map_model(path: str | os.PathLike[str]) -> tuple[str, memoryview]:
    """The name of a file for messages, and its content, mapped; raises NnefError."""
    name = printable(os.fspath(path))
    with open_regular(path, "container/file") as file:
        try:
            return name, memoryview(map_file(file) or file.read(size_of(file)))
        except OSError as error:
            raise NnefError.of(
                "container/file", f"cannot read: {reason(error)}", Place(name)
            ) from None


def read_model_file(
    path: str | os.PathLike[str], limits: Limits, diagnostics: Diagnostics
) -> Model:
    """The model of a file; raises NnefError with all errors of its structure."""
    name, content = map_model(path)
    return read_model_bytes(content, name, limits, diagnostics)


def read_model_bytes(
    content: memoryview, name: str, limits: Limits, diagnostics: Diagnostics
) -> Model:
    """The model in memory, with `name` in messages; raises NnefError."""
    place = Place(name)
    identifier = bytes(content[4:8])
    if identifier not in VERSIONS:
        begin = bytes(content[:64]).lstrip()
        kinds = (each for each in _OTHER_KINDS if begin.startswith(each[0]))
        fault = f"bytes 4 to 8 are {identifier!r}, not {TFLITE_IDENTIFIER!r}"
        _, fault, hint = next(kinds, (b"", fault, ""))
        message = f"this is no TensorFlow Lite model: {fault}"
        raise NnefError.of("tflite/flatbuffer", message, place, hint)
    try:
        root = TableReader(content, schema()).root("Model")
    except FlatBufferError as error:
        message = f"the file is damaged: {error}"
        hint = "it may be cut off; compare its size with the original"
        raise NnefError.of("tflite/flatbuffer", message, place, hint) from None
    known = VERSIONS[identifier]
    if root["version"] != known:
        message = f"the model has version {root['version']} of the schema; only {known} is known"
        raise NnefError.of("tflite/version", message, place)
    is_circle = identifier == CIRCLE_IDENTIFIER
    model = _Maker(root, content, place, diagnostics, is_circle=is_circle).model()
    diagnostics.raise_errors()
    check_model(model, limits, diagnostics)
    diagnostics.raise_errors()
    return model


class _Maker:
    """Makes a model of decoded tables; reports errors."""

    def __init__(
        self,
        root: Mapping[str, Any],
        content: memoryview,
        place: Place,
        diagnostics: Diagnostics,
        *,
        is_circle: bool = False,
    ) -> None:
        self._is_circle = is_circle
        self._root = root
        self._content = content
        self._place = place
        self._diagnostics = diagnostics
        self._what = ""
        """The subgraph, tensor or operator that is made, for messages."""

    def _error(self, message: str) -> None:
        what = f"{self._what}: " if self._what else ""
        self._diagnostics.error("tflite/model", what + message, self._place)

    def model(self) -> Model:
        root = self._root
        if not root["subgraphs"]:
            self._error("the model has no subgraphs")
        subgraphs = [self._subgraph(i, each) for i, each in enumerate(root["subgraphs"])]
        self._what = "metadata"
        metadata = {each["name"]: self._buffer(each["buffer"]) for each in root["metadata"]}
        known = {name: data for name, data in metadata.items() if data is not None}
        signatures = [self._signature(each) for each in root["signature_defs"]]
        return Model(self._place.file, root["description"], subgraphs, signatures, known)

    def _subgraph(self, index: int, table: Mapping[str, Any]) -> Subgraph:
        tensors: list[Tensor] = []
        for i, each in enumerate(table["tensors"]):
            self._what = f"subgraph {index}, tensor {i} '{printable(each['name'])}'"
            tensors.append(self._tensor(i, each))
        operators: list[Operator] = []
        for i, each in enumerate(table["operators"]):
            self._what = f"subgraph {index}, operator {i}"
            operators.append(self._operator(i, each))
        inputs, outputs = table["inputs"], table["outputs"]
        return Subgraph(index, table["name"], tensors, inputs, outputs, operators)

    def _tensor(self, index: int, table: Mapping[str, Any]) -> Tensor:
        number = table["type"]
        if not 0 <= number < len(ITEM_TYPES):
            self._error(f"there is no item type {number}")
            number = 0
        return Tensor(
            index,
            table["name"],
            ITEM_TYPES[number],
            table["shape"],
            table["shape_signature"],
            self._buffer(table["buffer"]),
            self._quantization(table["quantization"]),
            table["is_variable"],
            self._sparsity(table["sparsity"], table["shape"]),
            table["external_buffer"],
        )

    def _buffer(self, index: int) -> memoryview | None:
        """The bytes of a buffer; None for one without data, which computed tensors have."""
        buffers = self._root["buffers"]
        if index == 0:
            return None
        if index >= len(buffers):
            self._error(f"it has buffer {index}, but the model has {len(buffers)} buffers")
            return None
        buffer = buffers[index]
        offset, size = buffer["offset"], buffer["size"]
        if offset > 1:  # 0 and 1 stand for data inside the table
            return self._bytes_behind("buffer", index, offset, size)
        return buffer["data"] or None

    def _bytes_behind(self, what: str, index: int, offset: int, size: int) -> memoryview | None:
        """Bytes behind the tables, which may lie beyond the 2 GB that offsets of tables reach."""
        if offset + size > len(self._content):
            ends = f"bytes {offset:,} to {offset + size:,}"
            self._error(f"{what} {index} is {ends} of a file of {len(self._content):,} bytes")
            return None
        return self._content[offset : offset + size] or None

    def _quantization(self, table: Mapping[str, Any] | None) -> Quantization | None:
        """Scales and zero points; None if the tensor has none."""
        if table is None or not (table["scale"] or table["details"]):
            return None
        scale, zero_point = table["scale"], table["zero_point"] or (0,) * len(table["scale"])
        if len(zero_point) == 1:
            zero_point *= len(scale)
        if len(zero_point) != len(scale):
            self._error(f"it has {len(scale)} scales, but {len(zero_point)} zero points")
            return None
        details: tuple[str, Mapping[str, Any]] | None = table["details"]
        name, more = details or ("", {})
        blocks = None
        if name == "BlockwiseQuantization":
            blocks = Blocks(more["scales"], more["zero_points"], more["block_size"])
        return Quantization(scale, zero_point, table["quantized_dimension"], name, blocks)

    def _sparsity(self, table: Mapping[str, Any] | None, shape: Sequence[int]) -> Sparsity | None:
        """Which items a sparse constant has; None for a dense one."""
        if table is None:
            return None
        try:
            sparsity = Sparsity.of(table)
            sparsity.check(shape)
        except SparsityError as error:
            self._error(f"it is sparse, but {error}")
            return None
        return sparsity

    def _operator(self, index: int, table: Mapping[str, Any]) -> Operator:
        codes, number = self._root["operator_codes"], table["opcode_index"]
        name, custom, version = "", "", 1
        if number >= len(codes):
            self._error(f"it has operator code {number}, but the model has {len(codes)}")
        else:
            name, custom, version = self._code(codes[number])
        options_table = ""
        options: Mapping[str, Any] = {}
        for field in NAMED_OPTIONS:
            if table[field] is not None:
                options_table, options = table[field]
        offset, size = table["large_custom_options_offset"], table["large_custom_options_size"]
        own = table["custom_options"] or None
        if offset > 1:
            own = self._bytes_behind("custom options of operator", index, offset, size)
        inputs, outputs = table["inputs"], table["outputs"]
        between = table["intermediates"]
        return Operator(
            *(index, name, custom, version, inputs, outputs, options_table, options, own, between)
        )

    def _code(self, table: Mapping[str, Any]) -> tuple[str, str, int]:
        """Name, custom name and version; files before 2020 have only the first of two fields."""
        codes: tuple[int, int] = (table["deprecated_builtin_code"], table["builtin_code"])
        code = max(codes)
        if self._is_circle and min(codes) < 0:
            name = CIRCLE_OPERATORS.get(min(codes), f"{min(codes)} of Circle")
            return name, "", table["version"]
        if not 0 <= code < len(OPERATORS) or code == PLACEHOLDER:
            self._error(f"there is no built-in operator {code}")
            return "", "", 1
        name = OPERATORS[code]
        return name, table["custom_code"] if name == CUSTOM else "", table["version"]

    def _signature(self, table: Mapping[str, Any]) -> Signature:
        def names(maps: Sequence[Mapping[str, Any]]) -> dict[int, str]:
            return {each["tensor_index"]: each["name"] for each in maps}

        key, subgraph = table["signature_key"], table["subgraph_index"]
        return Signature(key, subgraph, names(table["inputs"]), names(table["outputs"]))
