"""Reshaping (4.5.1) and transposing (4.5.2)."""

from __future__ import annotations

import numpy as np

from nnefc.ir import Attribute, Op, Shape, TensorType
from nnefc.ops.core import batch_rules, strided_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import attempt, rank_allowed, volume
from nnefc.ops.core.axes import axes_attribute, axes_within
from nnefc.ops.core.batch_rules import Rows
from nnefc.ops.core.spec import Call, NotKnown, OpSpec, Sample
from nnefc.ops.core.traits import MOVEMENT, VIEW
from nnefc.ops.core.value_text import listing

# -- reshape, squeeze, unsqueeze


def reshaped(
    shape: Shape, items: tuple[int, ...], axis_start: int = 0, axis_count: int = -1
) -> Shape:
    """The shape of the result of `reshape` for valid arguments."""
    stop = len(shape) if axis_count == -1 else axis_start + axis_count
    new = [shape[axis_start + i] if item == 0 else item for i, item in enumerate(items)]
    if -1 in new:
        at = new.index(-1)
        rest = volume(new[:at] + new[at + 1 :])
        new[at] = volume(shape[axis_start:stop]) // rest
    return (*shape[:axis_start], *new, *shape[stop:])


def _reshape(call: Call) -> TensorType:
    start: int | None = attempt(lambda: call["axis_start"])
    if start is not None:
        call.require(start >= 0, f"axis_start must be non-negative: axis_start = {start}")
    count: int | None = attempt(lambda: call["axis_count"])
    if count is not None:
        call.require(count >= -1, f"axis_count must be non-negative or -1: axis_count = {count}")
    items: tuple[int, ...] | None = attempt(lambda: call["shape"])
    if items is not None:
        call.require(
            all(item >= -1 for item in items),
            f"items in shape must be non-negative or -1: shape = {listing(items)}",
        )
        call.require(
            items.count(-1) <= 1, f"at most one item in shape may be -1: shape = {listing(items)}"
        )
    input = call.shape("input")
    rank = len(input)
    if start is not None:
        call.require(
            start <= rank,
            f"axis_start must be at most the rank of input: axis_start = {start}, rank {rank}",
        )
    call.stop_if_wrong()
    if start is None or count is None or items is None:
        raise NotKnown
    stop = rank if count == -1 else start + count
    call.require(
        stop <= rank,
        "axis_start + axis_count must be at most the rank of input: "
        f"axis_start = {start}, axis_count = {count}, rank {rank}",
    )
    call.stop_if_wrong()
    orphans = [i for i, item in enumerate(items) if item == 0 and start + i >= stop]
    call.require(
        not orphans,
        "a 0 in shape must have an extent of input to inherit: "
        f"shape = {listing(items)}, input.shape = {listing(input)}, axes {start} to {stop}",
    )
    call.stop_if_wrong()
    affected = volume(input[start:stop])
    known = volume(
        input[start + i] if item == 0 else item for i, item in enumerate(items) if item != -1
    )
    about = f"shape = {listing(items)}, extents {listing(input[start:stop])}"
    if -1 in items:
        call.require(
            affected % known == 0,
            "the items of shape other than -1 must divide the volume of input: "
            f"{about}, {affected} is no multiple of {known}",
        )
    else:
        call.require(
            affected == known,
            f"the volume of shape must equal that of input: {about}, {known} is not {affected}",
        )
    output = reshaped(input, items, start, count)
    rank_allowed(call, len(output))
    return TensorType(call.dtype("input"), output)


def reshape(
    input: Array, *, shape: tuple[int, ...], axis_start: int = 0, axis_count: int = -1
) -> Array:
    """The items of the input in row-major order, in another shape (4.5.1)."""
    return input.reshape(reshaped(input.shape, shape, axis_start, axis_count))


def _squeeze(call: Call) -> TensorType:
    axes = axes_attribute(call)
    shape = call.shape("input")
    if axes_within(call, axes, len(shape)):
        call.require(
            all(shape[a] == 1 for a in axes if a >= 0),
            "extents along axes must be singular: "
            f"axes = {listing(axes)}, input.shape = {listing(shape)}",
        )
    remaining = tuple(extent for d, extent in enumerate(shape) if d not in axes)
    return TensorType(call.dtype("input"), remaining)


def squeeze(input: Array, *, axes: tuple[int, ...]) -> Array:
    """The input without the singular dimensions `axes` (4.5.1)."""
    return np.squeeze(input, tuple(axes))


def _unsqueeze(call: Call) -> TensorType:
    axes = axes_attribute(call)
    shape = call.shape("input")
    rank = len(shape) + len(axes)
    rank_allowed(call, rank)
    axes_within(call, axes, rank, "output")
    call.stop_if_wrong()
    rest = iter(shape)
    extents = tuple(1 if d in axes else next(rest) for d in range(rank))
    return TensorType(call.dtype("input"), extents)


def unsqueeze(input: Array, *, axes: tuple[int, ...]) -> Array:
    """The input with singular dimensions at the axes `axes` of the result (4.5.1)."""
    return np.expand_dims(input, tuple(axes))


# -- transpose


def _transpose(call: Call) -> TensorType:
    axes: tuple[int, ...] = call["axes"]
    call.require(
        sorted(axes) == list(range(len(axes))),
        f"axes must be a permutation of 0 to {len(axes) - 1}: axes = {listing(axes)}",
    )
    shape = call.shape("input")
    call.require(
        len(axes) <= len(shape),
        "axes must not be longer than the rank of input: "
        f"axes = {listing(axes)}, rank {len(shape)}",
    )
    call.stop_if_wrong()
    return TensorType(call.dtype("input"), tuple(shape[d] for d in permutation(axes, len(shape))))


def permutation(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """`axes` of a transpose, completed with the trailing dimensions that it leaves in place."""
    return (*axes, *range(len(axes), rank))


def transpose(input: Array, *, axes: tuple[int, ...]) -> Array:
    """Dimension k of the result is dimension axes[k] of the input (4.5.2)."""
    return np.transpose(input, permutation(axes, input.ndim))


def _batch_of_reshape(op: Op, rows: Rows, size: int) -> int:
    """Separable if the batch divides the first extent of the result: items keep their order."""
    del rows
    first = op.output.type.dims[:1]
    return first[0] // size if first and first[0] % size == 0 else 0


def _resized_reshape(op: Op, rows: int) -> dict[str, Attribute]:
    shape = (rows, *op.output.type.dims[1:])
    return {**op.attributes, "shape": shape, "axis_start": 0, "axis_count": -1}


def _batch_of_transpose(op: Op, rows: Rows, size: int) -> int:
    """Separable if dimension 0 stays first."""
    del size
    return rows[0] if op.attributes["axes"][:1] in ((), (0,)) else 0


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="reshape",
        signature="fragment reshape<?>( input: tensor<?>, shape: integer[], "
        "axis_start: integer = 0, axis_count: integer = -1 ) -> ( output: tensor<?> )",
        section="4.5.1",
        summary="The same items, row-major, under another shape; 0 inherits an extent, "
        "-1 is what remains.",
        infer=_reshape,
        reference=reshape,
        traits=VIEW._replace(batch=_batch_of_reshape, resized=_resized_reshape),
        samples=(
            Sample(inputs=((2, 3, 4),), attributes={"shape": (6, 4)}),
            Sample(inputs=((2, 3, 4),), attributes={"shape": (0, -1)}),
            Sample(inputs=((2, 3, 4),), attributes={"shape": (-1, 0, 2)}),
            Sample(inputs=((2, 3, 4),), attributes={"shape": (4, 3), "axis_start": 1}),
            Sample(
                inputs=((2, 3, 4),),
                attributes={"shape": (1, 1), "axis_start": 1, "axis_count": 0},
            ),
            Sample(
                inputs=((2, 3, 4, 2),),
                attributes={"shape": (-1,), "axis_start": 1, "axis_count": 2},
            ),
            Sample(inputs=((1, 1),), attributes={"shape": ()}),
            Sample(inputs=((),), attributes={"shape": (1, 1, 1)}),
            Sample(inputs=((6,),), attributes={"shape": (1, 2, 1, 3, 1, 1, 1, 1)}),
            Sample(inputs=((2, 3),), attributes={"shape": (3, 2)}, data="integers"),
            Sample(inputs=((2, 3),), attributes={"shape": (6,)}, data="logical"),
        ),
    ),
    OpSpec(
        name="squeeze",
        signature="fragment squeeze<?>( input: tensor<?>, axes: integer[] ) "
        "-> ( output: tensor<?> )",
        section="4.5.1",
        summary="Removes singular dimensions.",
        infer=_squeeze,
        reference=squeeze,
        traits=VIEW._replace(batch=batch_rules.axes),
        samples=(
            Sample(inputs=((2, 1, 3, 1),), attributes={"axes": (1, 3)}),
            Sample(inputs=((2, 1, 3, 1),), attributes={"axes": (3,)}),
            Sample(inputs=((2, 3),), attributes={"axes": ()}),
            Sample(inputs=((1,),), attributes={"axes": (0,)}),
            Sample(inputs=((1, 2, 1, 1, 1, 2, 1, 1),), attributes={"axes": (7, 0, 2)}),
            Sample(inputs=((1, 3),), attributes={"axes": (0,)}, values={0: [[4, 5, 6]]}),
            Sample(inputs=((1, 3),), attributes={"axes": (0,)}, data="logical"),
        ),
    ),
    OpSpec(
        name="unsqueeze",
        signature="fragment unsqueeze<?>( input: tensor<?>, axes: integer[] ) "
        "-> ( output: tensor<?> )",
        section="4.5.1",
        summary="Inserts singular dimensions, which axes number in the result.",
        infer=_unsqueeze,
        reference=unsqueeze,
        traits=VIEW._replace(batch=batch_rules.axes),
        samples=(
            Sample(inputs=((2, 3),), attributes={"axes": (0,)}),
            Sample(inputs=((2, 3),), attributes={"axes": (2,)}),
            Sample(inputs=((2, 3),), attributes={"axes": (3, 1)}),
            Sample(inputs=((),), attributes={"axes": (0, 1)}),
            Sample(inputs=((2, 3),), attributes={"axes": ()}),
            Sample(inputs=((2, 3),), attributes={"axes": (0, 2, 4, 5, 6, 7)}),
            Sample(inputs=((2, 3),), attributes={"axes": (1,)}, data="integers"),
        ),
    ),
    OpSpec(
        name="transpose",
        signature="fragment transpose<?>( input: tensor<?>, axes: integer[] ) "
        "-> ( output: tensor<?> )",
        section="4.5.2",
        summary="Dimension k of the result is dimension axes[k] of the input; the rest stays.",
        infer=_transpose,
        reference=transpose,
        traits=MOVEMENT._replace(batch=_batch_of_transpose, strided=strided_rules.TRANSPOSE),
        samples=(
            Sample(inputs=((2, 3),), attributes={"axes": (1, 0)}),
            Sample(inputs=((2, 3, 4),), attributes={"axes": (2, 0, 1)}),
            Sample(inputs=((2, 3, 4),), attributes={"axes": (1, 0)}),
            Sample(inputs=((2, 3, 4, 2),), attributes={"axes": (0, 2, 3, 1)}),
            Sample(inputs=((2, 3, 4, 2),), attributes={"axes": (0, 3, 1, 2)}),
            Sample(inputs=((2, 3),), attributes={"axes": ()}),
            Sample(inputs=((2, 3),), attributes={"axes": (0, 1)}),
            Sample(inputs=((),), attributes={"axes": ()}),
            Sample(inputs=((2, 1, 3, 2, 2),), attributes={"axes": (4, 1, 0, 3, 2)}),
            Sample(
                inputs=((1, 2, 2, 1, 2, 2, 1, 2),), attributes={"axes": (7, 6, 5, 4, 3, 2, 1, 0)}
            ),
            Sample(inputs=((2, 3),), attributes={"axes": (1, 0)}, data="integers"),
            Sample(inputs=((2, 3),), attributes={"axes": (1, 0)}, data="logical"),
        ),
    ),
)
