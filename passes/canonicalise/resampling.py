"""Rules of `canonicalise` for resizing: by integer factors it becomes an NNEF up-sampling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from nnefc.ir import Attribute, Op, Shape
from nnefc.ops.core.window_arithmetic import METHODS, interpolation
from nnefc.ops.extended.resize import Taps, resized_axes
from nnefc.passes.canonicalise.rules import NewOp, Result, rule
from nnefc.symbolic.captured_values import traceable
from nnefc.symbolic.traced_array import traced_call

EXACT = 1e-6
"""Tolerance of interpolation weights, which other runtimes compute in float32."""


SAME, REPEATED = "same", "repeated"
EQUIVALENTS: Final = ("", SAME, REPEATED, *METHODS)
"""Equivalents of a resize: none, its operand, `debox`, or a method of `multilinear_upsample`."""


@rule("resize")
def _resize(op: Op) -> Result:
    """Remove identities; replace integer up-sampling of planes by the operations of NNEF."""
    shape, sizes, a = op.inputs[0].type.dims, op.output.type.dims, op.attributes
    how = tuple((name, value) for name, value in a.items() if name != "sizes")
    (number,) = traced_call(_equivalent, shape, sizes, how)
    equivalent = EQUIVALENTS[int(number)]
    if not equivalent:
        return None
    if equivalent == SAME:
        return [op.inputs[0]]
    factor = tuple(int(to // n) for n, to in zip(shape[2:], sizes[2:], strict=True))
    if equivalent == REPEATED:
        cell = (1, 1, *factor)
        attributes = {"size": cell, "stride": cell, "padding": ((0, 0),) * len(shape)}
        return NewOp("debox", op.inputs, attributes)
    attributes = {"factor": factor, "method": equivalent, "border": "replicate"}
    return NewOp("multilinear_upsample", op.inputs, attributes)


@traceable
def _equivalent(shape: Shape, sizes: Shape, how: tuple[tuple[str, Attribute], ...]) -> tuple[int]:
    """The index of the equivalent among `EQUIVALENTS`, as a function that can be traced."""
    attributes: dict[str, Any] = {**dict(how), "sizes": sizes}
    axes = dict(resized_axes(shape, attributes))
    return (EQUIVALENTS.index(_name_of(shape, sizes, axes, attributes["interpolator"])),)


def _name_of(shape: Shape, sizes: Shape, axes: Mapping[int, Taps], interpolator: str) -> str:
    """The equivalent of a resize with these taps, one of `EQUIVALENTS`."""
    if not axes:
        return SAME
    if any(axis < 2 or sizes[axis] % shape[axis] for axis in axes):
        return ""
    factors = {axis: sizes[axis] // shape[axis] for axis in axes}
    if interpolator == "nearest":
        return REPEATED if all(_repeats(axes[i], factors[i]) for i in axes) else ""
    for method in METHODS if interpolator == "linear" else ():
        if all(_interpolates(axes[i], shape[i], factors[i], method) for i in axes):
            return method
    return ""


def _repeats(taps: Taps, factor: int) -> bool:
    """Whether the taps repeat every item `factor` times."""
    return bool((taps.index[:, 0] == np.arange(taps.index.size) // factor).all())


def _interpolates(taps: Taps, extent: int, factor: int, method: str) -> bool:
    """Whether a method of `multilinear_upsample` (4.3.4) has the same taps."""
    wanted = interpolation(extent, factor, method, "replicate")
    weight = taps.weight[:, 1]
    high = np.where(weight == 0, taps.index[:, 0], taps.index[:, 1])
    same = (taps.index[:, 0] == wanted.low).all() and (high == wanted.high).all()
    return bool(same and (abs(weight - wanted.weight) <= EXACT).all())
