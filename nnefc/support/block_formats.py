"""Formats of block-quantized items: blocks of 32 numbers along a row, each with a scale.

A row of n numbers has n / 32 blocks:

    name         bytes  value of a number; content of a block
    -----------  -----  ------------------------------------------------------------------
    q4_0            18  (code - 8) * scale; the scale, float16, then 16 bytes: byte i has
                        code i in its lower four bits and code 16 + i in the upper ones
    q4_0_legacy     18  as q4_0, but byte i has the codes 2 i and 2 i + 1
    q8_1            36  code * scale; the scale, float16, an unused float16, 32 signed bytes
    q4_f32          20  as q4_0, with a scale of float32
    q4_f32_zero     21  (code - zero) * scale; the scale, float32, the zero point, a byte
                        below 16, then 16 bytes as in q4_0
    q8_f32          36  code * scale; the scale, float32, 32 signed bytes
    q8_f32_zero     37  (code - zero) * scale; the scale, float32, the zero point, a signed
                        byte, 32 signed bytes

llama.cpp and tract have the first three.  The others hold weights of ONNX.  Products with them keep
the rows that they multiply as accurate as float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

BLOCK_ITEMS: Final = 32
"""Numbers of a block."""


class BlockFormat(NamedTuple):
    """What a block consists of: a scale, perhaps a zero point, and codes."""

    bits: int
    """4, less 8 if there is no zero point; or 8, signed."""
    scale: Literal["float16", "float32"] = "float32"
    has_zero: bool = False
    unused_bytes: int = 0
    """Between the scale and the codes."""

    @property
    def scale_bytes(self) -> int:
        return 2 if self.scale == "float16" else 4

    @property
    def codes_at(self) -> int:
        """Byte offset of the codes."""
        return self.scale_bytes + self.has_zero + self.unused_bytes

    @property
    def code_bytes(self) -> int:
        return BLOCK_ITEMS * self.bits // 8

    @property
    def nbytes(self) -> int:
        """Bytes of a block."""
        return self.codes_at + self.code_bytes

    @property
    def packed_head(self) -> int:
        """Bytes before the codes, in panels."""
        return self.scale_bytes + self.has_zero

    @property
    def packed_bytes(self) -> int:
        """Bytes of a block in panels."""
        return self.packed_head + self.code_bytes


BLOCK_FORMATS: Final[Mapping[str, BlockFormat]] = MappingProxyType(
    {
        "q4_0": BlockFormat(4, "float16"),
        "q4_0_legacy": BlockFormat(4, "float16"),
        "q8_1": BlockFormat(8, "float16", unused_bytes=2),
        "q4_f32": BlockFormat(4),
        "q4_f32_zero": BlockFormat(4, has_zero=True),
        "q8_f32": BlockFormat(8),
        "q8_f32_zero": BlockFormat(8, has_zero=True),
    }
)
"""The formats, by name."""
BLOCK_BYTES: Final[Mapping[str, int]] = MappingProxyType(
    {name: format.nbytes for name, format in BLOCK_FORMATS.items()}
)
"""Bytes of a block, by the name of the format."""
TRACT_FORMATS: Final = ("q4_0", "q4_0_legacy", "q8_1")
"""The formats that tensor files of tract may have."""
