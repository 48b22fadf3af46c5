"""Kernels that emit all of their LLVM instructions themselves, without numba."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.vector.llvm_types import I64, POINTER


@dataclass(frozen=True)
class VectorKernel:
    """A kernel function that emits LLVM instructions; compiles four times as fast as with numba."""

    emit: Callable[..., None]
    """`emit(builder, bases, params, first, last)` appends the instructions, without the return."""

    def __post_init__(self) -> None:
        # as in a function: names the module on whose sources the code depends
        object.__setattr__(self, "__module__", self.emit.__module__)

    def __call__(self, bases: int, params: int, first: int, last: int) -> None:
        raise TypeError("a kernel cannot be called from Python")

    def text(self, symbol: str) -> str:
        """LLVM module that defines the kernel as `symbol`."""
        module = ir.Module(symbol)
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * 4), symbol)
        function.attributes.add("nounwind")
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.emit(builder, *function.args)
        builder.ret_void()
        return str(module)


def load_word(builder: Any, address: Any) -> Any:
    """Load a word that is constant while the kernel runs."""
    value = builder.load(builder.inttoptr(address, POINTER), typ=I64, align=8)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def address(builder: Any, bases: Any, reference: Any) -> Any:
    """The address that the `ref` field at the address `reference` refers to."""
    index, offset = (load_word(builder, builder.add(reference, I64(8 * i))) for i in range(2))
    base = load_word(builder, builder.add(bases, builder.mul(index, I64(8))))
    return builder.add(base, offset)
