"""The messages of an ONNX model that may hold tensors, by the numbers of their fields.

Source: onnx.proto3.
"""

from __future__ import annotations

from typing import Final

MODEL: Final = "model"
TENSOR: Final = "tensor"
MESSAGES: Final[dict[str, dict[int, str]]] = {
    MODEL: {7: "graph", 25: "function"},
    "graph": {1: "node", 5: TENSOR, 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: TENSOR, 6: "graph", 10: TENSOR, 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: TENSOR, 2: TENSOR},
}
"""The messages in each message, by the field that holds them."""

# Fields of a tensor.
DATA_TYPE: Final = 2
RAW_DATA: Final = 9
PACKED_ITEMS: Final = {1: 4, 14: 4, 11: 10, 15: 10}
"""The field with the items as packed numbers, by item type: float, complex64, double, complex128.
Their bytes are those of `RAW_DATA`."""
EXTERNAL_DATA: Final = 13
DATA_LOCATION: Final = 14
EXTERNAL: Final = 1
"""The value of `DATA_LOCATION` for data in another file."""

# Fields of an entry of external data.
KEY: Final = 1
VALUE: Final = 2

MAX_DEPTH: Final = 100
"""Nested messages, as in the parsers of protocol buffers."""
