"""Region-of-interest operations (4.6).

A row of `rois` holds the M starts, then the M ends of a RoI, in the order of the spatial
dimensions.  Where the text is undefined or in error, these rules apply:

- Rounding is floor(x + 0.5).  A NaN coordinate counts as 0; coordinates are clamped to +-2^31.
- Cell (i, j) starts at (y0 + i * s_H, x0 + j * s_W); the text's (c_H + i * s_H, ...) would be
  independent of the position of the RoI.
- A cell is clipped to the feature map before pooling; an empty cell gives 0 (as do all cells of
  an empty or inverted RoI).
- A batch index outside [0, B) is an error.
- roi_resample treats the RoI as an image of extent r = end - start with the real factor f = p / r:
  the position in the feature map is start + (i + 1/2) * r / p - 1/2 ('symmetric'),
  start + i * r / p ('asymmetric') or start + i * (r - 1) / (p - 1) ('aligned', `start` if p = 1),
  clamped to the feature map.
- *_roi_align pools with [1,1] + sampling_rate, since pooling needs an item per dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from nnefc.ir import Op, TensorType
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import length, one_of, positive_items
from nnefc.ops.core.index_check import checked_indices, with_items
from nnefc.ops.core.spec import Call, Emit, OpSpec, Sample
from nnefc.ops.core.traits import COMPOUND, OPAQUE
from nnefc.ops.core.value_text import listing
from nnefc.ops.core.window_arithmetic import METHODS

LARGEST_COORDINATE: Final = 2.0**31


def _roi(call: Call, *lists: str) -> TensorType:
    """The type of the result; each attribute in `lists` needs a positive item per spatial axis."""
    known = {name: positive_items(call, name) for name in lists}
    shape = call.shape("input")
    spatial = len(shape) - 2
    call.require(
        spatial >= 1, f"input must have spatial dimensions: input.shape = {listing(shape)}"
    )
    call.stop_if_wrong()
    for name, items in known.items():
        of = "the number of spatial dimensions"
        length(call, name, items, spatial, of, optional=False)
    rois = call.shape("rois")
    call.require(
        len(rois) == 2 and rois[1] == 2 * spatial,
        f"rois must have shape (N,2*M) for M = {spatial} spatial dimensions: "
        f"rois.shape = {listing(rois)}, expected [N,{2 * spatial}]",
    )
    batch_index = call.shape("batch_index")
    call.require(
        len(batch_index) == 2 and batch_index == (*rois[:1], 1),
        f"batch_index must have shape (N,1) for N RoIs: "
        f"batch_index.shape = {listing(batch_index)}, rois.shape = {listing(rois)}",
    )
    call.stop_if_wrong()
    return TensorType(call.dtype("input"), (rois[0], shape[1], *call["output_size"]))


def _roi_pool(call: Call) -> TensorType:
    return _roi(call, "output_size")


def _roi_resample(call: Call) -> TensorType:
    one_of(call, "method", METHODS)
    return _roi(call, "output_size")


def _roi_align(call: Call) -> TensorType:
    one_of(call, "resize_method", METHODS)
    return _roi(call, "output_size", "sampling_rate")


# -- references


def _feature_maps(input: Array, batch_index: Array) -> list[Array]:
    """The feature map [C, spatial...] of every RoI."""
    input = with_items(input, [0])
    return [input[b] for b in checked_indices(batch_index, len(input), counts_from_end=False)[:, 0]]


def _coordinates(rois: Array) -> Array:
    """[N, 2, M]: finite starts and ends of the RoIs."""
    finite = np.nan_to_num(rois, nan=0.0, posinf=np.inf, neginf=-np.inf)
    bounded = np.clip(finite, -LARGEST_COORDINATE, LARGEST_COORDINATE)
    return bounded.reshape(len(rois), 2, -1)


def _pool(
    input: Array,
    rois: Array,
    batch_index: Array,
    output_size: Sequence[int],
    statistic: Callable[..., Array],
) -> Array:
    """`statistic` of the items of every cell (4.6.1)."""
    output = np.zeros((len(rois), input.shape[1], *output_size))
    rounded = np.floor(_coordinates(rois) + 0.5).astype(np.int64)
    for n, item in enumerate(_feature_maps(input, batch_index)):
        start, end = rounded[n]
        extent = end - start
        size = -(-extent // output_size)
        stride = extent // output_size
        for cell in np.ndindex(*output_size):
            low = start + cell * stride
            high = np.minimum(low + size, item.shape[1:])
            low = np.maximum(low, 0)
            if (low < high).all():
                items = item[(slice(None), *map(slice, low, high))]
                output[(n, slice(None), *cell)] = statistic(items.reshape(len(items), -1), axis=1)
    return output


def _avg_roi_pool(
    input: Array, rois: Array, batch_index: Array, *, output_size: Sequence[int]
) -> Array:
    return _pool(input, rois, batch_index, output_size, np.mean)


def _max_roi_pool(
    input: Array, rois: Array, batch_index: Array, *, output_size: Sequence[int]
) -> Array:
    return _pool(input, rois, batch_index, output_size, np.max)


def _positions(start: float, end: float, count: int, method: str) -> Array:
    """Positions in the feature map of the `count` samples of a RoI, along one dimension."""
    i = np.arange(count)
    extent = end - start
    match method:
        case "symmetric":
            return start + (i + 0.5) * extent / count - 0.5
        case "asymmetric":
            return start + i * extent / count
        case _:
            return start + i * (extent - 1) / max(count - 1, 1)


def _resample(
    input: Array, rois: Array, batch_index: Array, *, output_size: Sequence[int], method: str
) -> Array:
    """Linear interpolation at the samples of every RoI (4.6.2)."""
    output = np.zeros((len(rois), input.shape[1], *output_size))
    coordinates = _coordinates(rois)
    for n, item in enumerate(_feature_maps(input, batch_index)):
        for axis, count in enumerate(output_size, 1):
            last = item.shape[axis] - 1
            start, end = coordinates[n, :, axis - 1]
            position = np.clip(_positions(start, end, count, method), 0, last)
            low = np.floor(position).astype(np.int64)
            u = (position - low).reshape(-1, *(1,) * (item.ndim - axis - 1))
            high = np.minimum(low + 1, last)
            item = (1 - u) * item.take(low, axis) + u * item.take(high, axis)
        output[n] = item
    return output


def _align(statistic: Callable[..., Array]) -> Callable[..., Array]:
    """The reference of *_roi_align (4.6.2): resampled RoIs, then `statistic` of each cell."""

    def reference(
        input: Array,
        rois: Array,
        batch_index: Array,
        *,
        output_size: Sequence[int],
        sampling_rate: Sequence[int],
        resize_method: str,
    ) -> Array:
        size = [o * r for o, r in zip(output_size, sampling_rate, strict=True)]
        cells = _resample(input, rois, batch_index, output_size=size, method=resize_method)
        for axis, (o, r) in enumerate(zip(output_size, sampling_rate, strict=True), 2):
            shape = (*cells.shape[:axis], o, r, *cells.shape[axis + 1 :])
            cells = statistic(cells.reshape(shape), axis=axis + 1)
        return cells

    return reference


# -- expansions


def _expand_align(emit: Emit, op: Op, pool: str, **attributes: Any) -> Any:
    output_size, rate = op.attributes["output_size"], op.attributes["sampling_rate"]
    size = tuple(o * r for o, r in zip(output_size, rate, strict=True))
    method = op.attributes["resize_method"]
    resized = emit("roi_resample", *op.inputs, output_size=size, method=method)
    cell = (1, 1, *rate)
    padding = ((0, 0),) * len(cell)
    return emit(pool, resized, size=cell, stride=cell, padding=padding, **attributes)


def _expand_avg_roi_align(emit: Emit, op: Op) -> Any:
    return _expand_align(emit, op, "box", normalize=True)


def _expand_max_roi_align(emit: Emit, op: Op) -> Any:
    return _expand_align(emit, op, "max_pool")


# -- samples


def _sample(
    shape: tuple[int, ...],
    rois: list[list[float]],
    batch_index: list[int],
    **attributes: Any,
) -> Sample:
    count = len(rois)
    return Sample(
        inputs=(shape, (count, len(rois[0])), (count, 1)),
        attributes=attributes,
        values={1: rois, 2: batch_index},
    )


_MAP = (2, 2, 7, 7)
_ROIS = [[0.0, 0.0, 4.0, 4.0], [1.0, 2.0, 5.0, 6.0], [2.0, 0.0, 6.0, 2.0]]
_INDEX = [0, 1, 0]


def _samples(**more: Any) -> tuple[Sample, ...]:
    def sample(
        shape: tuple[int, ...], rois: list[list[float]], index: list[int], *output_size: int
    ) -> Sample:
        extra = dict(more)
        if "sampling_rate" in extra:
            extra["sampling_rate"] = extra["sampling_rate"][: len(output_size)]
        return _sample(shape, rois, index, output_size=output_size, **extra)

    return (
        sample(_MAP, _ROIS, _INDEX, 2, 2),
        sample(_MAP, _ROIS, _INDEX, 1, 1),
        sample(_MAP, _ROIS, _INDEX, 3, 5),
        # coordinates between items, cells that overlap
        sample((2, 1, 8, 8), [[0.25, 0.75, 5.25, 7.75], [1, 1, 6, 8]], [0, 1], 2, 3),
        sample((2, 1, 8, 8), [[0.5, 1.5, 2.5, 6.0], [0.0, 0.5, 7.5, 3.0]], [1, 1], 4, 4),
        # beyond the map, empty, inverted
        sample(_MAP, [[-3, -2, 4, 9], [5, 5, 12, 12], [20, 20, 30, 30]], [0, 1, 1], 2, 3),
        sample(_MAP, [[3, 3, 3, 3], [5, 5, 2, 1], [1, 2, 2, 3]], [0, 0, 1], 2, 2),
        # far away
        sample(_MAP, [[-1e30, 0, 1e30, 4], [0, 0, 4, 4], [0, 0, 4, 4]], [0, 0, 1], 2, 2),
        sample((2, 3, 6), [[1, 4], [0.5, 5.75]], [1, 0], 3),
        sample((1, 2, 4, 3, 5), [[0, 0, 1, 4, 3, 4], [1, 1, 0, 2, 2, 5]], [0, 0], 2, 1, 3),
    )


_OPERANDS = """
            input: tensor<scalar>,
            rois: tensor<scalar>,
            batch_index: tensor<integer>,
            output_size: integer[]"""

SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="avg_roi_pool",
        signature=f"fragment avg_roi_pool({_OPERANDS} ) -> ( output: tensor<scalar> )",
        section="4.6.1",
        summary="Averages in cells of regions of interest.",
        infer=_roi_pool,
        reference=_avg_roi_pool,
        traits=OPAQUE,
        samples=_samples(),
    ),
    OpSpec(
        name="max_roi_pool",
        signature=f"fragment max_roi_pool({_OPERANDS} ) -> ( output: tensor<scalar> )",
        section="4.6.1",
        summary="Maxima in cells of regions of interest.",
        infer=_roi_pool,
        reference=_max_roi_pool,
        traits=OPAQUE,
        samples=_samples(),
    ),
    OpSpec(
        name="roi_resample",
        signature=f"""
        fragment roi_resample({_OPERANDS},
            method: string = 'symmetric' )
        -> ( output: tensor<scalar> )""",
        section="4.6.2",
        summary="Regions of interest, resampled to a fixed size.",
        infer=_roi_resample,
        reference=_resample,
        traits=OPAQUE,
        samples=tuple(sample for method in METHODS for sample in _samples(method=method)),
    ),
    OpSpec(
        name="avg_roi_align",
        signature=f"""
        fragment avg_roi_align({_OPERANDS},
            sampling_rate: integer[],
            resize_method: string = 'symmetric' )
        -> ( output: tensor<scalar> )""",
        section="4.6.2",
        summary="Averages in cells of resampled regions of interest.",
        infer=_roi_align,
        reference=_align(np.mean),
        traits=COMPOUND,
        expand=_expand_avg_roi_align,
        samples=_samples(sampling_rate=(2, 3, 1))
        + _samples(sampling_rate=(2, 2, 2), resize_method="asymmetric"),
    ),
    OpSpec(
        name="max_roi_align",
        signature=f"""
        fragment max_roi_align({_OPERANDS},
            sampling_rate: integer[],
            resize_method: string = 'symmetric' )
        -> ( output: tensor<scalar> )""",
        section="4.6.2",
        summary="Maxima in cells of resampled regions of interest.",
        infer=_roi_align,
        reference=_align(np.max),
        traits=COMPOUND,
        expand=_expand_max_roi_align,
        samples=_samples(sampling_rate=(2, 3, 1))
        + _samples(sampling_rate=(1, 2, 2), resize_method="aligned"),
    ),
)
