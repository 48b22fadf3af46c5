"""References from code that is linked into C programs: to libc functions and to its own data.

Kernels have no such references, because they are mapped without a linker.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false
# (llvmlite is not typed)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nnefc.kernels.codegen.callee import native
from nnefc.kernels.codegen.llvm_ir import ir

_WORD: Final = "int64"
_INT, _LONG, _VOID, _BYTE = ir.IntType(32), ir.IntType(64), ir.VoidType(), ir.IntType(8)

EXTERNAL: Final[set[str]] = set()
"""Symbols that embedded code may refer to."""


def function(name: str, parameters: int, result: str | None = "long", fixed: int = -1) -> Any:
    """Intrinsic that calls a C function with `parameters` integers or pointers.

    `result`: "long" (or a pointer), "int", or None.  `fixed`: number of parameters before `...`,
    or -1 for a function that is not variadic.  An `int` parameter takes the low half of its word.
    """
    EXTERNAL.add(name)
    kinds: dict[str | None, Any] = {"long": _LONG, "int": _INT, None: _VOID}

    def call(builder, *words):
        declared = [_LONG] * (parameters if fixed < 0 else fixed)
        kind = ir.FunctionType(kinds[result], declared, var_arg=fixed >= 0)
        value = builder.call(_declared(builder.module, name, kind), words)
        return builder.sext(value, _LONG) if result == "int" else value

    call.__name__ = name
    return native(None if result is None else _WORD, *[_WORD] * parameters)(call)


def store_addresses(names: Sequence[str]) -> Any:
    """Intrinsic `store(address)` that stores the addresses of C functions as consecutive words."""
    EXTERNAL.update(names)

    def store(builder, place):
        for i, name in enumerate(names):
            kind = ir.FunctionType(_VOID, [])
            address = builder.ptrtoint(_declared(builder.module, name, kind), _LONG)
            to = builder.inttoptr(builder.add(place, _LONG(8 * i)), ir.PointerType())
            builder.store(address, to, align=8)

    return native(None, _WORD)(store)


def symbol_address(name: str) -> Any:
    """Intrinsic that returns the address of a hidden symbol of the same object."""
    EXTERNAL.add(name)

    def address(builder):
        found = builder.module.globals.get(name)
        if found is None:
            found = ir.GlobalVariable(builder.module, _BYTE, name)
            found.linkage, found.storage_class = "external", "hidden"
        return builder.ptrtoint(found, _LONG)

    return native(_WORD)(address)


def _declared(module, name, kind):
    found = module.globals.get(name)
    return ir.Function(module, kind, name) if found is None else found
