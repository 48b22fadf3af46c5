"""Write tensors within a border in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nnefc.emit.convert.onnx.symbols import Unsupported
from nnefc.emit.convert.onnx.writer import OnnxWriter
from nnefc.ir import Op
from nnefc.ops.core.window_arithmetic import source_indices
from nnefc.symbolic.integers import is_symbolic

Padding = Sequence[tuple[int, int]]

_MODES: Final = {
    "constant": "constant",
    "ignore": "constant",
    "replicate": "edge",
    "reflect": "reflect",
}
"""The modes of `Pad` by the borders of NNEF; 'reflect-even' has none."""


def pads(padding: Padding) -> list[int]:
    """Paddings in the order of ONNX: those before the items, then those behind them."""
    return [p for p, _ in padding] + [q for _, q in padding]


def bordered(
    w: OnnxWriter, name: str, shape: Sequence[int], padding: Padding, border: str, value: str = ""
) -> str:
    """A tensor within a border, cropped where padding is negative; raises Unsupported.

    `value`: the number of a constant border; without it 0.
    """
    mode = _MODES.get(border)
    if mode == "constant":
        return w.one("Pad", name, w.integers(pads(padding)), *([value] if value else []))
    if mode is not None and all(map(_is_reached, shape, padding)):
        grown = [(max(p, 0), max(q, 0)) for p, q in padding]
        name = w.one("Pad", name, w.integers(pads(grown)), mode=mode)
        return _cropped(w, name, [n + p + q for n, (p, q) in zip(shape, grown)], padding)
    for axis, (extent, (p, q)) in enumerate(zip(shape, padding, strict=True)):
        if is_symbolic([extent, p, q]):
            raise Unsupported(f"border {border!r} of symbolic extents is not converted to ONNX")
        if (p, q) != (0, 0):
            source = source_indices(np.arange(-p, extent + q), extent, border)
            name = w.one("Gather", name, w.store(source), axis=axis)
    return name


def _is_reached(extent: int, sides: tuple[int, int]) -> bool:
    """Whether a border is at most as wide as the items that it reflects; symbols are trusted."""
    return is_symbolic([extent, *sides]) or max(sides) < max(extent, 1)


def _cropped(w: OnnxWriter, name: str, shape: Sequence[int], padding: Padding) -> str:
    """A tensor without as many items at both sides of its axes as padding is negative."""
    axes = [axis for axis, sides in enumerate(padding) if min(sides) < 0]
    if not axes:
        return name
    begin = [max(-padding[axis][0], 0) for axis in axes]
    end = [shape[axis] - max(-padding[axis][1], 0) for axis in axes]
    return w.one("Slice", name, *(w.integers(each) for each in (begin, end, axes)))


def within_border(w: OnnxWriter, op: Op, padding: Padding) -> tuple[str, Padding]:
    """The input of a window with its border, and the padding that is left.

    `padding`: of the last dimensions.
    """
    x, border = op.inputs[0], op.attributes["border"]
    name, none = w.name(x), [(0, 0)] * len(padding)
    if not any(map(any, padding)):
        return name, none
    full = [(0, 0)] * (x.type.rank - len(padding)) + [*padding]
    return bordered(w, name, x.type.dims, full, border), none


def pad(w: OnnxWriter, op: Op) -> str:
    """Handler of `pad`."""
    x, a = op.inputs[0], op.attributes
    value = w.number(a["value"], x) if a["value"] else ""
    return bordered(w, w.name(x), x.type.dims, a["padding"], a["border"], value)
