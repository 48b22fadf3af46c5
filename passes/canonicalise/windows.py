"""Rules of `canonicalise` for sliding windows, the padding before and the slices after them."""

from __future__ import annotations

from nnefc.ir import Op, Value
from nnefc.ops.core.window_arithmetic import Window, convolution_window, pooling_window
from nnefc.ops.standard.reshape_transpose import permutation
from nnefc.ops.standard.slice_pad_tile_gather import slice_ranges
from nnefc.passes.canonicalise.rules import NewOp, Result, rule
from nnefc.passes.op_queries import is_zero, producer
from nnefc.symbolic.integers import is_symbolic, statically_equal

Padding = tuple[tuple[int, int], ...]

# -- borders


@rule("pad")
def _pad(op: Op) -> Result:
    """Remove empty padding; merge consecutive borders of zeros."""
    if all(statically_equal(n, 0) for item in op.attributes["padding"] for n in item):
        return [op.inputs[0]]
    zeros, inner = _zeros(op.output), _zeros(op.inputs[0])
    if zeros is None or inner is None:
        return None
    source, padding = inner
    return NewOp("pad", [source], {**op.attributes, "padding": _sum(padding, zeros[1])})


def _zeros(value: Value) -> tuple[Value, Padding] | None:
    """(x, padding) if `value` is x with a border of zeros."""
    op = producer(value, "pad")
    if op is None or op.attributes["border"] != "constant":
        return None
    padding: Padding = op.attributes["padding"]
    if not is_zero(op.attributes["value"], 1.0) or any(p < 0 or q < 0 for p, q in padding):
        return None
    return op.inputs[0], padding


def _zeros_before(value: Value) -> tuple[Value | NewOp, Padding] | None:
    """`_zeros`, also of a border before a transpose, as of images with channels last."""
    transpose = producer(value, "transpose")
    padded = _zeros(value if transpose is None else transpose.inputs[0])
    if transpose is None or padded is None:
        return padded
    source, padding = padded
    order = permutation(transpose.attributes["axes"], value.type.rank)
    turned = NewOp("transpose", [source], {"axes": order})
    return turned, tuple(padding[axis] for axis in order)


def _sum(a: Padding, b: Padding) -> Padding:
    return tuple((p + r, q + s) for (p, q), (r, s) in zip(a, b, strict=True))


@rule("conv")
def _padded_convolution(op: Op) -> Result:
    """Merge a border of zeros into the padding of a convolution."""
    padded = _zeros_before(op.inputs[0])
    if padded is None or op.attributes["border"] != "constant":
        return None
    source, (batch, channels, *spatial) = padded
    if batch != (0, 0) or channels != (0, 0):
        return None
    dims = op.inputs[0].type.dims
    window = convolution_window(dims, op.inputs[1].type.dims, op.attributes)
    attributes = {**op.attributes, "padding": _sum(window.padding, tuple(spatial))}
    return NewOp("conv", [source, *op.inputs[1:]], attributes)


@rule("box", "max_pool")
def _padded_pooling(op: Op) -> Result:
    """Merge a border of zeros into the padding of a pooling with border 'constant'."""
    padded = _zeros_before(op.inputs[0])
    if padded is None:
        return None
    window = pooling_window(op.inputs[0].type.dims, op.attributes)
    if op.attributes["border"] != "constant" and not _stays_inside(window):
        return None
    source, padding = padded
    merged = {"border": "constant", "padding": _sum(window.padding, padding)}
    return NewOp(op.name, [source], {**op.attributes, **merged})


def _stays_inside(window: Window) -> bool:
    """Whether no tap reads the border."""
    return all(
        p <= 0 and (down - 1) * s + f - p <= up
        for (p, _), down, s, f, up in zip(
            window.padding, window.down, window.stride, window.dilated, window.up, strict=True
        )
    )


# -- slices


@rule("slice")
def _cut_convolution(op: Op) -> Result:
    """Compute only the pixels that a slice takes of a convolution, by padding less.

    Causal convolutions are often written so: padded on both sides, then cut at the end.
    """
    conv = producer(op.inputs[0], "conv")
    if conv is None or conv.attributes["border"] != "constant" or len(conv.output.users) > 1:
        return None
    a, dims = op.attributes, op.inputs[0].type.dims
    batch, channels, *spatial = slice_ranges(
        dims, a["axes"], a["begin"], a["end"], a.get("stride", ())
    )
    if not (batch.take_all(dims[0]) and channels.take_all(dims[1])):
        return None
    window = convolution_window(conv.inputs[0].type.dims, conv.inputs[1].type.dims, conv.attributes)
    padding: list[tuple[int, int]] = []
    for axis, taken in enumerate(spatial):
        stride, up = window.stride[axis], window.up[axis]
        before = window.padding[axis][0] - taken.start * stride
        after = (taken.count - 1) * stride + window.dilated[axis] - up - before
        padding.append((before, after))
    flat = [n for pair in padding for n in pair]
    if is_symbolic(flat) or min(flat) < 0 or any(taken.step != 1 for taken in spatial):
        return None
    return NewOp("conv", conv.inputs, {**conv.attributes, "padding": tuple(padding)})


# -- windows over whole dimensions


@rule("box", "max_pool")
def _over_everything(op: Op) -> Result:
    """Replace a window that covers whole dimensions, each item once, by a reduction."""
    window = pooling_window(op.inputs[0].type.dims, op.attributes)
    axes: list[int] = []
    for axis, (size, up, down) in enumerate(zip(window.size, window.up, window.down)):
        at_once = statically_equal(size, up) and statically_equal(down, 1)
        at_once = at_once and (statically_equal(size, 1) or window.dilation[axis] == 1)
        still = statically_equal(size, 1) and window.stride[axis] == 1
        if not (at_once or still) or not all(statically_equal(n, 0) for n in window.padding[axis]):
            return None
        axes += [axis] if at_once and not statically_equal(up, 1) else []
    if not axes:
        return None
    reduced = {"axes": tuple(axes)}
    if op.name == "max_pool":
        return NewOp("max_reduce", op.inputs, reduced)
    return NewOp("sum_reduce", op.inputs, {**reduced, "normalize": op.attributes["normalize"]})
