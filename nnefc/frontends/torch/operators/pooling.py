"""Pooling: maxima and means of windows and of regions, and borders by reflection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.pooling import indices_of_taps
from nnefc.frontends.common.values import Operand
from nnefc.frontends.torch.item_types import filled_tuple
from nnefc.frontends.torch.registry import Integers, Number, operator
from nnefc.ir import DType
from nnefc.ops.core.window_arithmetic import resolve
from nnefc.symbolic.integers import statically_equal


def window(
    x: Operand,
    kernel: Integers,
    stride: Integers,
    padding: Integers,
    dilation: Integers = (1,),
    *,
    ceil_mode: bool,
) -> dict[str, Any]:
    """The attributes of a pooling operation over the last dimensions.

    With `ceil_mode` a last window may reach beyond the padding, but must begin before it.
    """
    count, rank = len(kernel), x.type.rank
    gaps, steps = filled_tuple(dilation, count), filled_tuple(stride, count) if stride else kernel
    pads: list[tuple[int, int]] = []
    for n, k, s, p, d in zip(
        x.type.dims[-count:], kernel, steps, filled_tuple(padding, count), gaps, strict=True
    ):
        over = n + 2 * p - d * (k - 1) - 1
        outputs = over // s + 1
        if ceil_mode and not statically_equal(over % s, 0) and outputs * s < n + p:
            outputs += 1
        behind = (outputs - 1) * s + d * (k - 1) + 1 - n - p if ceil_mode else p
        pads.append((p, behind if ceil_mode and behind > p else p))
    lead = (1,) * (rank - count)
    return {
        "size": lead + tuple(kernel),
        "stride": lead + tuple(steps),
        "dilation": lead + tuple(gaps),
        "padding": ((0, 0),) * len(lead) + tuple(pads),
    }


@operator("aten.max_pool1d.default", "aten.max_pool2d.default", "aten.max_pool3d.default")
def max_pool(
    make: OpBuilder,
    self: Operand,
    kernel_size: Integers,
    stride: Integers = (),
    padding: Integers = (0,),
    dilation: Integers = (1,),
    ceil_mode: bool = False,
) -> Any:
    kernel = filled_tuple(kernel_size, 1)
    where = window(self, kernel, stride, padding, dilation, ceil_mode=ceil_mode)
    return _of_reals(make, "max_pool", self, where)


def _of_reals(make: OpBuilder, name: str, x: Operand, where: dict[str, Any]) -> Any:
    """A pooling operation; integers are compared as reals."""
    real = x if x.type.dtype.is_float else make.cast(x, DType.FLOAT64)
    return make.cast(make(name, real, **where, border="ignore"), x.type.dtype)


@operator(
    *("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default"),
    "aten.max_pool1d_with_indices.default",
)
def max_pool_with_indices(
    make: OpBuilder,
    self: Operand,
    kernel_size: Integers,
    stride: Integers = (),
    padding: Integers = (0,),
    dilation: Integers = (1,),
    ceil_mode: bool = False,
) -> Any:
    """The maxima, and their indices in the plane of a channel."""
    where = window(self, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode)
    real = self if self.type.dtype.is_float else make.cast(self, DType.FLOAT64)
    y, taps = make("max_pool_with_index", real, **where, border="ignore")
    dims, count = self.type.dims, len(kernel_size)
    resolved = resolve(dims, where["size"], where["padding"], where["stride"], where["dilation"])
    first = len(dims) - count
    pitches = {axis: math.prod(dims[axis + 1 :]) for axis in range(first, len(dims))}
    return make.cast(y, self.type.dtype), indices_of_taps(make, taps, resolved, pitches)


@operator("aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default")
def avg_pool(
    make: OpBuilder,
    self: Operand,
    kernel_size: Integers,
    stride: Integers = (),
    padding: Integers = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: Number = None,
) -> Any:
    """Means; the padding counts as zeros, items beyond it do not count."""
    if not self.type.dtype.is_float:
        wide = make.cast(self, DType.FLOAT64)
        options = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
        return make.cast(avg_pool(make, wide, *options), self.type.dtype)
    where = window(self, kernel_size, stride, padding, ceil_mode=ceil_mode)
    count = len(kernel_size)
    pads = filled_tuple(padding, count)
    if not any(pads) and not ceil_mode and divisor_override is None:
        return make("avg_pool", self, **where, border="ignore")
    if divisor_override is not None:
        sums = make("box", self, **where, border="constant")
        return make("div", sums, float(divisor_override))
    if count_include_pad and any(pads):
        borders = tuple((p, p) for p in pads)
        lead = ((0, 0),) * (self.type.rank - count)
        padded = make("pad", self, padding=lead + borders, border="constant", value=0.0)
        where = window(padded, kernel_size, stride, (0,), ceil_mode=False)
        behind = tuple(
            (0, b - p)
            for p, (_, b) in zip(pads, _padding(self, kernel_size, stride, padding, ceil_mode))
        )
        where["padding"] = lead + behind
        return make("avg_pool", padded, **where, border="ignore")
    return make("avg_pool", self, **where, border="ignore")


def _padding(
    x: Operand, kernel: Integers, stride: Integers, padding: Integers, ceil_mode: bool
) -> Sequence[tuple[int, int]]:
    """The padding of the pooled dimensions."""
    return window(x, kernel, stride, padding, ceil_mode=ceil_mode)["padding"][-len(kernel) :]


# -- regions


@operator(
    *("aten.adaptive_avg_pool1d.default", "aten.adaptive_avg_pool2d.default"),
    *("aten.adaptive_avg_pool3d.default", "aten._adaptive_avg_pool2d.default"),
    "aten._adaptive_avg_pool3d.default",
)
def adaptive_avg_pool(make: OpBuilder, self: Operand, output_size: Integers) -> Any:
    """Means of regions; region i of m along n items is floor(i n / m) to ceil((i + 1) n / m)."""
    count, rank = len(output_size), self.type.rank
    if all(n == 1 for n in output_size):
        axes = tuple(range(rank - count, rank))
        return make("sum_reduce", self, axes=axes, normalize=True)
    y = self
    sizes = dict(enumerate(output_size, rank - count))
    if all(statically_equal(self.type.dims[axis] % m, 0) for axis, m in sizes.items()):
        kernel = tuple(self.type.dims[axis] // m for axis, m in sizes.items())
        where = window(self, kernel, kernel, (0,), ceil_mode=False)
        return make("avg_pool", self, **where, border="ignore")
    for axis, m in sizes.items():
        parts = [
            make("sum_reduce", part, axes=(axis,), normalize=True)
            for part in _regions(make, y, axis, m)
        ]
        y = parts[0] if len(parts) == 1 else make("concat", parts, axis=axis)
    return y


def _regions(make: OpBuilder, x: Operand, axis: int, count: int) -> list[Operand]:
    """The regions of an axis."""
    n = x.type.dims[axis]
    make.budget.take_items(count)
    bounds = [(i * n // count, -((-(i + 1) * n) // count)) for i in range(count)]
    return [slice_in_dim(make, x, axis, *each) for each in bounds]


@operator(
    *("aten.adaptive_max_pool1d.default", "aten.adaptive_max_pool2d.default"),
    "aten.adaptive_max_pool3d.default",
)
def adaptive_max_pool(make: OpBuilder, self: Operand, output_size: Integers) -> Any:
    """Maxima of regions; their indices are not supported unless regions have one extent."""
    count, rank = len(output_size), self.type.rank
    sizes = dict(enumerate(output_size, rank - count))
    if all(statically_equal(self.type.dims[axis] % m, 0) for axis, m in sizes.items()):
        kernel = tuple(self.type.dims[axis] // m for axis, m in sizes.items())
        return max_pool_with_indices(make, self, kernel, kernel)
    y = self
    for axis, m in sizes.items():
        parts = [make("max_reduce", part, axes=(axis,)) for part in _regions(make, y, axis, m)]
        y = parts[0] if len(parts) == 1 else make("concat", parts, axis=axis)
    return y, None


# -- borders


def _border(name: str, border: str) -> None:
    """Register the paddings of 1 to 3 dimensions with a border."""

    def compute(make: OpBuilder, self: Operand, padding: Integers) -> Any:
        count = len(padding) // 2
        pairs = [(padding[2 * i], padding[2 * i + 1]) for i in reversed(range(count))]
        x = self
        first = self.type.rank - count
        for axis, (before, behind) in enumerate(pairs, first):
            extent = x.type.dims[axis]
            x = slice_in_dim(make, x, axis, max(-before, 0), extent - max(-behind, 0))
        lead = ((0, 0),) * first
        padded = tuple((max(a, 0), max(b, 0)) for a, b in pairs)
        return make("pad", x, padding=lead + padded, border=border)

    operator(*(f"aten.{name}_pad{rank}d.default" for rank in (1, 2, 3)))(compute)


_border("reflection", "reflect")
_border("replication", "replicate")
