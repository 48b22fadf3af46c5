"""Caches of keys and values in 4 or 8 bits: codes, whose values are multiples of a scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onnx import TensorProto

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import Operand, OperatorError, operand
from nnefc.frontends.onnx.narrow_bytes import bytes_of, from_bytes
from nnefc.frontends.onnx.narrow_types import NarrowTensor, narrowed, values_of
from nnefc.frontends.onnx.tensors import StorageTensor, type_name
from nnefc.ir import DType

_FLOAT8 = TensorProto.FLOAT8E4M3FN
_MIDDLE = 8
"""The code of 0 in 4 bits."""


@dataclass(frozen=True, slots=True)
class CacheCodes:
    """How a cache stores keys or values [batch, heads, items, width].

    `bits`: 4 for two codes in a byte (uint8, the lower bits first), 8 for int8, or float8 if
    `is_float`; 0 for items as they are.  `scale` broadcasts with the items.
    """

    bits: int = 0
    is_float: bool = False
    scale: Operand | None = None

    def encoded(self, make: OpBuilder, x: Operand) -> Operand:
        """Items as the cache stores them; bytes for float8."""
        if self.scale is None:
            return x
        ratio = make("div", make.cast(x, DType.FLOAT32), self.scale)
        if self.is_float:
            return bytes_of(make, narrowed(make, ratio, _FLOAT8))
        most = (1 << self.bits - 1) - 1
        limited = make("clamp", make("round_even", ratio), -float(most) - 1, float(most))
        if self.bits == 8:
            return make.cast(limited, DType.INT8)
        *outer, width = x.type.dims
        codes = make.cast(make("add", limited, float(_MIDDLE)), DType.UINT8)
        pairs = make.reshape(codes, (*outer, width // 2, 2))
        low, high = (slice_in_dim(make, pairs, len(outer) + 1, i, i + 1) for i in range(2))
        both = make("bitor", low, make("shift_left", high, 4))
        return make.reshape(both, (*outer, width // 2))

    def decoded(self, make: OpBuilder, codes: Operand) -> Operand:
        """The items of codes, float32."""
        if self.scale is None:
            return codes
        if self.is_float:
            return make("mul", values_of(make, from_bytes(make, codes, _FLOAT8)), self.scale)
        if self.bits == 4:
            *outer, width = codes.type.dims
            whole = make.reshape(codes, (*outer, width, 1))
            pair = [make("bitand", whole, 15), make("shift_right", whole, 4)]
            joined = make.reshape(make("concat", pair, axis=len(outer) + 1), (*outer, 2 * width))
            codes = make("sub", make.cast(joined, DType.INT8), _MIDDLE)
        return make("mul", make.cast(codes, DType.FLOAT32), self.scale)

    def taken(self, make: OpBuilder, past: Any) -> Operand | None:
        """The codes of an input, float8 as bytes; raises OperatorError for another item type."""
        if past is None:
            return None
        if isinstance(past, StorageTensor | NarrowTensor):
            if self.is_float and past.elem_type == _FLOAT8:
                return bytes_of(make, past)
            raise self._wrong(type_name(past.elem_type))
        x = operand(past)
        wanted = {4: DType.UINT8, 8: DType.INT8}.get(self.bits)
        if (wanted is not None and x.type.dtype is not wanted) or self.is_float:
            raise self._wrong(str(x.type.dtype))
        return x

    def given(self, make: OpBuilder, codes: Operand) -> Any:
        """Codes as the operator returns them."""
        return from_bytes(make, codes, _FLOAT8) if self.is_float else codes

    def _wrong(self, have: str) -> OperatorError:
        message = f"a cache of {have} with kv_cache_bit_width = {self.bits}"
        hint = "uint8 has codes of 4 bits, int8 and float8e4m3fn have those of 8"
        return OperatorError("argument/attention", message, hint)


def cache_codes(
    make: OpBuilder,
    kind: str,
    bits: int,
    scale: Operand | None,
    new: Operand,
    past: Any,
) -> tuple[CacheCodes, Operand | None]:
    """How a cache stores keys or values, and its codes.

    `kind`: NONE, PER_TENSOR or PER_CHANNEL; `new` [batch, heads, items, width]: new keys or values;
    `past`: the input with the cache.  Raises OperatorError.
    """
    codes = CacheCodes()
    if kind != "NONE":
        is_float = isinstance(past, StorageTensor | NarrowTensor) and bits == 8
        codes = CacheCodes(bits, is_float, _factors(make, kind, bits, scale, new))
    return codes, codes.taken(make, past)


def _factors(make: OpBuilder, kind: str, bits: int, scale: Operand | None, new: Operand) -> Operand:
    """The scale, float32 of rank 4; raises OperatorError."""
    if kind not in ("PER_TENSOR", "PER_CHANNEL") or bits not in (4, 8):
        message = f"a cache of quantization type '{kind}' with kv_cache_bit_width = {bits}"
        hint = "use NONE, PER_TENSOR or PER_CHANNEL, with 4 or 8 bits"
        raise OperatorError("argument/attention", message, hint)
    if scale is None:
        raise OperatorError("onnx/arguments", "a quantized cache needs k_scale and v_scale")
    width = new.type.dims[3]
    if bits == 4 and width % 2:
        message = f"codes of 4 bits for heads of {width} items; their number must be even"
        raise OperatorError("argument/attention", message)
    is_one = scale.type.volume == 1
    shape = (1, 1, 1, 1) if is_one else (1, new.type.dims[1], 1, width)
    if scale.type.volume != shape[1] * shape[3]:
        message = (
            f"a scale of the cache has shape {list(scale.type.dims)}, not [1] or {list(shape)}"
        )
        raise OperatorError("argument/attention", message)
    return make.reshape(make.cast(scale, DType.FLOAT32), shape)
