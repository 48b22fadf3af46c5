"""The clock, for native code."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite is not typed)

from __future__ import annotations

from typing import Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.vector.llvm_types import I32, I64
from nnefc.kernels.vector.memory import WORD, native

TIMESPEC_BYTES: Final = 16
"""Two words, seconds and nanoseconds."""


@native(WORD, WORD, WORD, WORD)
def now(builder, clock, clock_id, timespec):
    """The time in nanoseconds of a clock, by `clock_gettime` at the address `clock`.

    `timespec`: the address of memory for its result.
    """
    kind = ir.FunctionType(I32, [I32, I64])
    function = builder.inttoptr(clock, kind.as_pointer())
    builder.call(function, [builder.trunc(clock_id, I32), timespec])
    words = builder.inttoptr(timespec, ir.PointerType())
    seconds = builder.load(words, typ=I64, align=8)
    rest = builder.load(builder.gep(words, [I64(1)], source_etype=I64), typ=I64, align=8)
    return builder.add(builder.mul(seconds, I64(1_000_000_000)), rest)
