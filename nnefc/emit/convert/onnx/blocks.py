"""Write products and gathers of matrices in blocks by the operators of onnxruntime for them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nnefc.emit.convert.block_weights import blocks_of
from nnefc.emit.convert.onnx.operations import HANDLERS, bias
from nnefc.emit.convert.onnx.writer import Handler, OnnxWriter, Unsupported
from nnefc.ir import Graph, Op
from nnefc.support.block_formats import BLOCK_FORMATS, BLOCK_ITEMS

Array = np.ndarray[Any, Any]

DOMAIN: Final = "com.microsoft"
BITS: Final = {name: kind.bits for name, kind in BLOCK_FORMATS.items()}
_SCALE_BYTES: Final = 4


def packed_bytes(graph: Graph) -> int:
    """Bytes that matrices in blocks take in the file beyond those of their variables."""
    made = [op for op in graph.ops if op.name == "dequantize_blocks"]
    return sum(_packed_bytes(op) - op.inputs[0].type.volume for op in made)


def _packed_bytes(op: Op) -> int:
    format, rows = op.attributes["format"], op.output.type.dims[0]
    blocks = op.output.type.volume // BLOCK_ITEMS
    zeros = rows * _zero_bytes(blocks // rows, format)
    return blocks * (BLOCK_FORMATS[format].code_bytes + _SCALE_BYTES) + zeros


def _zero_bytes(blocks: int, format: str) -> int:
    """Bytes of the zero points of a row."""
    kind = BLOCK_FORMATS[format]
    return -(-blocks * kind.bits // 8) if kind.has_zero else 0


def _codes(w: OnnxWriter, op: Op) -> str:
    """The codes, [rows, blocks, bytes of a block], which products and gathers share."""
    if op not in w.packed:
        source = op.inputs[0]
        codes, scales = unpacked_blocks(w.data(source), op.attributes["format"])
        w.packed[op] = w.store_form(source, codes), scales
    return w.packed[op][0]


def _parameters(w: OnnxWriter, op: Op, *more: int) -> list[str]:
    """The scales, [rows, blocks] and more axes, and zero points, if there are any."""
    scales, format = w.packed[op][1], op.attributes["format"]
    names = [w.store(scales.reshape(*scales.shape, *more))]
    if BLOCK_FORMATS[format].has_zero:
        zeros = zero_points(w.data(op.inputs[0]), format)
        names.append(w.store(zeros[..., None] if more else _packed_zeros(zeros, format)))
    return names


def _attributes(op: Op) -> dict[str, Any]:
    bits = BITS[op.attributes["format"]]
    return {"bits": bits, "block_size": BLOCK_ITEMS, "domain": DOMAIN}


def unpacked_blocks(stored: Array, format: str) -> tuple[Array, Array]:
    """Unsigned codes, the first of two in the lower half of a byte, and scales in float32."""
    kind = BLOCK_FORMATS[format]
    blocks = stored.reshape(len(stored), -1, kind.nbytes)
    scales = np.ascontiguousarray(blocks[..., : kind.scale_bytes]).view(f"<f{kind.scale_bytes}")
    codes = blocks[..., kind.codes_at :]
    if kind.bits == 8:
        codes = codes ^ np.uint8(128)
    elif format != "q4_0_legacy":
        pairs = np.concatenate([codes & 15, codes >> 4], 2)
        codes = pairs[..., ::2] | (pairs[..., 1::2] << 4)
    return np.ascontiguousarray(codes), scales[..., 0].astype(np.float32)


def zero_points(stored: Array, format: str) -> Array:
    """The zero points of unsigned codes, [rows, blocks], of a format that has them."""
    kind = BLOCK_FORMATS[format]
    zeros = stored.reshape(len(stored), -1, kind.nbytes)[..., kind.scale_bytes]
    return zeros ^ np.uint8(128) if kind.bits == 8 else zeros


def _packed_zeros(zeros: Array, format: str) -> Array:
    """Zero points of a row in bytes, the first of two in the lower half of one."""
    if BITS[format] == 8:
        return zeros
    even = np.pad(zeros, ((0, 0), (0, zeros.shape[1] % 2)))
    return even[:, ::2] | even[:, 1::2] << 4


def _product(w: OnnxWriter, name: str, op: Op) -> str:
    """A tensor times the transpose of a matrix in blocks."""
    rows, depth = op.output.type.dims
    operands = name, _codes(w, op), *_parameters(w, op)
    return w.one("MatMulNBits", *operands, K=depth, N=rows, **_attributes(op))


def _matmul(w: OnnxWriter, op: Op) -> str:
    x, matrix = op.inputs
    made = blocks_of(matrix)
    if made is None:
        return _written("matmul", w, op)
    name, rank = w.name(x), x.type.rank
    if op.attributes["transposeA"]:
        name = w.one("Transpose", name, perm=[*range(rank - 2), rank - 1, rank - 2])
    return _product(w, name, made)


def _linear(w: OnnxWriter, op: Op) -> str:
    x, matrix, offset = op.inputs
    made = blocks_of(matrix)
    if made is None:
        return _written("linear", w, op)
    rows = matrix.type.dims[0]
    if x.type.rank != 2 or offset.type.dims not in ((), (1, rows)):
        raise Unsupported("linear with another bias than one per feature is not converted to ONNX")
    y = _product(w, w.name(x), made)
    vector = bias(w, op, rows)
    return w.one("Add", y, *vector) if vector else y


def _gather(w: OnnxWriter, op: Op) -> str:
    made = blocks_of(op.inputs[0])
    if made is None:
        return _written("gather", w, op)
    operands = _codes(w, made), w.name(op.inputs[1]), *_parameters(w, made, 1)
    axes = {"gather_axis": 0, "quantize_axis": 2}
    blocks = w.one("GatherBlockQuantized", *operands, **axes, **_attributes(made))
    return w.one("Reshape", blocks, w.integers(op.output.type.dims))


def _written(name: str, w: OnnxWriter, op: Op) -> str:
    """An operation on reals."""
    result = HANDLERS[name](w, op)
    assert isinstance(result, str)
    return result


def _skipped(w: OnnxWriter, op: Op) -> str:
    """Nothing: those that read the matrix write its blocks."""
    if blocks_of(op.output) is None:
        raise Unsupported("blocks that are computed are not converted to ONNX")
    return ""


def _unless_blocks(name: str) -> Handler:
    return lambda w, op: HANDLERS[name](w, op) if blocks_of(op.output) is None else ""


BLOCKS: Final[dict[str, Handler]] = {
    "dequantize_blocks": _skipped,
    "gather": _gather,
    "linear": _linear,
    "matmul": _matmul,
    **{name: _unless_blocks(name) for name in ("reshape", "squeeze", "unsqueeze")},
}
"""Handlers of operations that may read matrices in blocks."""
