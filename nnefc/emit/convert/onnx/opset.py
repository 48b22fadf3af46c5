"""The version of ONNX's operators that a graph needs."""

from __future__ import annotations

from nnefc.emit.convert.onnx.quantized import CODES_16_OPSET, has_codes_of_16_bits
from nnefc.emit.convert.onnx.resampling import SYMMETRIC_OPSET, VOLUMES_OPSET, coordinates_of
from nnefc.emit.convert.onnx.windows import DILATED_OPSET
from nnefc.emit.convert.onnx.writer import OPSET
from nnefc.ir import DType, Graph, Op
from nnefc.ir.graph import walk

EXTREMES_OPSET = 18
"""The version whose scatters take the extremes of items."""
BITWISE_OPSET = 18
"""The version that has operations on the bits of integers."""


def opset_of(graph: Graph) -> int:
    """The version in which a graph can be written, at least `OPSET`."""
    return max(map(_opset_of, walk(graph)), default=OPSET)


def _opset_of(op: Op) -> int:
    a = op.attributes
    match op.name:
        case "scatter_elements" | "scatter_nd" if a["reduction"] in ("min", "max"):
            return EXTREMES_OPSET
        case "bitand" | "bitor" | "bitxor" | "bitnot" | "xor":
            is_logical = op.output.type.dtype is DType.BOOL
            return OPSET if is_logical else BITWISE_OPSET
        case "avg_pool" | "box" if any(d != 1 for d in a["dilation"]):
            return DILATED_OPSET
        case "quantize" | "dequantize" if has_codes_of_16_bits(op):
            return CODES_16_OPSET
        case "resize" if coordinates_of(op) == "half_pixel_symmetric":
            return SYMMETRIC_OPSET
        case "grid_sample" if op.inputs[0].type.rank > 4:
            return VOLUMES_OPSET
        case _:
            return OPSET
