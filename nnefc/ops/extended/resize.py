"""resize: resampling along any axes with the coordinates of ONNX, from tract's registries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nnefc.ir import Op, Shape, TensorType
from nnefc.ops.core import batch_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import extents_allowed, fits, length, one_of
from nnefc.ops.core.batch_rules import Rows
from nnefc.ops.core.spec import Call, OpSpec, Sample
from nnefc.ops.core.traits import OPAQUE, Folding
from nnefc.ops.core.value_text import listing
from nnefc.symbolic.captured_values import traceable
from nnefc.symbolic.table_size import check_items
from nnefc.symbolic.traced_array import traced_call

COORDINATES = (
    "half_pixel",
    "align_corners",
    "asymmetric",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
    "tf_half_pixel_for_nn",
)
INTERPOLATORS = ("nearest", "linear", "cubic")
CUBIC_TAPS = 4
SHRINKS, GROWS = -1, 1
NEAREST = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


@dataclass(frozen=True, slots=True, eq=False)
class Taps:
    """Resampling along one axis: output[o] is the sum of weight[o] * input[index[o]].

    index, weight: [outputs, taps].
    """

    index: npt.NDArray[np.int64]
    weight: npt.NDArray[np.float64]


def resized_axes(shape: Shape, attributes: Mapping[str, Any]) -> Iterator[tuple[int, Taps]]:
    """The axes that a resize changes, with their taps."""
    sizes, scales = attributes["sizes"], scales_of(shape, attributes)
    for axis in changed_axes(shape, attributes):
        yield axis, taps(shape[axis], sizes[axis], scales[axis], attributes)


def changed_axes(shape: Shape, attributes: Mapping[str, Any]) -> list[int]:
    """The axes that a resize changes, in the order that needs the least arithmetic.

    Shrinking axes come first, in ascending order; then growing axes, in descending order.
    """
    each = zip(shape, attributes["sizes"], scales_of(shape, attributes), strict=True)
    changes = [int(traced_call(_change, *axis)[0]) for axis in each]
    shrinking = [axis for axis, change in enumerate(changes) if change == SHRINKS]
    growing = [axis for axis, change in enumerate(changes) if change == GROWS]
    return [*shrinking, *reversed(growing)]


def scales_of(shape: Shape, attributes: Mapping[str, Any]) -> Sequence[float | None]:
    """The explicit scale of each axis; None where the extents determine it."""
    return attributes["scales"] or (None,) * len(shape)


@traceable
def _change(extent: int, size: int, explicit: float | None) -> tuple[int]:
    """The effect of a resize on an axis: 0 (none), SHRINKS or GROWS."""
    scale = _scale(extent, size, explicit)
    if (extent, 1) == (size, scale):
        return (0,)
    return (SHRINKS if scale < 1 else GROWS,)


def _scale(extent: int, size: int, explicit: float | None) -> np.floating[Any]:
    """The factor along an axis, a float32 as in other runtimes."""
    return np.float32(size) / np.float32(extent) if explicit is None else np.float32(explicit)


def taps(extent: int, outputs: int, explicit: float | None, attributes: Mapping[str, Any]) -> Taps:
    """The taps that resize an axis from `extent` to `outputs` items.

    `explicit`: the scale; None: outputs / extent.
    Coordinates of nearest neighbours are computed in float32, as in other runtimes, because the
    choice of the neighbour depends on their rounding.  Others are exact where extents give the
    scale: its rounding to float32 would move the last of 150 items by 1e-5.
    """
    a, scale = attributes, _scale(extent, outputs, explicit)
    check_items(CUBIC_TAPS, outputs)
    kind = np.float32 if a["interpolator"] == "nearest" else np.float64
    if explicit is None and kind is np.float64:
        scale = np.float64(outputs) / np.float64(extent)
    at = coordinates(extent, np.arange(outputs, dtype=kind), kind(scale), a["coord_transformer"])
    if a["interpolator"] == "nearest":
        index = nearest_index(at, a["nearest_mode"])[:, None]
        return Taps(np.clip(index, 0, extent - 1), np.ones(index.shape))
    low = np.floor(at)
    offset = (at - low)[:, None]
    if a["interpolator"] == "linear":
        index, weight = np.arange(2), np.concatenate([1 - offset, offset], 1)
    else:
        index = np.arange(CUBIC_TAPS) - 1
        weight = cubic(np.abs(offset - index), a["cubic_coeff_a"])
    index = low.astype(np.int64)[:, None] + index
    inside = np.clip(index, 0, extent - 1)
    if a["exclude_outside"]:
        weight = np.where(index == inside, weight, 0.0)
        weight /= weight.sum(1, keepdims=True)
    return Taps(inside, weight)


def coordinates(extent: int, x: Array, scale: Any, transformer: str) -> Array:
    """Coordinates in the input of the output items x, in the type of x."""
    one, half, outputs = x.dtype.type(1), x.dtype.type(0.5), x.size
    real_outputs = scale * x.dtype.type(extent)
    match transformer:
        case "asymmetric":
            return x / scale
        case "align_corners":
            span = real_outputs - one
            return x * x.dtype.type(extent - 1) / span if span else x * 0
        case "tf_half_pixel_for_nn":
            return (x + half) / scale
        case "pytorch_half_pixel" if outputs == 1:
            return x * 0
        case "half_pixel_symmetric":
            centre = x.dtype.type(extent) * half
            offset = centre * (one - x.dtype.type(outputs) / real_outputs)
            return offset + (x + half) / scale - half
        case _:
            return (x + half) / scale - half


def nearest_index(at: Array, mode: str) -> npt.NDArray[np.int64]:
    """Coordinates rounded to whole numbers by the attribute `nearest_mode`."""
    half = at.dtype.type(0.5)
    low = np.floor(at)
    match mode:
        case "floor":
            chosen = low
        case "ceil":
            chosen = np.ceil(at)
        case "round_prefer_floor":
            chosen = np.where(at - low > half, low + 1, low)
        case _:
            chosen = np.where(at - low >= half, low + 1, low)
    return chosen.astype(np.int64)


def cubic(distance: Array, a: float) -> Array:
    """The cubic convolution kernel (Keys 1981) at a distance >= 0."""
    x = distance
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _resize(call: Call) -> TensorType:
    one_of(call, "coord_transformer", COORDINATES)
    one_of(call, "interpolator", INTERPOLATORS)
    one_of(call, "nearest_mode", NEAREST)
    sizes: tuple[int, ...] = call["sizes"]
    fits(call, "sizes", sizes)
    scales: tuple[float, ...] = call["scales"]
    call.require(
        all(0 < s < np.inf for s in scales), f"scales must be positive: scales = {listing(scales)}"
    )
    shape = call.shape("input")
    of = "the rank of input"
    length(call, "sizes", sizes, len(shape), of, optional=False)
    length(call, "scales", scales, len(shape), of, optional=True)
    call.stop_if_wrong()
    extents_allowed(call, sizes, shape)
    return TensorType(call.dtype("input"), tuple(sizes))


def resize(input: Array, **attributes: Any) -> Array:
    """Along every axis output[o] = sum over t of weight[o, t] * input[index[o, t]]."""
    output = input
    for axis, of_axis in resized_axes(input.shape, attributes):
        weight = of_axis.weight.reshape(*of_axis.weight.shape, *(1,) * (input.ndim - axis - 1))
        terms = np.take(output, of_axis.index, axis)
        # a term of weight 0 is 0 even for an infinity or a NaN
        output = np.sum(np.where(weight == 0, 0.0, terms) * weight, axis + 1)
    return output


def _sample(
    shape: Shape,
    sizes: Shape,
    coordinates: str = "half_pixel",
    interpolator: str = "linear",
    mode: str = "floor",
    scales: tuple[float, ...] = (),
    *,
    a: float = -0.75,
    exclude: bool = False,
) -> Sample:
    return Sample(
        inputs=(shape,),
        attributes={
            "sizes": sizes,
            "scales": scales,
            "coord_transformer": coordinates,
            "interpolator": interpolator,
            "nearest_mode": mode,
            "cubic_coeff_a": a,
            "exclude_outside": exclude,
        },
    )


def _batch(op: Op, rows: Rows, size: int) -> int:
    """Separable unless dimension 0 is resized."""
    del size
    return rows[0] if 0 not in changed_axes(op.inputs[0].type.dims, op.attributes) else 0


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="resize",
        signature="""
        fragment resize(
            input: tensor<scalar>,
            sizes: integer[],
            scales: scalar[] = [],
            coord_transformer: string = 'half_pixel',
            interpolator: string = 'nearest',
            nearest_mode: string = 'floor',
            cubic_coeff_a: scalar = -0.75,
            exclude_outside: logical = false )
        -> ( output: tensor<scalar> )""",
        section="tract",
        summary="Resamples along any axes; scales, if given, determine the coordinates instead of "
        "sizes.",
        infer=_resize,
        reference=resize,
        traits=OPAQUE._replace(
            batch=_batch, resized=batch_rules.shape_attribute("sizes"), folding=Folding.LINEAR
        ),
        integers=True,
        samples=(
            *(
                _sample((1, 2, 3, 4), (1, 2, 5, 7), coordinates, interpolator)
                for coordinates in COORDINATES
                for interpolator in INTERPOLATORS
            ),
            *(_sample((2, 8), (2, 5), "half_pixel", "nearest", mode) for mode in NEAREST),
            _sample((1, 1, 3, 4), (1, 1, 6, 12), "asymmetric", "nearest"),
            _sample((1, 1, 3, 4), (1, 1, 6, 8), "align_corners"),
            _sample((4, 3), (9, 5), scales=(2.25, 1.75)),
            _sample((4, 3), (2, 6), "asymmetric", "nearest", scales=(0.625, 2.0)),
            _sample((7,), (3,), "half_pixel", "cubic", a=-0.5),
            _sample((2, 3, 4), (4, 2, 9), "half_pixel", "cubic", exclude=True),
            _sample((3, 2), (3, 1), "pytorch_half_pixel"),
            _sample((3, 2), (1, 2), "align_corners"),
            _sample((2, 3), (2, 3)),
        ),
    ),
)
