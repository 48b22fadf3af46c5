"""topk: the largest or smallest items along an axis, an operation of tract's registries."""

from __future__ import annotations

import numpy as np

from nnefc.ir import DType, TensorType
from nnefc.ops.core import batch_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import attempt
from nnefc.ops.core.axes import axis_attribute, axis_within
from nnefc.ops.core.spec import Call, NotKnown, OpSpec, Sample
from nnefc.ops.core.traits import OPAQUE, Folding


def _topk(call: Call) -> list[TensorType]:
    k: int | None = attempt(lambda: call["k"])
    if k is not None:
        call.require(k > 0, f"k must be positive: k = {k}")
    axis = attempt(lambda: axis_attribute(call))
    dtype, shape = call.dtype("input"), call.shape("input")
    call.require(dtype is not DType.BOOL, "input must be a tensor of scalars or integers")
    if axis is None or not axis_within(call, axis, len(shape)):
        raise NotKnown
    call.stop_if_wrong()
    if k is None:
        raise NotKnown
    extent = shape[axis]
    call.require(k <= extent, f"k must be at most the extent of input: k = {k}, extent {extent}")
    result = (*shape[:axis], k, *shape[axis + 1 :])
    return [TensorType(dtype, result), TensorType(DType.INT64, result)]


def topk(input: Array, *, k: int, axis: int, largest: bool = True) -> tuple[Array, Array]:
    """(items, indices) of the first k items along an axis, by value, then by index.

    A NaN is larger than any number.
    """
    # a stable sort puts NaN last and keeps equal items in order
    index = np.argsort(np.flip(input, axis) if largest else input, axis, kind="stable")
    if largest:
        index = input.shape[axis] - 1 - np.flip(index, axis)
    index = np.take(index, np.arange(k), axis)
    return np.take_along_axis(input, index, axis), index


def _sample(
    shape: tuple[int, ...],
    k: int,
    axis: int,
    *,
    largest: bool = True,
    data: str = "ties",
    items: list[float] | None = None,
) -> Sample:
    attributes = {"k": k, "axis": axis, "largest": largest}
    values = {} if items is None else {0: items}
    return Sample(inputs=(shape,), attributes=attributes, data=data, values=values)


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="topk",
        signature="fragment topk<?>( input: tensor<?>, k: integer, axis: integer, "
        "largest: logical = true ) -> ( values: tensor<?>, indices: tensor<integer> )",
        section="tract",
        summary="The k largest or smallest items along an axis in order, and their indices; "
        "equal items keep their order.",
        infer=_topk,
        reference=topk,
        traits=OPAQUE._replace(batch=batch_rules.axis, folding=Folding.LINEAR),
        samples=(
            _sample((2, 12), 3, 1),
            _sample((2, 12), 5, 1, largest=False),
            _sample((2, 12), 12, 1),
            _sample((5, 2, 3), 2, 0),
            _sample((2, 5, 3), 5, 1, largest=False),
            _sample((1,), 1, 0),
            _sample((3, 7), 4, 1, data="integers"),
            _sample((7,), 7, 0, items=[1.0, np.nan, 3.0, np.nan, -np.inf, 3.0, 2.0]),
            _sample((5,), 4, 0, items=[1.0, np.nan, 3.0, -np.inf, 2.0], largest=False),
        ),
    ),
)
