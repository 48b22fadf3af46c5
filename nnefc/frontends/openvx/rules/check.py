"""One layer while its rules are checked."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

import numpy as np

from nnefc.frontends.openvx.enumerations import (
    ConvertPolicy,
    DownScaleSizeRounding,
    RoundPolicy,
)
from nnefc.frontends.openvx.layers import Layer
from nnefc.frontends.openvx.node_order import place
from nnefc.frontends.openvx.tensors import LAYER_FORMATS, Dims, Format, Layout, TensorInfo
from nnefc.frontends.openvx.windows import smallest_skip
from nnefc.options.arguments import abbreviated
from nnefc.support.errors import Diagnostics

MOST_ITEMS: Final = 1 << 24
"""Padding, dilation and sizes of windows are at most this long."""
LARGEST_FLOAT32: Final = float(np.finfo(np.float32).max)


class LayerCheck:
    """The layouts of a layer's tensors, and what is wrong with them and with its parameters.

    Methods return None, or False, for what they report; a rule ends where it cannot go on.
    """

    def __init__(
        self, layer: Layer, layouts: Mapping[TensorInfo, Layout], diagnostics: Diagnostics
    ) -> None:
        """`layouts`: of the tensors that are known so far, without what the layer writes."""
        self.layer = layer
        self._layouts = layouts
        self._diagnostics = diagnostics
        self.is_valid = True
        """Whether nothing was reported."""

    def require(self, condition: bool, rule: str, parameter: str, message: str) -> bool:
        """Report a rule for a parameter unless the condition holds; returns it."""
        if not condition:
            self.is_valid = False
            self._diagnostics.error(rule, message, place(self.layer, parameter))
        return condition

    # -- tensors

    def layout(self, parameter: str) -> Layout | None:
        """The layout of a tensor that is read; None if it is missing or not known."""
        tensor = self.layer.tensors.get(parameter)
        return None if tensor is None else self._layouts.get(tensor)

    def dims(self, parameter: str, ranks: range) -> Dims | None:
        """The dims of a tensor that is read, if their number is among `ranks`."""
        layout = self.layout(parameter)
        if layout is None or not self.rank(parameter, layout.dims, ranks):
            return None
        return layout.dims

    def rank(self, parameter: str, dims: Dims, ranks: range) -> bool:
        """Whether the number of dims is among `ranks`."""
        expected = " or ".join(map(str, ranks)) if len(ranks) <= 2 else f"{ranks[0]} to {ranks[-1]}"
        message = f"{self._named(parameter, dims)} has {len(dims)} dims: expected {expected}"
        return self.require(len(dims) in ranks, "openvx/rank", parameter, message)

    def given(self, parameter: str) -> Dims | None:
        """The dims of a tensor that is written; None if the layer decides them."""
        return self.layer.tensors[parameter].dims

    def given_rank(self, parameter: str, rank: int) -> bool:
        """Whether a tensor that is written has this number of dims, or none are given."""
        dims = self.given(parameter)
        return dims is None or self.rank(parameter, dims, range(rank, rank + 1))

    def format(self, parameter: str) -> Format | None:
        """The format of a tensor that is read, if layers compute with it."""
        layout = self.layout(parameter)
        if layout is None:
            return None
        names = ", ".join(map(str, LAYER_FORMATS))
        message = f"{self.layer.tensors[parameter]} is {layout.format}: layers compute with {names}"
        ok = self.require(layout.format in LAYER_FORMATS, "openvx/type", parameter, message)
        return layout.format if ok else None

    def same_format(self, parameter: str, format: Format) -> None:
        """Require a tensor to have a format, if it has one."""
        tensor = self.layer.tensors.get(parameter)
        if tensor is None:
            return
        layout = self._layouts.get(tensor)
        own = layout.format if layout is not None else tensor.format
        message = f"{tensor} is {own}: expected {format}, as the input has"
        self.require(own is None or own == format, "openvx/type", parameter, message)

    def extent(self, parameter: str, dims: Dims, axis: int, expected: int, of: str) -> bool:
        """Require an extent, which another tensor determines."""
        message = (
            f"{self._named(parameter, dims)} has {dims[axis]} items along dim {axis}: expected "
            f"{expected}, {of}"
        )
        return self.require(dims[axis] == expected, "openvx/size", parameter, message)

    def batches(self, parameter: str, dims: Dims, expected: Dims, first: int) -> bool:
        """Require the dims behind the first ones to be those of the input."""
        own = dims[first:]
        message = (
            f"{self._named(parameter, dims)} has batches {list(own)}: expected {list(expected)}, "
            "as the input has"
        )
        return self.require(own == expected, "openvx/size", parameter, message)

    def skip(self, axis: int, room: int, output: int, rounding: DownScaleSizeRounding) -> None:
        """Require a skip along x or y (`axis`) for which a window of this room gives `output`."""
        message = (
            f"no skip along {'xy'[axis]} gives {output} items: the window moves over {room} items, "
            f"so a skip of 1 gives {room + 1}"
        )
        skip = smallest_skip(room, output, rounding)
        self.require(skip is not None, "openvx/size", self.layer.declaration.outputs[0], message)

    def _named(self, parameter: str, dims: Dims) -> str:
        return f"{self.layer.tensors[parameter]} {list(dims)}"

    # -- parameters

    def value(self, parameter: str) -> Any:
        """A parameter that is no tensor."""
        return self.layer.values[parameter]

    def whole(self, parameter: str, least: int, most: int = MOST_ITEMS) -> int | None:
        """A parameter that must be a whole number from `least` to `most`."""
        value = self.value(parameter)
        is_whole = isinstance(value, int) and not isinstance(value, bool | IntEnum)
        ok = is_whole and least <= value <= most
        message = f"{self._valued(parameter)}: expected a whole number from {least} to {most}"
        return value if self.require(ok, "openvx/parameter", parameter, message) else None

    def wholes(self, *parameters: str, least: int = 0) -> list[int] | None:
        """Several such parameters; None if one is wrong."""
        values = [self.whole(each, least) for each in parameters]
        known = [value for value in values if value is not None]
        return known if len(known) == len(values) else None

    def real(self, parameter: str, *, may_be_zero: bool) -> None:
        """Require a positive, finite number."""
        value = self.value(parameter)
        is_number = isinstance(value, int | float) and not isinstance(value, bool | IntEnum)
        ok = is_number and 0 <= value <= LARGEST_FLOAT32 and (may_be_zero or value > 0)
        adjective = "finite number of at least 0" if may_be_zero else "positive, finite number"
        message = f"{self._valued(parameter)}: expected a {adjective} that fits in FLOAT32"
        self.require(ok, "openvx/parameter", parameter, message)

    def enumerator(self, parameter: str, enumeration: type[IntEnum]) -> Any:
        """A parameter that must be of an enumeration; None if it is not."""
        value = self.value(parameter)
        names = ", ".join(each.name for each in enumeration)
        message = f"{self._valued(parameter)}: expected one of {enumeration.__name__}: {names}"
        ok = isinstance(value, enumeration)
        return value if self.require(ok, "openvx/parameter", parameter, message) else None

    def _valued(self, parameter: str) -> str:
        return f"{parameter} = {abbreviated(self.value(parameter))}"

    def policies(self) -> None:
        """Check the overflow and the rounding policy."""
        self.enumerator("overflow_policy", ConvertPolicy)
        self.enumerator("rounding_policy", RoundPolicy)
