"""Sums of items in their order, each of which is rounded, as a loop in C adds them.

Other sums are in any order.  The conformance suite of OpenVX adds exponentials one by one.
"""

from __future__ import annotations

import numpy as np

from nnefc.ir import TensorType
from nnefc.ops.core import batch_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.axes import axis_attribute, axis_within
from nnefc.ops.core.spec import Call, OpSpec, Sample
from nnefc.ops.core.traits import OPAQUE

NAME = "ordered_sum"


def _infer(call: Call) -> TensorType:
    dims = call.shape("input")
    axis = axis_attribute(call)
    axis_within(call, axis, len(dims), "input")
    call.stop_if_wrong()
    return TensorType(call.dtype("input"), (*dims[:axis], 1, *dims[axis + 1 :]))


def ordered_sum(input: Array, *, axis: int) -> Array:
    """The last of the sums of the first items."""
    return np.add.accumulate(input, axis, input.dtype).take([-1], axis)


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name=NAME,
        signature="fragment ordered_sum( input: tensor<scalar>, axis: integer ) "
        "-> ( output: tensor<scalar> )",
        section="tract",
        summary="Sums along an axis, in the order of items, with a rounding after each.",
        infer=_infer,
        reference=ordered_sum,
        traits=OPAQUE._replace(batch=batch_rules.axis),
        samples=(
            Sample(inputs=((3, 5),), attributes={"axis": 1}),
            Sample(inputs=((2, 7, 3),), attributes={"axis": 1}),
            Sample(inputs=((4, 2),), attributes={"axis": 0}),
        ),
    ),
)
