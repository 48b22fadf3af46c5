"""Splitting and concatenating tensors (4.5.3)."""

from __future__ import annotations

import numpy as np

from nnefc.ir import Shape, TensorType
from nnefc.ops.core import blocked_rules, permute_rules, strided_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import MAX_RESULTS, attempt, positive, rank_allowed
from nnefc.ops.core.axes import axis_attribute, axis_within
from nnefc.ops.core.spec import Call, NotKnown, OpSpec, Sample
from nnefc.ops.core.traits import CUT, JOIN
from nnefc.ops.core.value_text import listing

# -- split and concat, stack and unstack


def _split(call: Call) -> list[TensorType]:
    axis = attempt(lambda: axis_attribute(call))
    ratios = attempt(lambda: positive(call, "ratios"))
    call.require(ratios != (), "ratios must not be empty")
    shape = call.shape("value")
    if axis is not None:
        axis_within(call, axis, len(shape), "value")
    call.stop_if_wrong()
    if axis is None or ratios is None:
        raise NotKnown
    call.require(
        shape[axis] % sum(ratios) == 0,
        "the sum of ratios must divide the extent of value along axis: "
        f"ratios = {listing(ratios)} sum to {sum(ratios)}, axis = {axis}, "
        f"value.shape = {listing(shape)}",
    )
    call.stop_if_wrong()
    dtype = call.dtype("value")
    return [
        TensorType(dtype, (*shape[:axis], size, *shape[axis + 1 :]))
        for size in split_sizes(shape[axis], ratios)
    ]


def split_sizes(extent: int, ratios: tuple[int, ...]) -> list[int]:
    """Extents of the results of `split` along its axis."""
    unit = extent // sum(ratios)
    return [unit * ratio for ratio in ratios]


def split(value: Array, *, axis: int, ratios: tuple[int, ...]) -> list[Array]:
    """Chunks whose extents along `axis` are in proportion to `ratios` (4.5.3)."""
    stops = np.cumsum(split_sizes(value.shape[axis], ratios))[:-1]
    return np.split(value, stops, axis)


def _items(call: Call) -> list[Shape]:
    """Shapes of the tensors `values`, which must not be empty."""
    shapes = call.shapes("values")
    call.require(bool(shapes), "values must not be empty")
    call.stop_if_wrong()
    return shapes


def _concat(call: Call) -> TensorType:
    axis = axis_attribute(call)
    shapes = _items(call)
    first = shapes[0]
    if call.require(
        all(len(s) == len(first) for s in shapes),
        f"the ranks of values must be the same: their shapes are {_few(shapes)}",
    ):
        axis_within(call, axis, len(first), "values")
    call.stop_if_wrong()
    others = (*first[:axis], *first[axis + 1 :])
    call.require(
        all((*s[:axis], *s[axis + 1 :]) == others for s in shapes),
        "the shapes of values must be the same in all dimensions other than axis: "
        f"axis = {axis}, shapes {_few(shapes)}",
    )
    total = sum(s[axis] for s in shapes)
    return TensorType(call.dtype("values"), (*first[:axis], total, *first[axis + 1 :]))


def concat(values: list[Array], *, axis: int) -> Array:
    """The tensors `values`, concatenated along `axis` (4.5.3)."""
    return np.concatenate(values, axis)


def _stack(call: Call) -> TensorType:
    axis = axis_attribute(call)
    shapes = _items(call)
    shape = shapes[0]
    call.require(
        all(s == shape for s in shapes),
        f"the shapes of values must be the same: they are {_few(shapes)}",
    )
    call.stop_if_wrong()
    axis_within(call, axis, len(shape) + 1, "value")
    rank_allowed(call, len(shape) + 1, "value")
    return TensorType(call.dtype("values"), (*shape[:axis], len(shapes), *shape[axis:]))


def stack(values: list[Array], *, axis: int) -> Array:
    """The tensors `values` along a new dimension `axis` (4.5.3)."""
    return np.stack(values, axis)


def _unstack(call: Call) -> list[TensorType]:
    axis = axis_attribute(call)
    shape = call.shape("value")
    axis_within(call, axis, len(shape), "value")
    call.stop_if_wrong()
    call.require(
        shape[axis] <= MAX_RESULTS,
        f"unstack gives at most {MAX_RESULTS} tensors: "
        f"axis = {axis}, value.shape = {listing(shape)}",
    )
    call.stop_if_wrong()
    item = TensorType(call.dtype("value"), (*shape[:axis], *shape[axis + 1 :]))
    return [item] * shape[axis]


def unstack(value: Array, *, axis: int) -> list[Array]:
    """The slices along `axis`, without that dimension (4.5.3)."""
    return list(np.moveaxis(value, axis, 0))


def _few(shapes: list[Shape]) -> str:
    """The first four distinct shapes, as text."""
    distinct = list(dict.fromkeys(map(listing, shapes)))
    text = ", ".join(distinct[:4])
    return f"{text}, ..." if len(distinct) > 4 else text


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="split",
        signature="fragment split<?>( value: tensor<?>, axis: integer, ratios: integer[] ) "
        "-> ( values: tensor<?>[] )",
        section="4.5.3",
        summary="Chunks of a tensor along an axis, sized as ratios.",
        infer=_split,
        reference=split,
        traits=CUT._replace(blocked=blocked_rules.split_channels, strided=strided_rules.SPLIT),
        samples=(
            Sample(inputs=((2, 6, 2),), attributes={"axis": 1, "ratios": (1, 2)}),
            Sample(inputs=((4, 3),), attributes={"axis": 0, "ratios": (1, 1)}),
            Sample(inputs=((6,),), attributes={"axis": 0, "ratios": (1, 1, 1)}),
            Sample(inputs=((2, 3, 4),), attributes={"axis": 2, "ratios": (4,)}),
            Sample(inputs=((2, 3, 4),), attributes={"axis": 2, "ratios": (3, 1)}),
            Sample(inputs=((1, 2, 1, 2, 1, 2, 1, 4),), attributes={"axis": 7, "ratios": (1, 2, 1)}),
            Sample(inputs=((2, 3),), attributes={"axis": 1, "ratios": (1, 2)}, data="integers"),
            Sample(inputs=((2, 4),), attributes={"axis": 1, "ratios": (1, 1)}, data="logical"),
        ),
    ),
    OpSpec(
        name="concat",
        signature="fragment concat<?>( values: tensor<?>[], axis: integer ) "
        "-> ( value: tensor<?> )",
        section="4.5.3",
        summary="Tensors one after the other along an axis.",
        infer=_concat,
        reference=concat,
        traits=JOIN._replace(blocked=blocked_rules.concat_channels, permuted=permute_rules.axis),
        samples=(
            Sample(inputs=([(2, 1, 3), (2, 4, 3), (2, 2, 3)],), attributes={"axis": 1}),
            Sample(inputs=([(1, 2), (2, 2)],), attributes={"axis": 0}),
            Sample(inputs=([(2, 3), (2, 1)],), attributes={"axis": 1}),
            Sample(inputs=([(3,)],), attributes={"axis": 0}),
            Sample(
                inputs=([(1, 2, 1, 1, 2, 1, 1, 2), (1, 2, 1, 1, 1, 1, 1, 2)],),
                attributes={"axis": 4},
            ),
            Sample(
                inputs=([(2,), (3,)],), attributes={"axis": 0}, values={0: [[1, -2], [3, 4, 5]]}
            ),
            Sample(inputs=([(2, 2), (2, 3)],), attributes={"axis": 1}, data="logical"),
        ),
    ),
    OpSpec(
        name="stack",
        signature="fragment stack<?>( values: tensor<?>[], axis: integer ) -> ( value: tensor<?> )",
        section="4.5.3",
        summary="Tensors along a new dimension.",
        infer=_stack,
        reference=stack,
        traits=JOIN,
        samples=(
            Sample(inputs=([(2, 3), (2, 3)],), attributes={"axis": 0}),
            Sample(inputs=([(2, 3), (2, 3), (2, 3)],), attributes={"axis": 1}),
            Sample(inputs=([(2, 3), (2, 3)],), attributes={"axis": 2}),
            Sample(inputs=([(), (), ()],), attributes={"axis": 0}),
            Sample(inputs=([(1, 2, 1, 2, 1, 2, 1)] * 2,), attributes={"axis": 7}),
            Sample(inputs=([(2,), (2,)],), attributes={"axis": 1}, values={0: [[1, 2], [3, 4]]}),
            Sample(inputs=([(2,), (2,)],), attributes={"axis": 0}, data="logical"),
        ),
    ),
    OpSpec(
        name="unstack",
        signature="fragment unstack<?>( value: tensor<?>, axis: integer ) "
        "-> ( values: tensor<?>[] )",
        section="4.5.3",
        summary="The slices of a tensor along an axis, without that dimension.",
        infer=_unstack,
        reference=unstack,
        traits=CUT,
        samples=(
            Sample(inputs=((2, 3),), attributes={"axis": 0}),
            Sample(inputs=((2, 3),), attributes={"axis": 1}),
            Sample(inputs=((2, 1, 3),), attributes={"axis": 2}),
            Sample(inputs=((3,),), attributes={"axis": 0}),
            Sample(inputs=((1, 2, 1, 2, 1, 2, 1, 2),), attributes={"axis": 3}),
            Sample(inputs=((2, 3),), attributes={"axis": 1}, data="integers"),
            Sample(inputs=((2, 2),), attributes={"axis": 0}, data="logical"),
        ),
    ),
)
