"""The algorithms of a convolution: an attribute of `fused_conv` and `fused_deconv`.

`nnefc.passes.machine.choose_convolution_algorithms` sets the attribute `algorithm`, and lowering
reads it.  The text form of an algorithm is a word such as `winograd4`, see `parse_algorithm`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Direct:
    """Direct convolution: sums over the window and the channels of a group in a register tile."""

    def __str__(self) -> str:
        return "direct"


@dataclass(frozen=True, slots=True)
class Depthwise:
    """Depthwise convolution: the lanes of a vector are different groups."""

    def __str__(self) -> str:
        return "depthwise"


@dataclass(frozen=True, slots=True)
class Grouped:
    """The depthwise kernel, for groups of several channels within a channel block."""

    def __str__(self) -> str:
        return "grouped"


@dataclass(frozen=True, slots=True)
class Winograd:
    """Winograd's minimal filtering (Lavin & Gray, Fast Algorithms for Convolutional Neural
    Networks, 2015).
    """

    tile: int
    """Maximum outputs of a tile along a dimension; tiles are balanced, so some are smaller."""

    def __str__(self) -> str:
        return f"winograd{self.tile}"


ConvolutionAlgorithm = Direct | Depthwise | Grouped | Winograd

_WINOGRAD: Final = re.compile(r"winograd([1-9][0-9]?)")
_WORDS: Final = {str(a): a for a in (Direct(), Depthwise(), Grouped())}


def parse_algorithm(text: str) -> ConvolutionAlgorithm | None:
    """The algorithm whose `str` is `text`; None if no algorithm has that name."""
    winograd = _WINOGRAD.fullmatch(text)
    return Winograd(int(winograd[1])) if winograd else _WORDS.get(text)


def parse_algorithms(texts: Mapping[str, str]) -> dict[str, ConvolutionAlgorithm]:
    """The algorithms by key, without texts that name none."""
    parsed = {key: parse_algorithm(text) for key, text in texts.items()}
    return {key: algorithm for key, algorithm in parsed.items() if algorithm is not None}
