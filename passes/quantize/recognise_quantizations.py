"""Recognise pseudo-quantizations of NNEF documents as conversions to codes and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.broadcast import align
from nnefc.ops.core.known_items import known_items
from nnefc.ops.extended.quantized import code_limits, nearest
from nnefc.ops.standard.quantization import are_whole, limits_of_codes, steps_of_range
from nnefc.ops.tools.build import emitter
from nnefc.passes.analysis.known_data import constant_op
from nnefc.passes.op_queries import only_user, replace

RANGES: Final = ("linear_quantize", "min_max_linear_quantize")
NAMES: Final = (*RANGES, "zero_point_linear_quantize", "logarithmic_quantize")
"""Operations that round reals to a number of bits."""
MOST_BITS: Final = 16
_BYTE: Final = 8
_MIDDLE: Final = 128


@dataclass(frozen=True)
class RecogniseQuantizations:
    """Replace pseudo-quantizations with known ranges by conversions to codes and back.

        %y: float32[4] = linear_quantize(%x, %low, %high) {bits = 8}

    becomes, if zero is a whole code,

        %1: uint8[4] = quantize(%x, %scale, %zero) {rounding = "up"}
        %y: float32[4] = dequantize(%1, %scale, %zero)

    where %scale is (%high - %low) / 255 and %zero is -%low / %scale.  Fewer than 256 codes are a
    clamp in front.  Codes of 9 to 16 bits are int16, which products multiply.  If %x is known, so
    are its codes.  If only a product with known positive numbers reads known codes, as with scales
    of channels that NNEF 1.0.2 cannot store, the scale is their product with %scale.
    """

    name: ClassVar[str] = "recognise_quantizations"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        changed = False
        for op in list(graph.ops):
            codes = _codes(op) if op.name in NAMES else "no"
            if not isinstance(codes, str):
                _convert(graph, op, codes)
                changed = True
            elif op.name == "dequantize":
                changed |= _multiply_scale(graph, op)
        return changed


def unrecognised(op: Op) -> str | None:
    """Why a pseudo-quantization is computed on reals; None if not, and for other operations."""
    codes = _codes(op) if op.name in NAMES else None
    return codes if isinstance(codes, str) else None


@dataclass(frozen=True, slots=True)
class _Codes:
    """Codes of a tensor: real = (code - zero) scale."""

    dtype: DType
    scale: Array
    zero: Array
    """Whole numbers."""
    first: int
    last: int

    def of(self, reals: Array) -> Array:
        """The codes of reals."""
        x, scale, zero = align(reals, self.scale, self.zero)
        return np.clip(nearest(x / scale, "up") + zero, self.first, self.last)

    @property
    def is_whole_type(self) -> bool:
        return (self.first, self.last) == code_limits(self.dtype)


def _codes(op: Op) -> _Codes | str:
    """The codes that a pseudo-quantization rounds to, or why it is computed on reals."""
    if op.name == "logarithmic_quantize":
        return "codes are logarithms"
    if op.attributes["bits"] > MOST_BITS:
        return f"codes have {op.attributes['bits']} bits"
    if op.output.type.dtype is not DType.FLOAT32 or op.output.type != op.inputs[0].type:
        return "items are not float32, or the range has more dimensions"
    items = [known_items(value) for value in op.inputs[1:]]
    known = [x.astype(np.float64) for x in items if x is not None]
    if len(known) < len(items):
        return "the range is computed"
    if op.name in RANGES:
        return _of_range(op, *align(*known))
    zero, scale = align(*known)
    if not (scale > 0).all() or not np.isfinite(scale).all():
        return "the range is empty"
    first, last = map(int, limits_of_codes(**op.attributes))
    return _within(_typed(op, scale, zero, first, last))


def _of_range(op: Op, low: Array, high: Array) -> _Codes | str:
    """Unsigned codes of a range; signed ones if their zero is 0, as for symmetric weights."""
    last = int(steps_of_range(**op.attributes))
    scale = (high - low) / last
    if not (scale > 0).all() or not np.isfinite(scale).all():
        return "the range is empty"
    if not are_whole(-low / scale, op.attributes["bits"]):
        return "0 is no code of the range"
    zero = np.rint(-low / scale)
    middle = _MIDDLE if op.attributes["bits"] <= _BYTE and (zero == _MIDDLE).all() else 0
    return _within(_typed(op, scale, zero - middle, -middle, last - middle))


def _typed(op: Op, scale: Array, zero: Array, first: int, last: int) -> _Codes:
    """Codes of 8 bits as they are; others as int16, with the middle of unsigned ones at 0."""
    bits: int = op.attributes["bits"]
    if bits <= _BYTE:
        return _Codes(DType.INT8 if first < 0 else DType.UINT8, scale, zero, first, last)
    middle = 1 << (bits - 1) if first == 0 else 0
    return _Codes(DType.INT16, scale, zero - middle, first - middle, last - middle)


def _within(codes: _Codes) -> _Codes | str:
    low, high = code_limits(codes.dtype)
    inside = ((codes.zero >= low) & (codes.zero <= high)).all()
    return codes if inside else "0 is no code of the range"


def _convert(graph: Graph, op: Op, codes: _Codes) -> None:
    """Replace an operation by conversions to codes and back."""
    emit, x, last = emitter(graph, op, op.location), op.inputs[0], op
    scales, items = codes.scale, known_items(x)
    zero = _constant(graph, op, codes.zero, codes.dtype)
    if items is None:
        if not codes.is_whole_type:
            for kind, bound in (("min", codes.last), ("max", codes.first)):
                limit = (bound - codes.zero) * codes.scale
                x = emit(kind, x, _constant(graph, op, limit, DType.FLOAT32))
        scale = _constant(graph, op, scales, DType.FLOAT32)
        code = emit("quantize", x, scale, zero, rounding="up")
    else:
        reals = np.broadcast_to(items, x.type.dims).astype(np.float64)
        code = _constant(graph, op, codes.of(reals), codes.dtype)
        last, factors = _product(graph, op)
        scales = np.multiply(*align(scales, factors))
        scale = _constant(graph, op, scales, DType.FLOAT32)
    real = emit("dequantize", code, scale, zero)
    real.name = last.output.name
    replace(graph, last, [real])
    if last is not op:
        graph.erase(op)


def _multiply_scale(graph: Graph, op: Op) -> bool:
    """Replace known codes times known positive numbers by codes with other scales."""
    codes, scale = (known_items(value) for value in op.inputs[:2])
    if codes is None or scale is None or op.output.type.dtype is not DType.FLOAT32:
        return False
    last, factors = _product(graph, op)
    if last is op:
        return False
    scales = np.multiply(*align(scale.astype(np.float64), factors))
    op.set_input(1, _constant(graph, op, scales, DType.FLOAT32))
    op.output.name = last.output.name
    replace(graph, last, [op.output])
    return True


def _product(graph: Graph, op: Op) -> tuple[Op, Array]:
    """The product with known positive numbers that alone reads the result of `op`, and these.

    `op` itself and 1 without one.
    """
    none = op, np.ones(())
    user = only_user(graph, op.output, "mul")
    if user is None or user.output.type != op.output.type:
        return none
    (other,) = (value for value in user.inputs if value is not op.output)
    factors = known_items(other)
    if factors is None or not (factors > 0).all() or not np.isfinite(factors).all():
        return none
    return user, factors.astype(np.float64)


def _constant(graph: Graph, before: Op, items: Array, dtype: DType) -> Value:
    made = constant_op(items, TensorType(dtype, items.shape), before.location)
    return graph.insert(made, before).output
