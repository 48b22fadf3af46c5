"""grid_sample: sampling at coordinates that are data, as in PyTorch, from tract's registries."""

from __future__ import annotations

import itertools

import numpy as np

from nnefc.ir import Shape, TensorType
from nnefc.ops.core import batch_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import LARGEST, one_of, volume
from nnefc.ops.core.spec import Call, OpSpec, Sample
from nnefc.ops.core.traits import OPAQUE
from nnefc.ops.core.value_text import listing
from nnefc.ops.extended.resize import cubic

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")

CUBIC_A = -0.75
"""Coefficient of the cubic kernel, as in PyTorch."""
FARTHEST = 2.0**31
"""Bound of coordinates in items; a NaN counts as -FARTHEST."""


def _grid_sample(call: Call) -> TensorType:
    one_of(call, "mode", MODES)
    one_of(call, "padding_mode", PADDINGS)
    shape, grid = call.shape("input"), call.shape("grid")
    about = f"input.shape = {listing(shape)}, grid.shape = {listing(grid)}"
    call.require(
        len(shape) in (4, 5) and len(grid) == len(shape),
        f"input and grid must have the rank 4, or both 5: {about}",
    )
    call.stop_if_wrong()
    call.require(grid[0] == shape[0], f"input and grid must be of the same batch: {about}")
    call.require(
        grid[-1] == len(shape) - 2,
        f"the last extent of grid must be the number of spatial dimensions of input: {about}",
    )
    call.require(
        call["mode"] != "bicubic" or len(shape) == 4,
        f"cubic interpolation is for two spatial dimensions: {about}",
    )
    call.require(
        volume(shape[2:]) <= LARGEST, f"a plane of input must have less than 2**31 items: {about}"
    )
    return TensorType(call.dtype("input"), (*shape[:2], *grid[1:-1]))


def grid_sample(
    input: Array,
    grid: Array,
    *,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Array:
    """output[n, c, p...] = input[n, c] at grid[n, p...] (`torch.nn.functional.grid_sample`).

    grid: [n, p..., coordinates, the last spatial dimension first]; -1 and 1 are the ends of a
    dimension.
    """
    shape: Shape = input.shape
    batch, channels, *extents = shape
    output = np.zeros((channels, batch, *grid.shape[1:-1]))
    # per dimension: (index or -1 for zero, weight) of each tap
    taps: list[list[tuple[Array, Array]]] = []
    for d, extent in enumerate(extents):
        x = np.nan_to_num(grid[..., -1 - d], nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        at = ((x + 1) * (extent - 1) if align_corners else (x + 1) * extent - 1) / 2
        taps.append(
            _taps(np.clip(at, -FARTHEST, FARTHEST), extent, mode, padding_mode, align_corners)
        )
    items = np.expand_dims(np.arange(batch), tuple(range(1, grid.ndim - 1)))
    for tap in itertools.product(*taps):
        indices = [index for index, _ in tap]
        weight = np.prod([weight for _, weight in tap], 0)
        inside = np.all([index >= 0 for index in indices], 0) & (weight != 0)
        within = [np.maximum(index, 0) for index in indices]
        terms = np.moveaxis(input, 1, 0)[(slice(None), items, *within)]
        output += np.where(inside, terms, 0.0) * weight
    return np.moveaxis(output, 0, 1)


def _taps(
    at: Array, extent: int, mode: str, padding_mode: str, align_corners: bool
) -> list[tuple[Array, Array]]:
    """(index or -1 for zero, weight) of every tap along a dimension of `extent` items."""
    if mode != "bicubic":
        at = _padded(at, extent, padding_mode, align_corners)
    if mode == "nearest":
        return [(_inside(np.rint(at), extent), np.ones(at.shape))]
    low = np.floor(at)
    offset = at - low
    if mode == "bilinear":
        return [(_inside(low, extent), 1 - offset), (_inside(low + 1, extent), offset)]
    return [
        (
            _inside(_padded(low + i, extent, padding_mode, align_corners), extent),
            cubic(np.abs(offset - i), CUBIC_A),
        )
        for i in range(-1, 3)
    ]


def _padded(at: Array, extent: int, padding_mode: str, align_corners: bool) -> Array:
    """Coordinates clamped or reflected into the input; unchanged with `zeros`."""
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        low, span = (0.0, extent - 1.0) if align_corners else (-0.5, float(extent))
        if span == 0:
            return np.zeros(at.shape)
        turn = np.fmod(np.abs(at - low), 2 * span)
        at = np.where(turn > span, 2 * span - turn, turn) + low
    return np.clip(at, 0, extent - 1)


def _inside(at: Array, extent: int) -> Array:
    """Whole numbers as indices; -1 outside of 0..extent - 1."""
    return np.where((at >= 0) & (at < extent), at, -1).astype(np.int64)


_SAMPLED = (
    ((1, 2, 3, 4), (1, 2, 5, 2)),
    ((2, 1, 4, 3), (2, 3, 3, 2)),
    ((1, 2, 3, 2, 4), (1, 2, 2, 3, 3)),
    ((1, 1, 1, 5), (1, 1, 9, 2)),
)

SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="grid_sample",
        signature="""
        fragment grid_sample(
            input: tensor<scalar>,
            grid: tensor<scalar>,
            mode: string = 'bilinear',
            padding_mode: string = 'zeros',
            align_corners: logical = false )
        -> ( output: tensor<scalar> )""",
        section="tract",
        summary="Samples the input at coordinates from -1 to 1, the last dimension first.",
        infer=_grid_sample,
        reference=grid_sample,
        traits=OPAQUE._replace(batch=batch_rules.every),
        samples=tuple(
            Sample(
                inputs=shapes,
                attributes={
                    "mode": mode,
                    "padding_mode": padding_mode,
                    "align_corners": align_corners,
                },
                data="ties",
            )
            for shapes in _SAMPLED
            for mode in MODES
            for padding_mode in PADDINGS
            for align_corners in (False, True)
            if mode != "bicubic" or len(shapes[0]) == 4
        ),
    ),
)
