"""LLVM types of words, pointers, and items in memory and in registers."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

from typing import Any, Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.vector.item_types import ITEM_TYPES

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
FLOAT, DOUBLE = ir.FloatType(), ir.DoubleType()
VOID: Final = ir.VoidType()


class _BFloat(ir.Type):
    """The type `bfloat`, which llvmlite lacks."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


BFLOAT: Final = _BFloat()
POINTER: Final = ir.PointerType()

_FLOATS: Final[dict[str, Any]] = {"float32": FLOAT, "float64": DOUBLE}
_MEMORY: Final[dict[str, Any]] = {
    **{name: ir.IntType(row.bits) for name, row in ITEM_TYPES.items()},
    **_FLOATS,
}


def memory_type(item: str) -> Any:
    """LLVM type of an item in memory, where a bool is a byte."""
    return _MEMORY[item]


def register_type(item: str) -> Any:
    """LLVM type of an item in a register, where a bool is a bit."""
    return I1 if item == "bool" else _MEMORY[item]
