"""Convolutions that round each product, as the conformance suite of OpenVX computes them.

Its text sums products exactly; the suite's reference brings each product to the format of the
result before it adds it, and saturates the sum again after each map of the input.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nnefc.ir import DType, Op, TensorType
from nnefc.ops.core import batch_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import attempt
from nnefc.ops.core.cost import Cost
from nnefc.ops.core.spec import Call, OpSpec, Sample
from nnefc.ops.core.traits import OPAQUE
from nnefc.ops.core.value_text import listing
from nnefc.ops.extended.quantized import code_limits

ITEM_TYPES: Final = (DType.UINT8, DType.INT8, DType.INT16)


def _infer(call: Call) -> TensorType:
    types = attempt(lambda: (call.dtype("input"), call.dtype("filter"), call.dtype("bias")))
    if types is not None:
        call.require(
            types[0] is types[1] and types[0] in ITEM_TYPES and types[2] is DType.INT32,
            "input and filter are uint8, int8 or int16, and bias is int32: they are "
            + ", ".join(map(str, types)),
        )
    input, filter, bias = call.shape("input"), call.shape("filter"), call.shape("bias")
    stride, dilation = call["stride"], call["dilation"]
    call.require(
        len(input) == len(filter) == 4 and len(stride) == len(dilation) == 2,
        f"input and filter have 4 dimensions: {listing(input)}, {listing(filter)}",
    )
    call.stop_if_wrong()
    call.require(input[1] == filter[0], f"{input[1]} maps of the input, {filter[0]} of the filter")
    spans = [(k - 1) * d + 1 for k, d in zip(filter[1:3], dilation, strict=True)]
    call.require(
        all(n >= span for n, span in zip(input[2:], spans, strict=True)),
        f"the filter spans {listing(tuple(spans))} items of {listing(input[2:])}",
    )
    call.stop_if_wrong()
    sides = [(n - span) // s + 1 for n, span, s in zip(input[2:], spans, stride, strict=True)]
    call.require(
        bias in ((1, 1, filter[3]), (*sides, filter[3])),
        f"bias has shape {listing(bias)}: expected [1,1,{filter[3]}] or "
        f"{listing((*sides, filter[3]))}",
    )
    return TensorType(call.dtype("input"), (input[0], *sides, filter[3]))


def stepwise_conv(
    input: Array,
    filter: Array,
    bias: Array,
    *,
    stride: tuple[int, int],
    dilation: tuple[int, int],
    position: int,
    to_nearest: bool,
    wraps: bool,
    by_map: bool,
    dtype: DType,
) -> Array:
    """Sums of products, each rounded by `position` bits, then saturated or wrapped."""

    def fitted(x: Array) -> Array:
        low, high = code_limits(dtype)
        return (x - low) % (high - low + 1) + low if wraps else np.clip(x, low, high)

    input, filter = input.astype(np.int64), filter.astype(np.int64)
    maps, height, width, outputs = filter.shape
    sides = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(input.shape[2:], (height, width), dilation, stride, strict=True)
    ]
    sums = np.broadcast_to(bias, (len(input), *sides, outputs)).astype(np.int64)
    for i in range(maps):
        for y, x in np.ndindex(height, width):
            rows = slice(y * dilation[0], y * dilation[0] + sides[0] * stride[0], stride[0])
            columns = slice(x * dilation[1], x * dilation[1] + sides[1] * stride[1], stride[1])
            products = input[:, i, rows, columns, None] * filter[i, y, x]
            if position:
                products = products + (1 << position >> 1) * to_nearest
                products = np.sign(products) * (np.abs(products) >> position)
            sums = sums + fitted(products)
        if by_map:
            sums = fitted(sums)
    return fitted(sums)


def _roundings(op: Op) -> int:
    """Products, each of which is rounded: no sums of products in one type."""
    return op.output.type.volume * math.prod(op.inputs[1].type.dims[:3])


def _sample(
    shapes: tuple[tuple[int, ...], ...], dtype: DType, seed: int, **attributes: Any
) -> Sample:
    random = np.random.default_rng(seed)
    low, high = code_limits(dtype)
    values = [random.integers(low, high + 1, each).tolist() for each in shapes]
    defaults = {"position": 8 if dtype is DType.INT16 else 0, "to_nearest": False}
    return Sample(
        inputs=shapes,
        values=dict(enumerate(values)),
        dtypes={0: dtype, 1: dtype, 2: DType.INT32},
        attributes={
            "stride": (1, 1),
            "dilation": (1, 1),
            **defaults,
            "wraps": False,
            "by_map": True,
            **attributes,
        },
    )


_SPREAD: Final[dict[str, Any]] = {"stride": (2, 2), "dilation": (2, 2)}
_WRAPPED: Final[dict[str, Any]] = {"to_nearest": True, "wraps": True}
_ONCE: Final[dict[str, Any]] = {"to_nearest": True, "by_map": False}

SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="stepwise_conv",
        signature="""
        fragment stepwise_conv(
            input: tensor<integer>,
            filter: tensor<integer>,
            bias: tensor<integer>,
            stride: integer[],
            dilation: integer[],
            position: integer,
            to_nearest: logical,
            wraps: logical,
            by_map: logical )
        -> ( output: tensor<integer> )""",
        section="tract",
        summary="Sums of products that are rounded by `position` bits and saturated, or wrapped, "
        "one by one; input [n, c, h, w], filter [c, kh, kw, o], bias [1 or h, 1 or w, o], output "
        "[n, h, w, o].",
        infer=_infer,
        reference=stepwise_conv,
        chooses_type=True,
        traits=OPAQUE._replace(cost=Cost(None, _roundings), batch=batch_rules.first),
        samples=(
            _sample(((2, 3, 6, 7), (3, 3, 2, 5), (1, 1, 5)), DType.UINT8, 1),
            _sample(((1, 3, 6, 7), (3, 3, 2, 37), (4, 6, 37)), DType.INT8, 2),
            _sample(((1, 2, 9, 9), (2, 3, 3, 4), (3, 3, 4)), DType.INT16, 3, **_SPREAD),
            _sample(((2, 2, 5, 5), (2, 3, 3, 4), (1, 1, 4)), DType.INT16, 4, **_WRAPPED),
            _sample(((3, 1, 1, 40), (1, 1, 40, 20), (1, 1, 20)), DType.INT16, 5, **_ONCE),
        ),
    ),
)
