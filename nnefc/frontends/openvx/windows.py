"""Skips of convolutions and pooling, upscales of deconvolutions, from the sizes of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnefc.frontends.openvx.enumerations import DownScaleSizeRounding
from nnefc.frontends.openvx.tensors import Dims


def room(extent: int, padding: int, kernel: int, dilation: int = 0) -> int:
    """How far a kernel can move over a padded extent; negative if it does not fit."""
    return extent + 2 * padding - kernel - (kernel - 1) * dilation


def smallest_skip(room: int, output: int, rounding: DownScaleSizeRounding) -> int | None:
    """The smallest skip for which room / skip, rounded, plus 1 is `output`; None if there is none.

    1 for an output of one item, which never moves.
    """
    if room < 0 or output < 1:
        return None
    if output == 1:
        return 1
    is_ceiling = rounding == DownScaleSizeRounding.CEILING
    skip = -(-room // (output - 1)) if is_ceiling else room // output + 1
    if skip < 1:
        return None
    moves = -(-room // skip) if is_ceiling else room // skip
    return skip if moves + 1 == output else None


def upscale(extent: int, padding: int, kernel: int, extra: int, output: int) -> int | None:
    """The upscale with (extent - 1) upscale - 2 padding + kernel + extra = output; None if none.

    1 for an input of one item, or the smallest one that `extra` allows.
    """
    distance = output + 2 * padding - kernel - extra
    if extent == 1:
        return extra + 1 if distance == 0 else None
    factor, rest = divmod(distance, extent - 1)
    return factor if rest == 0 and factor > extra >= 0 else None


def convolution_skips(values: Mapping[str, Any], dims: Mapping[str, Dims]) -> tuple[int, int]:
    """The skips along x and y of a verified convolution layer."""
    inputs, kernel = dims["inputs"], dims["weights"]
    rooms = [
        room(inputs[i], values[f"padding_{axis}"], kernel[i], values[f"dilation_{axis}"])
        for i, axis in enumerate("xy")
    ]
    return _skips(rooms, dims["outputs"], values["down_scale_size_rounding"])


def pooling_skips(values: Mapping[str, Any], dims: Mapping[str, Dims]) -> tuple[int, int]:
    """The skips along x and y of a verified pooling layer."""
    rooms = [
        room(dims["inputs"][i], values[f"pooling_padding_{axis}"], values[f"pooling_size_{axis}"])
        for i, axis in enumerate("xy")
    ]
    return _skips(rooms, dims["outputs"], values["rounding"])


def upscales(values: Mapping[str, Any], dims: Mapping[str, Dims]) -> tuple[int, int]:
    """The upscales along x and y of a verified deconvolution layer."""
    inputs, kernel, outputs = dims["inputs"], dims["weights"], dims["outputs"]
    x, y = (
        upscale(inputs[i], values[f"padding_{axis}"], kernel[i], values[f"a_{axis}"], outputs[i])
        for i, axis in enumerate("xy")
    )
    assert x is not None
    assert y is not None
    return x, y


def _skips(rooms: list[int], outputs: Dims, rounding: DownScaleSizeRounding) -> tuple[int, int]:
    x, y = (smallest_skip(rooms[i], outputs[i], rounding) for i in range(2))
    assert x is not None
    assert y is not None
    return x, y
