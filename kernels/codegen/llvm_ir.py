"""`ir` of llvmlite, or a stand-in where llvmlite is not installed.

Lowering imports the modules of kernels to name them and to lay out their parameters, also for
kernels whose object code is shipped.  Only compiling builds LLVM IR.  The stand-in therefore lets
modules define types and constants, and nothing can be done with these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llvmlite import ir
else:
    try:
        from llvmlite import ir
    except ModuleNotFoundError:

        class _Inert:
            """An object of llvmlite that has no properties."""

            def __init__(self, *arguments: Any) -> None:
                pass

        class _Classes:
            """Every attribute is a class of inert objects."""

            def __getattr__(self, name: str) -> type[_Inert]:
                return type(name, (_Inert,), {})

        ir = _Classes()

__all__ = ["ir"]
