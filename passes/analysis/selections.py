"""Operations that select items of their operands, and thus select codes as they select reals.

Dequantization rises with the codes, and quantization with the reals.  So both commute with
movements of items, maxima and minima, if all tensors have one scale and one zero point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from nnefc.ir import Op, Value
from nnefc.ir.graph import Attribute
from nnefc.ops.core.blocked_rules import covers_items, repeats_items
from nnefc.ops.core.window_arithmetic import pooling_window
from nnefc.ops.extended.quantized import code_limits
from nnefc.passes.analysis.code_parameters import CodeParameters

MOVES: Final = ("reshape", "squeeze", "unsqueeze", "transpose", "tile")
"""Operations that only move items of their one operand, and leave none out."""
PARTS: Final = ("slice", "split", "gather")
"""Operations that move some items of their first operand."""
EXTREMES: Final = ("max_reduce", "min_reduce")
SELECTIONS: Final = frozenset(
    (*MOVES, *PARTS, *EXTREMES, "max_pool", "debox", "resize", "pad", "concat")
)
"""Operations that may select items."""


def selected(op: Op) -> Sequence[Value]:
    """The operands whose items a selection selects; others are indices."""
    return op.inputs[:1] if op.name == "gather" else op.inputs


def on_codes(op: Op, codes: CodeParameters) -> dict[str, Attribute] | str:
    """The attributes with which a selection computes on codes, or why it cannot."""
    attributes = dict(op.attributes)
    if any(v.type.shape is None for v in (*op.inputs, *op.outputs)):
        return "shapes are not known"
    match op.name:
        case "max_pool":
            return _of_pool(op, codes)
        case "debox" if not repeats_items(op):
            return "windows add items"
        case "resize" if op.attributes["interpolator"] != "nearest":
            return "interpolation"
        case "pad" if op.attributes["border"] == "constant":
            border = float(op.attributes["value"])
            if not math.isfinite(border):
                return "the border has no code"
            code = round(border / codes.scale) + codes.zero
            low, high = code_limits(codes.dtype)
            if not low <= code <= high or (code - codes.zero) * codes.scale != attributes["value"]:
                return "the border has no code"
            return {**attributes, "value": float(code)}
        case "pad" if op.attributes["border"] == "ignore":
            return "border 'ignore'"
        case _:
            return attributes


def _of_pool(op: Op, codes: CodeParameters) -> dict[str, Attribute] | str:
    """`on_codes` of a maximum of windows; zeros of the border must be the lowest code."""
    border = op.attributes["border"]
    if border in ("constant", "ignore"):
        window = pooling_window(op.inputs[0].type.dims, op.attributes)
        if not covers_items(window, border):
            return "windows outside the input"
        if border == "constant" and any(map(any, window.padding)):
            if codes.zero != code_limits(codes.dtype)[0]:
                return "zeros of the border are not the lowest code"
            border = "ignore"
    return {**op.attributes, "border": border}
