"""The options of custom operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnefc.formats.flatbuffers.flexbuffers import read_flexbuffer
from nnefc.formats.flatbuffers.reader import FlatBufferError
from nnefc.frontends.common.values import OperatorError
from nnefc.frontends.tflite.registry import Node


def options_of(node: Node) -> Mapping[str, Any]:
    """The options of a custom operator by name, from a FlexBuffer; raises OperatorError."""
    data = node.operator.custom_options
    if data is None:
        return {}
    try:
        options = read_flexbuffer(data)
    except FlatBufferError as error:
        message = f"its options are no FlexBuffer: {error}"
        raise OperatorError("tflite/arguments", message) from None
    if not isinstance(options, dict):
        raise OperatorError("tflite/arguments", "its options have no names")
    return options  # pyright: ignore[reportUnknownVariableType]
