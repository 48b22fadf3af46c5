"""Block-quantized items: blocks of 32 numbers along a row, with a scale each.

A row of n numbers is n / 32 blocks, each so many bytes:

    name         bytes  number i of a block
    -----------  -----  ------------------------------------------------------------------
    q4_0            18  (code - 8) * scale; a float16, then 16 bytes, of which byte i has
                        the codes i (its lower four bits) and 16 + i
    q4_0_legacy     18  likewise, but byte i has the codes 2 i and 2 i + 1
    q8_1            36  code * scale; a float16, another one that is not used, 32 signed bytes
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
