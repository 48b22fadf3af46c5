"""Shape rules of sliding-window operations (4.3): checks of their arguments, and result shapes.

Checks of attributes alone come before those that read shapes, and an unknown attribute does not
hide violations of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nnefc.ir import Shape
from nnefc.ir.graph import Attribute
from nnefc.ops.core.attribute_checks import attempt, fits, length, one_of, positive_items
from nnefc.ops.core.spec import Call, NotKnown
from nnefc.ops.core.value_text import listing
from nnefc.ops.core.window_arithmetic import (
    Window,
    convolution_groups,
    convolution_window,
    pooling_window,
    resolve,
)


def _steps(call: Call, *, reverse: bool) -> dict[str, tuple[Any, ...]]:
    """The optional lists padding, stride, dilation and output_shape, as far as they are known."""
    known: dict[str, tuple[Any, ...]] = {}
    padding: tuple[tuple[int, int], ...] | None = attempt(lambda: call["padding"])
    if padding is not None:
        fits(call, "padding", [p for pair in padding for p in pair])
        known["padding"] = padding
    for name in ("stride", "dilation", *(["output_shape"] if reverse else [])):
        items = positive_items(call, name)
        if items is not None:
            known[name] = items
    return known


def check_pooling(call: Call, borders: Sequence[str], *, reverse: bool = False) -> Window:
    """Check an operation with a `size` over all dimensions of `input`; returns its window."""
    one_of(call, "border", borders)
    size = positive_items(call, "size")
    steps = _steps(call, reverse=reverse)
    shape = attempt(lambda: call.shape("input"))
    if shape is not None:
        rank, of = len(shape), "the rank of input"
        length(call, "size", size, rank, of, optional=False)
    elif size is not None:
        rank, of = len(size), "that of size"
    else:
        raise NotKnown
    for name, items in steps.items():
        length(call, name, items, rank, of, optional=True)
    call.stop_if_wrong()
    shape = call.shape("input")
    names = ("size", "padding", "stride", "dilation", *(["output_shape"] if reverse else []))
    attributes = {name: call[name] for name in names}
    window = pooling_window(shape, attributes, reverse=reverse)
    _extents(call, window, attributes, first=0)
    return window


def check_steps(call: Call, borders: Sequence[str], *, reverse: bool = False) -> None:
    """Check border, padding, stride and dilation of a convolution without its shapes."""
    one_of(call, "border", borders)
    steps = _steps(call, reverse=reverse)
    spatial = {n: s for n, s in steps.items() if s and n != "output_shape"}
    lengths = {len(s) for s in spatial.values()}
    listed = ", ".join(f"{n} = {listing(s)}" for n, s in spatial.items())
    call.require(
        len(lengths) <= 1, f"each of {listed} must have an item per spatial dimension or none"
    )


def check_convolution(
    call: Call,
    shape: Shape,
    kernel: Shape,
    attributes: Mapping[str, Attribute],
    *,
    bias: Shape = (),
    filter: str = "filter",
    reverse: bool = False,
) -> Shape:
    """Check conv or (`reverse`) deconv of an input of shape `shape`; returns the result's shape.

    `filter`: name of the operand of shape `kernel`, for messages.  `attributes`: groups, and
    optionally padding, stride, dilation and output_shape.
    """
    rank = len(shape)
    call.require(
        rank >= 2, f"input must have a batch and a channel dimension: its shape is {listing(shape)}"
    )
    call.require(
        len(kernel) == rank,
        f"the rank of {filter} must equal that of input: "
        f"{filter}.shape = {listing(kernel)}, input.shape = {listing(shape)}",
    )
    for name in ("padding", "stride", "dilation"):
        of = "the number of spatial dimensions"
        length(call, name, attributes.get(name, ()), rank - 2, of, optional=True)
    output_shape: Shape = tuple(attributes.get("output_shape", ()))
    length(call, "output_shape", output_shape, rank, "the rank of input", optional=True)
    call.stop_if_wrong()
    channels = _channels(call, shape, kernel, attributes, filter, reverse)
    _bias(call, bias, channels, rank)
    if output_shape:
        call.require(
            output_shape[:2] == (shape[0], channels),
            f"the batch and channel dimensions of output_shape must be "
            f"{listing((shape[0], channels))}: output_shape = {listing(output_shape)}",
        )
    call.stop_if_wrong()
    window = convolution_window(shape, kernel, attributes, reverse=reverse)
    _extents(call, window, attributes, first=2)
    return (shape[0], channels, *window.output)


def _channels(
    call: Call,
    shape: Shape,
    kernel: Shape,
    attributes: Mapping[str, Attribute],
    filter: str,
    reverse: bool,
) -> int:
    """Check channels and groups; returns the number of output channels."""
    groups = convolution_groups(shape, attributes)
    said = f"groups = {attributes['groups']}"
    operands = f"{filter}.shape = {listing(kernel)}, input.shape = {listing(shape)}"
    call.require(groups > 0, f"groups must be non-negative: {said}")
    call.stop_if_wrong()
    call.require(
        kernel[0] % groups == 0,
        f"groups must be a divisor of the batch dimension of {filter}: "
        f"{said}{f' (stands for {groups})' if not attributes['groups'] else ''}, {operands}",
    )
    if not attributes["groups"]:
        call.require(
            kernel[1] == 1,
            f"the channel dimension of {filter} must be singular if groups is 0: {operands}",
        )
    elif not reverse:
        call.require(
            kernel[1] * groups == shape[1],
            f"the channel dimension of {filter} times groups must equal the channel dimension "
            f"of input: {operands}, {said}",
        )
    if reverse:
        call.require(
            kernel[0] == shape[1],
            f"the batch dimension of {filter} must equal the channel dimension of input: "
            f"{operands}",
        )
    return kernel[1] * groups if reverse else kernel[0]


def _bias(call: Call, bias: Shape, channels: int, rank: int) -> None:
    """Require a bias of rank 0, of shape (C,) as in Khronos' tools, or (1, C, 1, ...)."""
    at = 0 if len(bias) == 1 else 1
    others = (*bias[:at], *bias[at + 1 :])
    call.require(
        len(bias) <= max(rank, 1)
        and all(e == 1 for e in others)
        and all(e in (1, channels) for e in bias[at : at + 1]),
        f"bias must be singular, but for the channel dimension, which may be {channels}, "
        f"the channels of output: bias.shape = {listing(bias)}",
    )


def _extents(
    call: Call, window: Window, attributes: Mapping[str, Attribute], *, first: int
) -> None:
    """Require that the window fits; `first` is the dimension of the tensor of its first item."""
    if not window.reverse:
        rows = zip(window.up, window.padding, window.dilated, strict=True)
        for k, (x, (p, q), f) in enumerate(rows, first):
            call.require(
                p + x + q >= f or (f == 1 and p == x == q == 0),
                f"the window must not be larger than the padded input: in dimension {k} it is "
                f"{f} long, extent {x} with padding ({p},{q}) makes {p + x + q}",
            )
        return
    call.require(
        all(x > 0 or (x == 0 and d == 0) for x, d in zip(window.up, window.down, strict=True)),
        f"extents of output must be positive: they are {listing(window.up)} from dimension {first}",
    )
    call.stop_if_wrong()
    if attributes.get("output_shape"):
        padding = attributes.get("padding", ())
        down = resolve(window.up, window.size, padding, window.stride, window.dilation).down
        call.require(
            down == window.down,
            f"output_shape must scale down to the shape of input: {listing(window.up)} gives "
            f"{listing(down)}, input has {listing(window.down)}",
        )
