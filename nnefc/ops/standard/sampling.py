"""Up and down-sampling by integer factors (4.3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnefc.ir import Op, Shape, TensorType
from nnefc.ops.core import batch_rules, blocked_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import length, one_of, positive_items
from nnefc.ops.core.spec import Call, Emit, OpSpec, Sample
from nnefc.ops.core.traits import COMPOUND, OPAQUE
from nnefc.ops.core.value_text import listing
from nnefc.ops.core.window_arithmetic import METHODS, interpolation
from nnefc.ops.core.window_reference import along

_BORDERS = ("constant", "replicate", "reflect", "reflect-even")


def _factor(call: Call) -> tuple[Shape, tuple[int, ...]]:
    """(shape of the input, factor), checked: factor needs an item per spatial dimension."""
    factor = positive_items(call, "factor")
    shape = call.shape("input")
    call.require(
        len(shape) >= 2,
        f"input must have a batch and a channel dimension: its shape is {listing(shape)}",
    )
    of = "the number of spatial dimensions"
    length(call, "factor", factor, max(len(shape) - 2, 0), of, optional=False)
    call.stop_if_wrong()
    return shape, call["factor"]


def _up(call: Call) -> TensorType:
    shape, factor = _factor(call)
    spatial = tuple(x * f for x, f in zip(shape[2:], factor, strict=True))
    return TensorType(call.dtype("input"), (*shape[:2], *spatial))


def _down(call: Call) -> TensorType:
    shape, factor = _factor(call)
    call.require(
        all(x % f == 0 for x, f in zip(shape[2:], factor, strict=True)),
        f"factor must divide the spatial extents of input: factor = {listing(factor)}, "
        f"input.shape = {listing(shape)}",
    )
    spatial = tuple(x // f for x, f in zip(shape[2:], factor, strict=True))
    return TensorType(call.dtype("input"), (*shape[:2], *spatial))


def _multilinear(call: Call) -> TensorType:
    one_of(call, "method", METHODS)
    one_of(call, "border", _BORDERS)
    return _up(call)


# -- references


def _nearest_downsample(input: Array, *, factor: Sequence[int]) -> Array:
    """output[i] = input[i * f]"""
    return input[(slice(None), slice(None), *(slice(None, None, f) for f in factor))]


def _area_downsample(input: Array, *, factor: Sequence[int]) -> Array:
    """The mean of every cell of `factor` items."""
    for axis, f in enumerate(factor, 2):
        cells = (*input.shape[:axis], input.shape[axis] // f, f, *input.shape[axis + 1 :])
        input = input.reshape(cells).mean(axis + 1)
    return input


def _nearest_upsample(input: Array, *, factor: Sequence[int]) -> Array:
    """output[i] = input[floor(i / f)]"""
    for axis, f in enumerate(factor, 2):
        input = np.repeat(input, f, axis)
    return input


def _multilinear_upsample(
    input: Array, *, factor: Sequence[int], method: str, border: str
) -> Array:
    """output[i] = (1 - u(i)) * input[j(i)] + u(i) * input[j(i) + 1], dimension by dimension.

    The second term is left out where u(i) = 0: it is NaN for an infinity.
    """
    for axis, f in enumerate(factor, 2):
        i = interpolation(input.shape[axis], f, method, border)
        u = i.weight.reshape(-1, *(1,) * (input.ndim - axis - 1))
        low, high = along(input, axis, i.low), along(input, axis, i.high)
        with np.errstate(invalid="ignore"):
            input = np.where(u == 0, low, (1 - u) * low + u * high)
    return input


# -- expansions


def _no_padding(factor: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The attribute `padding` without padding in any dimension."""
    return ((0, 0),) * (2 + len(factor))


def _expand_nearest_downsample(emit: Emit, op: Op) -> Any:
    factor = op.attributes["factor"]
    size = (1,) * (2 + len(factor))
    padding = _no_padding(factor)
    return emit("box", op.inputs[0], size=size, stride=(1, 1, *factor), padding=padding)


def _expand_area_downsample(emit: Emit, op: Op) -> Any:
    factor = op.attributes["factor"]
    cell = (1, 1, *factor)
    padding = _no_padding(factor)
    return emit("box", op.inputs[0], size=cell, stride=cell, padding=padding, normalize=True)


def _expand_nearest_upsample(emit: Emit, op: Op) -> Any:
    factor = op.attributes["factor"]
    cell = (1, 1, *factor)
    return emit("debox", op.inputs[0], size=cell, stride=cell, padding=_no_padding(factor))


# -- samples


def _samples(*rows: tuple[Shape, tuple[int, ...]], **attributes: Any) -> tuple[Sample, ...]:
    return tuple(
        Sample(inputs=(shape,), attributes={"factor": factor, **attributes})
        for shape, factor in rows
    )


_DOWN = _samples(
    ((2, 3), ()),
    ((2, 3, 6), (3,)),
    ((1, 2, 4, 6), (2, 3)),
    ((1, 2, 4, 6), (1, 2)),
    ((2, 1, 2, 4, 3), (2, 2, 3)),
    ((1, 2, 1, 2, 2, 1, 2, 4), (1, 2, 1, 1, 2, 2)),
)

_UP = _samples(
    ((2, 3), ()),
    ((2, 3, 4), (3,)),
    ((1, 2, 3, 4), (2, 2)),
    ((1, 2, 3, 4), (1, 3)),
    ((2, 1, 2, 1, 3), (2, 2, 3)),
    ((1, 2, 1, 2, 2, 1, 1, 2), (1, 2, 1, 1, 2, 2)),
)

_MULTILINEAR = tuple(
    sample
    for method in METHODS
    for border in _BORDERS
    for sample in _samples(
        ((1, 2, 3, 4), (2, 2)), ((1, 1, 3, 2), (3, 4)), method=method, border=border
    )
) + tuple(
    sample
    for method in METHODS
    for sample in _samples(
        ((2, 3), ()),
        ((2, 2, 5), (3,)),
        ((1, 1, 1, 3), (4, 1)),
        ((1, 2, 2, 1, 3), (2, 3, 2)),
        ((1, 1, 1, 2, 1, 2, 1, 2), (1, 2, 2, 1, 1, 3)),
        method=method,
    )
)

SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="nearest_downsample",
        signature="fragment nearest_downsample( input: tensor<scalar>, factor: integer[] ) "
        "-> ( output: tensor<scalar> )",
        section="4.3.4",
        summary="Every factor-th item of the spatial dimensions.",
        infer=_down,
        reference=_nearest_downsample,
        traits=COMPOUND,
        expand=_expand_nearest_downsample,
        samples=_DOWN,
    ),
    OpSpec(
        name="area_downsample",
        signature="fragment area_downsample( input: tensor<scalar>, factor: integer[] ) "
        "-> ( output: tensor<scalar> )",
        section="4.3.4",
        summary="Averages of cells of the spatial dimensions.",
        infer=_down,
        reference=_area_downsample,
        traits=COMPOUND,
        expand=_expand_area_downsample,
        samples=_DOWN,
    ),
    OpSpec(
        name="nearest_upsample",
        signature="fragment nearest_upsample( input: tensor<scalar>, factor: integer[] ) "
        "-> ( output: tensor<scalar> )",
        section="4.3.4",
        summary="Every item of the spatial dimensions repeated.",
        infer=_up,
        reference=_nearest_upsample,
        traits=COMPOUND,
        expand=_expand_nearest_upsample,
        samples=_UP,
    ),
    OpSpec(
        name="multilinear_upsample",
        signature="""
        fragment multilinear_upsample(
            input: tensor<scalar>,
            factor: integer[],
            method: string = 'symmetric',
            border: string = 'replicate' )
        -> ( output: tensor<scalar> )""",
        section="4.3.4",
        summary="Linear interpolation along every spatial dimension.",
        infer=_multilinear,
        reference=_multilinear_upsample,
        traits=OPAQUE._replace(
            batch=batch_rules.first, blocked=blocked_rules.of_floats(blocked_rules.linear)
        ),
        samples=_MULTILINEAR,
    ),
)
