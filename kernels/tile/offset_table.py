"""Tables of int32 byte offsets, such as those of pixels from the start of a plane."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba and llvmlite are not typed)

from __future__ import annotations

from typing import Any

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.vector.lane_builder import LaneBuilder
from nnefc.kernels.vector.llvm_types import I32, I64
from nnefc.kernels.vector.memory import WORD, native


def _load_offset(builder: Any, table: Any) -> Any:
    pointer = builder.inttoptr(table, ir.PointerType())
    value = builder.load(pointer, typ=I32, align=4)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return builder.sext(value, I64)


load_offset: Any = native(WORD, WORD)(_load_offset)
"""`load_offset(address)`: the int32 of a table at `address`, as a word."""


def table_offset(v: LaneBuilder, table: Any, index: Any) -> Any:
    """Item `index` (a Python number or a word) of the int32 table at a pointer, as a word."""
    step = 4 * index if isinstance(index, int) else v.builder.mul(index, v.word(4))
    return v.builder.sext(v.builder.load(v.at(table, step), typ=I32, align=4), I64)
