"""Read pictures as input tensors."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, BinaryIO, Final

import numpy as np

from nnefc.formats.files import FilePath, open_regular, printable, reason
from nnefc.formats.item_encodings import Array
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError, Place

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "WEBP")
SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm", ".pnm", ".webp")
"""Suffixes of pictures, in lower case."""
LAYOUTS: Final = ("auto", "nchw", "nhwc")
"""Orders of the axes of a tensor of pictures; `auto`: where the channels are."""
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_PIXELS = 1 << 26
"""Most pixels of a picture, checked before it is decoded."""
_HINT = "pictures are read from PNG, JPEG, BMP, GIF, PPM and WebP files"


def read_image(
    source: FilePath | BinaryIO,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    *,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    layout: str = "auto",
    diagnostics: Diagnostics | None = None,
) -> Array:
    """A picture as a tensor of `shape` (N, C, H, W), (N, H, W, C), one without N, or (H, W).

    `source` is a path or an open file.  `layout` is one of `LAYOUTS`; "auto" is "nhwc" if only the
    last axis can have the channels.  C = 1 is grey, 3 RGB, 4 RGBA.  The
    picture is resized to H, W by Pillow's bilinear filter, which averages when it shrinks, and
    repeated N times.  Floating-point types get values of 0 to 1, then (x - `mean`) / `std`, where
    both are a number or one per channel; integer types get 0 to 255.
    A note in `diagnostics` lists the losses: of size, colour, transparency, depth.

    Raises NnefError `data/image`.
    """
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else "standard input"
    place = Place(printable(name))
    dtype = np.dtype(dtype)
    last = channels_are_last(shape, layout)
    batch, channels, height, width = _extents(shape, last, place)
    if dtype.kind not in "fiu":
        raise _error(f"a picture cannot be read as {dtype}", place)
    if dtype.kind != "f" and (mean is not None or std is not None):
        raise _error(f"mean and std need a floating-point input, not {dtype}", place)
    pixels, lost = _pixels(source, _MODES[channels], (width, height), place)
    if lost and diagnostics is not None:
        message = f"the picture is {' and '.join(lost)}"
        diagnostics.add(Diagnostic("data/image", message, place, "note"))
    values = pixels.reshape(height, width, channels)
    if dtype.kind == "f":
        values = values / np.float64(255.0)
        if mean is not None:
            values = values - _per_channel(mean, "mean", channels, place)
        if std is not None:
            values = values / _per_channel(std, "std", channels, place)
    limits = np.iinfo(dtype) if dtype.kind != "f" else None
    if limits is not None and limits.max < 255:
        raise _error(f"pixels of 0..255 do not fit {dtype}", place)
    image = values.astype(dtype)
    if not last:
        image = image.transpose(2, 0, 1)
    whole = np.broadcast_to(image, (batch, *image.shape))
    return np.ascontiguousarray(whole).reshape(shape)


def channels_are_last(shape: tuple[int, ...], layout: str = "auto") -> bool:
    """Whether the last axis of a tensor of pictures has the channels."""
    if layout != "auto" or len(shape) not in (3, 4):
        return layout == "nhwc" and len(shape) > 2
    return shape[-3] not in _MODES and shape[-1] in _MODES


def _extents(shape: tuple[int, ...], last: bool, place: Place) -> tuple[int, int, int, int]:
    """N, C, H and W of a shape; `last`: the last axis has the channels."""
    batch, channels, height, width = (
        (1,) * (4 - len(shape)) + shape if len(shape) <= 4 else (0,) * 4
    )
    if last:
        channels, height, width = width, channels, height
    if len(shape) < 2 or channels not in _MODES or min(batch, height, width) < 1:
        raise _error(
            f"a picture does not fit shape {shape}",
            place,
            "pictures fit (N, C, H, W), (N, H, W, C), one without N, and (H, W); C = 1, 3 or 4",
        )
    if height * width > _PIXELS:
        raise _error(f"{height}×{width} pixels are more than the {_PIXELS} allowed", place)
    return batch, channels, height, width


def _per_channel(value: float | Sequence[float], what: str, channels: int, place: Place) -> Array:
    values = np.asarray(value, np.float64).reshape(-1)
    if values.size not in (1, channels) or not np.isfinite(values).all():
        listed = ", ".join(f"{x:g}" for x in values)
        several = f"{channels}, one for each channel" if channels > 1 else "finite"
        raise _error(f"{what} {listed} is neither one number nor {several}", place)
    if what == "std" and not values.all():
        raise _error(f"std has a zero: {', '.join(f'{x:g}' for x in values)}", place)
    return values


def _pixels(
    source: FilePath | BinaryIO, mode: str, size: tuple[int, int], place: Place
) -> tuple[Array, list[str]]:
    """The pixels, uint8 (height, width, channels), resized to `size` (width, height), and losses.

    Losses complete the sentence "the picture is ...".
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    is_path = isinstance(source, str | os.PathLike)
    with open_regular(source, "data/image") if is_path else nullcontext(source) as file:
        try:
            with warnings.catch_warnings():
                # Pillow only warns beyond its own limit, which is higher
                warnings.simplefilter("ignore")
                picture = Image.open(file, formats=_FORMATS)
                if picture.width * picture.height > _PIXELS:
                    raise _error(
                        f"{picture.width}×{picture.height} pixels are more than the {_PIXELS}"
                        " allowed",
                        place,
                    )
                lost = _losses(picture, mode)
                upright = _eight_bits(ImageOps.exif_transpose(picture)).convert(mode)
                if upright.size != size:
                    before = f"{upright.width}×{upright.height}"
                    lost.append(f"resized from {before} to {size[0]}×{size[1]} pixels")
                    upright = upright.resize(size, Image.Resampling.BILINEAR)
                return np.asarray(upright, np.uint8), lost
        except NnefError:
            raise
        except UnidentifiedImageError:
            raise _error("this is no picture in a known format", place, _HINT) from None
        except Exception as error:
            # Pillow's decoders raise arbitrary exceptions on damaged files
            raise _error(f"cannot read the picture: {reason(error)}", place, _HINT) from None


def _losses(picture: Any, mode: str) -> list[str]:
    """The losses of converting a picture to `mode`, such as "converted from colour to grey"."""
    lost: list[str] = []
    if (frames := getattr(picture, "n_frames", 1)) > 1:
        lost.append(f"the first of {frames} frames")
    if mode == "L" and picture.mode not in ("1", "L", "LA", "La") and picture.mode[0] not in "IF":
        lost.append("converted from colour to grey")
    if mode != "RGBA" and (picture.mode[-1] in "Aa" or "transparency" in picture.info):
        lost.append("stripped of its transparency")
    if picture.mode.startswith("I"):
        lost.append("reduced from 16 to 8 bits")
    return lost


def _eight_bits(picture: Any) -> Any:
    """A picture with 16-bit grey scaled to 8 bits; Pillow would clip the values at 255."""
    from PIL import Image

    if not picture.mode.startswith("I"):
        return picture
    wide = np.asarray(picture).astype(np.float64)
    return Image.fromarray(np.clip(wide / 257.0 + 0.5, 0, 255).astype(np.uint8))


def _error(message: str, place: Place, hint: str = "") -> NnefError:
    return NnefError.of("data/image", message, place, hint)
