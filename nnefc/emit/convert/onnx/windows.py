"""Handlers that write convolutions, pooling and sums in windows in ONNX."""

from __future__ import annotations

import math
from typing import Any, Final

from nnefc.emit.convert.onnx.borders import Padding, bordered, pads, within_border
from nnefc.emit.convert.onnx.channels import bias
from nnefc.emit.convert.onnx.symbols import Unsupported
from nnefc.emit.convert.onnx.writer import Handler, OnnxWriter
from nnefc.formats.tensor_header import MAX_RANK
from nnefc.ir import Op

DILATED_OPSET: Final = 19
"""The version of ONNX that has averages with dilation."""
_BORDERS_OF: Final = {"MaxPool": ("ignore",), "AveragePool": ("constant", "ignore")}
"""The borders that operators have."""


def _check(op: Op, padding: Padding) -> None:
    """Raise Unsupported for a window that ONNX does not have."""
    if op.inputs[0].type.rank < 3:
        raise Unsupported(f"{op.name} without spatial dimensions is not converted to ONNX")
    if min((p for pair in padding for p in pair), default=0) < 0:
        raise Unsupported(f"{op.name} with negative padding is not converted to ONNX")


def _conv(w: OnnxWriter, op: Op) -> str:
    a = op.attributes
    name, padding = w.name(op.inputs[0]), a["padding"]
    _check(op, () if a["border"] != "constant" else padding)
    if a["border"] != "constant":
        name, padding = within_border(w, op, padding)
    return w.one(
        "Conv",
        name,
        w.name(op.inputs[1]),
        *bias(w, op, op.output.type.dims[1]),
        kernel_shape=list(op.inputs[1].type.dims[2:]),
        strides=list(a["stride"]),
        dilations=list(a["dilation"]),
        pads=pads(padding),
        group=a["groups"] or op.inputs[0].type.dims[1],
    )


def _deconv(w: OnnxWriter, op: Op) -> str:
    a, (x, kernel) = op.attributes, op.inputs[:2]
    if a["border"] != "constant":
        raise Unsupported(f"deconv with border {a['border']!r} is not converted to ONNX")
    _check(op, a["padding"])
    plain = [
        (n - 1) * s - p - q + d * (k - 1) + 1
        for n, s, (p, q), d, k in zip(
            x.type.dims[2:], a["stride"], a["padding"], a["dilation"], kernel.type.dims[2:]
        )
    ]
    return w.one(
        "ConvTranspose",
        w.name(x),
        w.name(kernel),
        *bias(w, op, op.output.type.dims[1]),
        kernel_shape=list(kernel.type.dims[2:]),
        strides=list(a["stride"]),
        dilations=list(a["dilation"]),
        pads=pads(a["padding"]),
        output_padding=[n - m for n, m in zip(op.output.type.dims[2:], plain)],
        group=a["groups"] or op.output.type.dims[1],
    )


def _pooled(w: OnnxWriter, op: Op, kind: str, border: str, **more: int) -> str:
    """A node of pooling, whose windows may be over any axes.

    Axes in front of the windows become the batch, and those behind them one axis, if the windows
    are not over planes.
    """
    a, shape, padding = op.attributes, op.inputs[0].type.dims, op.attributes["padding"]
    name = w.name(op.inputs[0])
    if border not in _BORDERS_OF[kind] or any(map(_is_beyond, padding, a["size"])):
        if border == "ignore":
            raise Unsupported(f"{op.name} with such a padding is not converted to ONNX")
        name = bordered(w, name, shape, padding, border)
        shape = tuple(n + p + q for n, (p, q) in zip(shape, padding, strict=True))
        padding = [(0, 0)] * len(shape)
    columns = (a["size"], a["stride"], a["dilation"], padding)
    window = list(zip(*columns, strict=True))
    moving = [i for i, (n, step, _, sides) in enumerate(window) if (n, step, *sides) != _STILL]
    first, last = (min(moving), max(moving)) if moving else (len(shape), len(shape))
    is_plain = len(shape) > 2 and first > 1
    if is_plain:
        window = window[2:]
    else:
        window = [*window[first : last + 1]] or [(1, 1, 1, (0, 0))]
        behind = math.prod(shape[last + 1 :])
        window += [(1, 1, 1, (0, 0))] * (behind != 1)
        merged = [math.prod(shape[:first]), 1, *(shape[first : last + 1] or [1])]
        merged += [behind] * (behind != 1)
        if len(merged) > MAX_RANK:
            raise Unsupported(f"{op.name} over {len(window)} axes is not converted to ONNX")
        name = w.one("Reshape", name, w.integers(merged))
    attributes: dict[str, Any] = {
        "kernel_shape": [n for n, *_ in window],
        "strides": [step for _, step, *_ in window],
        "pads": pads([sides for *_, sides in window]),
    }
    if any(step != 1 for _, _, step, _ in window):
        attributes["dilations"] = [step for _, _, step, _ in window]
    name = w.one(kind, name, **attributes, **more)
    return name if is_plain else w.one("Reshape", name, w.integers(op.output.type.dims))


_STILL: Final = (1, 1, 0, 0)
"""Size, stride and padding along an axis without a window."""


def _is_beyond(sides: tuple[int, int], size: int) -> bool:
    """Whether ONNX does not have a padding: a negative one, or one as wide as the window."""
    return min(sides) < 0 or (max(sides) > 0 and max(sides) >= size)


def _max_pool(w: OnnxWriter, op: Op) -> str:
    return _pooled(w, op, "MaxPool", op.attributes["border"])


def _average(w: OnnxWriter, op: Op, border: str) -> str:
    return _pooled(w, op, "AveragePool", border, count_include_pad=int(border == "constant"))


def _avg_pool(w: OnnxWriter, op: Op) -> str:
    return _average(w, op, op.attributes["border"])


def _box(w: OnnxWriter, op: Op) -> str:
    """A sum is the average of all items of a window, with zeros outside, times their number."""
    border, size = op.attributes["border"], op.attributes["size"]
    if op.attributes["normalize"]:
        return _average(w, op, border)
    mean = _average(w, op, "constant" if border == "ignore" else border)
    return w.one("Mul", mean, w.number(math.prod(size), op.inputs[0]))


WINDOWS: Final[dict[str, Handler]] = {
    "conv": _conv,
    "deconv": _deconv,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "box": _box,
}
