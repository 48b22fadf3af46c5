"""Handlers that write resampling in ONNX."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nnefc.emit.convert.onnx.symbols import Unsupported
from nnefc.emit.convert.onnx.writer import Handler, OnnxWriter
from nnefc.ir import Op
from nnefc.ops.extended.resize import resized_axes
from nnefc.symbolic.integers import is_symbolic

SYMMETRIC_OPSET: Final = 19
"""The version of ONNX that has the coordinates half_pixel_symmetric."""
VOLUMES_OPSET: Final = 20
"""The version whose GridSample takes tensors of rank 5."""
_DROPPED: Final = "tf_half_pixel_for_nn"
"""Coordinates that version 13 of Resize has dropped."""


def resize(w: OnnxWriter, op: Op) -> str:
    """Handler of `resize`."""
    a, x = op.attributes, op.inputs[0]
    coordinates = coordinates_of(op)
    if coordinates == _DROPPED or not _gives_sizes(op):
        return _by_taps(w, op)
    attributes: dict[str, Any] = {
        "mode": a["interpolator"],
        "coordinate_transformation_mode": coordinates,
    }
    if a["interpolator"] == "nearest":
        attributes["nearest_mode"] = a["nearest_mode"]
    if a["interpolator"] == "cubic":
        attributes["cubic_coeff_a"] = a["cubic_coeff_a"]
    if a["exclude_outside"]:
        attributes["exclude_outside"] = 1
    if a["scales"]:
        return w.one("Resize", w.name(x), "", w.store(a["scales"], np.float32), **attributes)
    return w.one("Resize", w.name(x), "", "", w.integers(op.output.type.dims), **attributes)


def coordinates_of(op: Op) -> str:
    """The coordinates of a `resize`; without scales, symmetric ones are the usual ones."""
    name: str = op.attributes["coord_transformer"]
    if name == "half_pixel_symmetric" and not op.attributes["scales"]:
        return "half_pixel"
    return name


def _gives_sizes(op: Op) -> bool:
    """Whether ONNX computes the sizes of the result from the scales; symbols are trusted.

    Products of float32, which engines compute, and exact ones, as in shape inference, give them.
    """
    extents, sizes = op.inputs[0].type.dims, op.output.type.dims
    scales = op.attributes["scales"]
    if not scales or is_symbolic([*extents, *sizes, *scales]):
        return True
    factors = [np.float32(scale) for scale in scales]
    rounded = (math.floor(n * s) for n, s in zip(extents, factors, strict=True))
    exact = (math.floor(n * float(s)) for n, s in zip(extents, factors, strict=True))
    return tuple(rounded) == tuple(exact) == tuple(sizes)


def _by_taps(w: OnnxWriter, op: Op) -> str:
    """Gathered items or products with matrices of weights, axis by axis; raises Unsupported."""
    x = op.inputs[0]
    if is_symbolic([*x.type.dims, *op.output.type.dims, *op.attributes["scales"]]):
        kind = op.attributes["coord_transformer"]
        raise Unsupported(f"resize ({kind}) of symbolic extents is not converted to ONNX")
    name, rank = w.name(x), x.type.rank
    for axis, taps in resized_axes(x.type.dims, op.attributes):
        if op.attributes["interpolator"] == "nearest":
            name = w.one("Gather", name, w.store(taps.index[:, 0]), axis=axis)
            continue
        weights = np.zeros((len(taps.index), x.type.dims[axis]))
        np.add.at(weights, (np.arange(len(weights))[:, None], taps.index), taps.weight)
        order = [i for i in range(rank) if i != axis] + [axis]
        name = w.one("Transpose", name, perm=order)
        name = w.one("MatMul", name, w.store(weights.T, x.type.dtype.numpy))
        name = w.one("Transpose", name, perm=[order.index(i) for i in range(rank)])
    return name


def _nearest_downsample(w: OnnxWriter, op: Op) -> str:
    factors: list[int] = list(op.attributes["factor"])
    axes = [2 + i for i in range(len(factors))]
    starts, ends = [0] * len(axes), [op.inputs[0].type.dims[axis] for axis in axes]
    lists = [w.integers(items) for items in (starts, ends, axes, factors)]
    return w.one("Slice", w.name(op.inputs[0]), *lists)


def _nearest_upsample(w: OnnxWriter, op: Op) -> str:
    scales = w.store([1, 1, *op.attributes["factor"]], np.float32)
    modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
    return w.one("Resize", w.name(op.inputs[0]), "", scales, nearest_mode="floor", **modes)


_METHODS: Final = {"symmetric": "half_pixel", "asymmetric": "asymmetric"}


def _multilinear_upsample(w: OnnxWriter, op: Op) -> str:
    """Linear interpolation; only within the items where the method does not reach the border."""
    a = op.attributes
    if a["method"] == "aligned":
        coordinates = "align_corners"
    elif a["border"] == "replicate":
        coordinates = _METHODS[a["method"]]
    else:
        reason = f"multilinear_upsample with border {a['border']!r} is not converted to ONNX"
        raise Unsupported(reason)
    scales = w.store([1, 1, *a["factor"]], np.float32)
    modes = {"mode": "linear", "coordinate_transformation_mode": coordinates}
    return w.one("Resize", w.name(op.inputs[0]), "", scales, **modes)


_VOLUME_MODES: Final = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}


def _grid_sample(w: OnnxWriter, op: Op) -> str:
    a = op.attributes
    mode = a["mode"] if w.opset < VOLUMES_OPSET else _VOLUME_MODES[a["mode"]]
    return w.one(
        "GridSample",
        *map(w.name, op.inputs),
        mode=mode,
        padding_mode=a["padding_mode"],
        align_corners=int(a["align_corners"]),
    )


RESAMPLING: Final[dict[str, Handler]] = {
    "resize": resize,
    "nearest_downsample": _nearest_downsample,
    "nearest_upsample": _nearest_upsample,
    "multilinear_upsample": _multilinear_upsample,
    "grid_sample": _grid_sample,
}
