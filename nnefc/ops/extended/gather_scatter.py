"""Gathering and scattering: operations of tract's registries, with the semantics of ONNX.

Indices out of range are errors, see `common.within`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from nnefc.ir import DType, Op, Shape, TensorType
from nnefc.ops.core import batch_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import attempt, one_of, rank_allowed
from nnefc.ops.core.axes import axis_attribute, axis_within
from nnefc.ops.core.batch_rules import Rows
from nnefc.ops.core.index_check import checked_indices, with_items
from nnefc.ops.core.spec import Call, OpSpec, Sample
from nnefc.ops.core.traits import INDEXING
from nnefc.ops.core.value_text import listing

REDUCTIONS = ("none", "add", "mul", "min", "max")

_COMBINE: dict[str, Callable[[Array, Any, Array], object]] = {
    "none": lambda tensor, coordinates, items: tensor.__setitem__(coordinates, items),
    "add": np.add.at,
    "mul": np.multiply.at,
    "min": np.minimum.at,
    "max": np.maximum.at,
}
"""`combine(tensor, coordinates, items)` writes items into a tensor, in order."""


def _reduction(call: Call) -> None:
    """Check the attribute `reduction`."""
    one_of(call, "reduction", REDUCTIONS)
    reduction = attempt(lambda: call["reduction"])
    dtype = attempt(lambda: call.dtype("input"))
    if reduction not in (None, "none") and dtype is DType.BOOL:
        call.require(False, f"logicals have no sums and extremes: reduction = '{reduction}'")


# -- an index for every item


def _elements_fit(call: Call) -> Shape:
    """The shape of `indices`, checked: at most that of the input, except along `axis`."""
    axis = axis_attribute(call)
    shape = call.shape("input")
    axis_within(call, axis, len(shape))
    indices = call.shape("indices")
    about = f"indices.shape = {listing(indices)}, input.shape = {listing(shape)}"
    if call.require(
        len(indices) == len(shape), f"the rank of indices must equal that of input: {about}"
    ):
        call.require(
            all(i <= s for d, (i, s) in enumerate(zip(indices, shape)) if d != axis),
            f"extents of indices must not exceed those of input, but for axis {axis}: {about}",
        )
    return indices


def _gather_elements(call: Call) -> TensorType:
    return TensorType(call.dtype("input"), _elements_fit(call))


def _element_coordinates(shape: Shape, indices: Array, axis: int) -> tuple[Array, ...]:
    """Coordinates in a tensor of shape `shape` of the items that `indices` select along `axis`."""
    coordinates: list[Array] = [*np.indices(indices.shape)]
    coordinates[axis] = checked_indices(indices, shape[axis])
    return tuple(coordinates)


def gather_elements(input: Array, indices: Array, *, axis: int) -> Array:
    """output[a..., i, b...] = input[a..., indices[a..., i, b...], b...]."""
    input = with_items(input, [axis])
    return input[_element_coordinates(input.shape, indices, axis)]


def _scatter_elements(call: Call) -> TensorType:
    _reduction(call)
    indices = _elements_fit(call)
    _updates_fit(call, indices)
    return TensorType(call.dtype("input"), call.shape("input"))


def _updates_fit(call: Call, wanted: Shape) -> None:
    """Require that `updates` has shape `wanted`."""
    updates = call.shape("updates")
    call.require(
        updates == wanted,
        f"the shape of updates must be {listing(wanted)}: updates.shape = {listing(updates)}",
    )


def scatter_elements(
    input: Array, indices: Array, updates: Array, *, axis: int, reduction: str = "none"
) -> Array:
    """The input with updates at the items that `gather_elements` would read."""
    output = with_items(input, [axis]).copy()
    _COMBINE[reduction](output, _element_coordinates(output.shape, indices, axis), updates)
    return output if output.shape == input.shape else input.copy()


# -- an index for every dimension


def _slices_fit(call: Call, batch_dims: int = 0) -> Shape:
    """The shape of the result of `gather_nd`, checked."""
    call.require(batch_dims >= 0, f"batch_dims must be non-negative: batch_dims = {batch_dims}")
    call.stop_if_wrong()
    shape, indices = call.shape("input"), call.shape("indices")
    about = f"indices.shape = {listing(indices)}, input.shape = {listing(shape)}"
    call.require(
        len(indices) > batch_dims,
        f"the rank of indices must be more than batch_dims = {batch_dims}: {about}",
    )
    call.stop_if_wrong()
    depth = indices[-1]
    call.require(
        batch_dims + depth <= len(shape),
        f"the last extent of indices must be at most the rank of what it indexes: {about}, "
        f"batch_dims = {batch_dims}",
    )
    call.require(
        indices[:batch_dims] == shape[:batch_dims],
        f"the first {batch_dims} extents of indices and input must be equal: {about}",
    )
    call.stop_if_wrong()
    output = (*indices[:-1], *shape[batch_dims + depth :])
    rank_allowed(call, len(output))
    return output


def _gather_nd(call: Call) -> TensorType:
    return TensorType(call.dtype("input"), _slices_fit(call, call["batch_dims"]))


def _slice_coordinates(shape: Shape, indices: Array) -> tuple[Array, ...]:
    """Coordinates along the first dimensions of a tensor of shape `shape`, one array each."""
    valid = checked_indices(indices, shape[: indices.shape[-1]])
    return tuple(valid[..., d] for d in range(indices.shape[-1]))


def gather_nd(input: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    """output[b..., i...] = input[b..., indices[b..., i..., 0], indices[b..., i..., 1], ...]."""
    batch = input.shape[:batch_dims]
    rest = (*indices.shape[batch_dims:-1], *input.shape[batch_dims + indices.shape[-1] :])
    output = np.empty((*batch, *rest), input.dtype)
    input = with_items(input, range(batch_dims, batch_dims + indices.shape[-1]))
    coordinates = _slice_coordinates(input.shape[batch_dims:], indices)
    for b in itertools.product(*map(range, batch)):
        output[b] = input[b][tuple(each[b] for each in coordinates)]
    return output


def _scatter_nd(call: Call) -> TensorType:
    _reduction(call)
    _updates_fit(call, _slices_fit(call))
    return TensorType(call.dtype("input"), call.shape("input"))


def scatter_nd(input: Array, indices: Array, updates: Array, *, reduction: str = "none") -> Array:
    """The input with updates at the slices that `gather_nd` would read."""
    output = with_items(input, range(indices.shape[-1])).copy()
    _COMBINE[reduction](output, _slice_coordinates(output.shape, indices), updates)
    return output if output.shape == input.shape else input.copy()


def _elements_sample(
    shape: Shape, indices: Any, axis: int, reduction: str = "", **more: Any
) -> Sample:
    extents = np.shape(indices)
    attributes: dict[str, Any] = {"axis": axis, "reduction": reduction}
    if not reduction:
        return Sample(
            inputs=(shape, extents), attributes={"axis": axis}, values={1: indices}, **more
        )
    return Sample(
        inputs=(shape, extents, extents), attributes=attributes, values={1: indices}, **more
    )


def _scatter_sample(shape: Shape, indices: Any, reduction: str, **more: Any) -> Sample:
    extents = np.shape(indices)
    updates = (*extents[:-1], *shape[extents[-1] :])
    return Sample(
        inputs=(shape, extents, updates),
        attributes={"reduction": reduction},
        values={1: indices},
        **more,
    )


def _batch_of_gather_nd(op: Op, rows: Rows, size: int) -> int:
    """Separable if each item indexes its own slice, or a table that the items share."""
    table, indices = rows
    if op.attributes["batch_dims"] > 0:
        return batch_rules.every(op, rows, size)
    return indices if not table and op.inputs[1].type.rank > 1 else 0


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="gather_elements",
        signature="fragment gather_elements<?>( input: tensor<?>, indices: tensor<integer>, "
        "axis: integer ) -> ( output: tensor<?> )",
        section="tract",
        summary="The item of the input at every index along an axis.",
        infer=_gather_elements,
        reference=gather_elements,
        traits=INDEXING._replace(batch=batch_rules.axis),
        samples=(
            _elements_sample((3, 4), [[0, 2, 1, -1], [2, 2, 0, 0]], 0),
            _elements_sample((3, 4), [[3, 0], [1, 1], [-4, -1]], 1),
            _elements_sample((2, 3, 2), [[[1, 0]], [[-1, -3]]], 1),
            _elements_sample((5,), [4, 0, 0, -2], 0),
            _elements_sample((2, 2), [[1, 0]], 0, data="integers"),
            _elements_sample((2, 3), [[1, 0, 2, 2]], 1, data="logical"),
        ),
    ),
    OpSpec(
        name="gather_nd",
        signature="fragment gather_nd<?>( input: tensor<?>, indices: tensor<integer>, "
        "batch_dims: integer = 0 ) -> ( output: tensor<?> )",
        section="tract",
        summary="Slices of the input at indices along its first dimensions.",
        infer=_gather_nd,
        reference=gather_nd,
        traits=INDEXING._replace(batch=_batch_of_gather_nd),
        samples=(
            Sample(inputs=((2, 3), (3, 2)), values={1: [[0, 1], [1, -1], [-2, -3]]}),
            Sample(inputs=((3, 2, 2), (2, 2, 1)), values={1: [[[2], [0]], [[1], [1]]]}),
            Sample(
                inputs=((2, 3, 2), (2, 2, 1)),
                attributes={"batch_dims": 1},
                values={1: [[[2], [0]], [[1], [-1]]]},
            ),
            Sample(
                inputs=((2, 2, 3), (2, 2, 1)),
                attributes={"batch_dims": 2},
                values={1: [[[2], [0]], [[1], [-1]]]},
            ),
            Sample(inputs=((4,), (1,)), values={1: [2]}, data="integers"),
            Sample(inputs=((2, 2), (2, 1)), values={1: [[1], [0]]}, data="logical"),
        ),
    ),
    OpSpec(
        name="scatter_elements",
        signature="fragment scatter_elements<?>( input: tensor<?>, indices: tensor<integer>, "
        "updates: tensor<?>, axis: integer, reduction: string = 'none' ) "
        "-> ( output: tensor<?> )",
        section="tract",
        summary="The input with updates of the items at indices along an axis.",
        infer=_scatter_elements,
        reference=scatter_elements,
        traits=INDEXING._replace(batch=batch_rules.axis),
        samples=(
            *(
                _elements_sample((3, 4), [[0, 2, 1, -1], [2, 2, 1, -3]], 0, reduction)
                for reduction in REDUCTIONS
            ),
            _elements_sample((2, 3), [[1, 1, 0, -1], [0, 0, 0, -3]], 1, "none"),
            _elements_sample((2, 3, 2), [[[1, 0]], [[-1, 1]]], 1, "max"),
            _elements_sample((4,), [3, 3, 1], 0, "add", data="integers"),
            _elements_sample((4,), [3, 3, 1], 0, "none", data="logical"),
        ),
    ),
    OpSpec(
        name="scatter_nd",
        signature="fragment scatter_nd<?>( input: tensor<?>, indices: tensor<integer>, "
        "updates: tensor<?>, reduction: string = 'none' ) -> ( output: tensor<?> )",
        section="tract",
        summary="The input with updates of the slices at indices along its first dimensions.",
        infer=_scatter_nd,
        reference=scatter_nd,
        traits=INDEXING,
        samples=(
            *(
                _scatter_sample((3, 4), [[0, 1], [2, -1], [0, 1], [-3, -4]], reduction)
                for reduction in REDUCTIONS
            ),
            _scatter_sample((3, 2, 2), [[[2], [0]], [[2], [-1]]], "none"),
            _scatter_sample((3, 5), [[1], [1]], "max", data="integers"),
            _scatter_sample((3, 5), [2], "none", data="logical"),
        ),
    ),
)
