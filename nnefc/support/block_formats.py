"""Formats of block-quantized items: blocks of 32 numbers along a row, each with a scale.

A row of n numbers has n / 32 blocks:

    name         bytes  value of a number; content of a block
    -----------  -----  ------------------------------------------------------------------
    q4_0            18  (code - 8) * scale; the scale, float16, then 16 bytes: byte i has
                        code i in its lower four bits and code 16 + i in the upper ones
    q4_0_legacy     18  as q4_0, but byte i has the codes 2 i and 2 i + 1
    q8_1            36  code * scale; the scale, float16, an unused float16, 32 signed bytes
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

BLOCK_ITEMS: Final = 32
"""Numbers of a block."""

BLOCK_BYTES: Final[Mapping[str, int]] = MappingProxyType(
    {"q4_0": 18, "q4_0_legacy": 18, "q8_1": 36}
)
"""Bytes of a block, by the name of the format."""
