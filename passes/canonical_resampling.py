"""Rules of `canonicalise` for resizing: by whole factors it is what NNEF has operations for."""

from __future__ import annotations

import numpy as np

from nnefc.ir import Op
from nnefc.ops.resampling import Taps, resized_axes
from nnefc.ops.window_rules import METHODS, interpolation
from nnefc.passes.canonical_rules import New, Result, rule

EXACT = 1e-6
"""Weights may differ by so much: those of other runtimes do, which compute them in float32."""


@rule("resize")
def _resize(op: Op) -> Result:
    """To the same shape; planes by whole factors."""
    shape = op.inputs[0].type.dims
    axes = dict(resized_axes(shape, op.attributes))
    if not axes:
        return [op.inputs[0]]
    if any(axis < 2 or op.output.type.dims[axis] % shape[axis] for axis in axes):
        return None
    factor = tuple(to // n for n, to in zip(shape[2:], op.output.type.dims[2:], strict=True))
    if op.attributes["interpolator"] == "nearest":
        if not all(_repeats(taps, factor[axis - 2]) for axis, taps in axes.items()):
            return None
        cell = (1, 1, *factor)
        attributes = {"size": cell, "stride": cell, "padding": ((0, 0),) * len(shape)}
        return New("debox", op.inputs, attributes)
    for method in METHODS if op.attributes["interpolator"] == "linear" else ():
        if all(
            _interpolates(taps, shape[axis], factor[axis - 2], method)
            for axis, taps in axes.items()
        ):
            attributes = {"factor": factor, "method": method, "border": "replicate"}
            return New("multilinear_upsample", op.inputs, attributes)
    return None


def _repeats(taps: Taps, factor: int) -> bool:
    """Whether every item is repeated `factor` times."""
    return bool((taps.index[:, 0] == np.arange(taps.index.size) // factor).all())


def _interpolates(taps: Taps, extent: int, factor: int, method: str) -> bool:
    """Whether a method of NNEF has the same taps."""
    wanted = interpolation(extent, factor, method, "replicate")
    weight = taps.weight[:, 1]
    high = np.where(weight == 0, taps.index[:, 0], taps.index[:, 1])
    same = (taps.index[:, 0] == wanted.low).all() and (high == wanted.high).all()
    return bool(same and (abs(weight - wanted.weight) <= EXACT).all())
