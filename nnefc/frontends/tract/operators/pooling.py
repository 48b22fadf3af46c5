"""Max, average and root-mean-square pooling."""

from __future__ import annotations

import math
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.pooling import indices_of_taps
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tract.registry import Pairs, operator
from nnefc.ops.core.window_arithmetic import resolve


@operator("tract_nnef")
def max_pool(
    make: OpBuilder,
    input: Operand,
    size: tuple[int, ...],
    border: str = "constant",
    padding: Pairs = (),
    stride: tuple[int, ...] = (),
    dilation: tuple[int, ...] = (),
) -> Any:
    """The border is ignored, also if it is 'constant'."""
    return _pooled(make, "max_pool", input, size, "ignore", border, padding, stride, dilation)


@operator("tract_nnef")
def max_pool_with_index(
    make: OpBuilder,
    input: Operand,
    size: tuple[int, ...],
    border: str = "constant",
    padding: Pairs = (),
    stride: tuple[int, ...] = (),
    dilation: tuple[int, ...] = (),
) -> Any:
    """Indices number the items of a channel, y w + x in an image, not those of the window."""
    name = "max_pool_with_index"
    y, taps = _pooled(make, name, input, size, "ignore", border, padding, stride, dilation)
    window = resolve(input.type.dims, size, padding, stride, dilation)
    extents = input.type.dims
    pitches = {axis: math.prod(extents[axis + 1 :]) for axis in range(2, len(extents))}
    return y, indices_of_taps(make, taps, window, pitches)


def _register_mean_pool(name: str) -> None:
    """Register the pooling `name`; border 'constant' counts items outside the input as 0."""

    def function(
        make: OpBuilder,
        input: Operand,
        size: tuple[int, ...],
        border: str = "constant",
        padding: Pairs = (),
        stride: tuple[int, ...] = (),
        dilation: tuple[int, ...] = (),
    ) -> Any:
        return _pooled(make, name, input, size, border, border, padding, stride, dilation)

    function.__name__ = name
    operator("tract_nnef")(function)


for _name in ("avg_pool", "rms_pool"):
    _register_mean_pool(_name)


def _pooled(
    make: OpBuilder,
    name: str,
    x: Operand,
    size: tuple[int, ...],
    border: str,
    written: str,
    padding: Pairs,
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Any:
    """Pooling `name` with a border that may differ from the one `written` in the document."""
    if written not in ("constant", "ignore"):
        raise OperatorError(
            f"argument/{name}", f"border = '{written}'; expected 'constant' or 'ignore'"
        )
    return make(
        name, x, size=size, border=border, padding=padding, stride=stride, dilation=dilation
    )
