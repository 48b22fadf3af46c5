"""Pooling: data is padded with zeros."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.values import Operand
from nnefc.frontends.openvx.enumerations import PoolingType
from nnefc.frontends.openvx.tensors import FLOAT32
from nnefc.frontends.openvx.values import Call, batched, rounded, shaped
from nnefc.frontends.openvx.windows import pooling_skips
from nnefc.ir import DType


def pooling(call: Call) -> Operand:
    """Maxima or means; the padding belongs to the windows."""
    is_max = call.value("pooling_type") == PoolingType.MAX
    x = batched(call, call.operands["inputs"], 4)
    window = pooled_windows(call)
    if is_max:
        return shaped(call, call.make("max_pool", x, border="constant", **window))
    return shaped(call, mean(call, x, window))


def mean(call: Call, x: Operand, window: dict[str, Any]) -> Operand:
    """Sums divided by the number of items in a window, padding included, towards zero."""
    make, count = call.make, call.value("pooling_size_x") * call.value("pooling_size_y")
    if call.format == FLOAT32:
        return make("box", x, border="constant", normalize=True, **window)
    sums = make("box", make.cast(x, DType.FLOAT64), border="constant", normalize=False, **window)
    return rounded(call, make("div", sums, float(count)), wraps=False, to_even=False)


def pooled_windows(call: Call) -> dict[str, Any]:
    """Sizes, padding and strides of windows over [batch, maps, height, width]."""
    dims, sizes, strides, padding = call.layouts["inputs"].dims, [1, 1], [1, 1], [(0, 0), (0, 0)]
    skips = pooling_skips(call.layer.values, call.dims)
    for i, name in ((1, "y"), (0, "x")):
        size, before = call.value(f"pooling_size_{name}"), call.value(f"pooling_padding_{name}")
        sizes.append(size)
        strides.append(skips[i])
        padding.append((before, (call.output.dims[i] - 1) * skips[i] + size - before - dims[i]))
    return {"size": tuple(sizes), "stride": tuple(strides), "padding": tuple(padding)}
