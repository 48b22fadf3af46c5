"""From a Python function to an object file that knows nothing of Python.

numba types and lowers the function, without wrappers and without optimising; a few
lines of LLVM give it the plain C calling convention; everything else becomes internal;
LLVM optimises once, for the instruction set asked for, and writes the object.  It has
one defined symbol and no undefined one.

Everything that reaches into numba's private interfaces is in this module.  Known to work
with numba 0.62 to 0.68 and llvmlite 0.45 to 0.50; others are tried, and if they do not
have what is needed, the error says so.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (numba and llvmlite are not typed)

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
from numba.core import compiler, config, types
from numba.core.registry import cpu_target

from nnefc.errors import NnefError
from nnefc.kernels.isa import Isa
from nnefc.kernels.memory import PAUSE

_lowering = threading.RLock()
"""numba's optimisation level is global to the process: one thread lowers at a time."""


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def emit(function: Callable[..., Any], symbol: str, isa: Isa) -> bytes:
    """The ELF object of `function`, exporting `symbol`.

    `function` takes 64-bit integers (or pointers) and returns one if its annotation of the
    result is `int`, else nothing.
    Raises NnefError `internal/code-generation` if numba or LLVM refuses.
    """
    machine, module = _generate(function, symbol, isa)
    return machine.emit_object(module)


def emit_assembly(function: Callable[..., Any], symbol: str, isa: Isa) -> str:
    """The same as assembly text, for people."""
    machine, module = _generate(function, symbol, isa)
    return machine.emit_assembly(module)


def _generate(function: Callable[..., Any], symbol: str, isa: Isa) -> tuple[Any, Any]:
    """(target machine, optimised module)."""
    _initialize()
    try:
        machine = llvm.Target.from_triple(isa.triple).create_target_machine(
            cpu=isa.cpu, features=isa.features, opt=3, reloc="pic", codemodel="small"
        )
        return machine, _optimized(function, symbol, isa, machine)
    except NnefError:
        raise
    except Exception as error:
        raise NnefError.of(
            "internal/code-generation",
            f"cannot compile {symbol}: {type(error).__name__}: {error}",
            hint=f"numba {numba.__version__} and llvmlite {llvmlite.__version__} are installed;"
            " known to work are numba 0.62 to 0.68 with llvmlite 0.45 to 0.50",
        ) from error


def _lower(function: Callable[..., Any]) -> tuple[str, str, int, bool]:
    """(unoptimised LLVM text, mangled name, arguments, returns a value)."""
    count = function.__code__.co_argcount
    returns = function.__annotations__.get("return") in (int, "int")
    flags: Any = compiler.Flags()
    settings: Any = config
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.release_gil = False  # the caller's business, not the kernel's
    flags.error_model = "numpy"  # division by zero raises nothing
    flags.nrt = False
    flags.boundscheck = False
    with _lowering:
        level = settings.OPT
        settings.OPT = type(level)(0)
        try:
            result = compiler.compile_extra(
                cpu_target.typing_context,
                cpu_target.target_context,
                function,
                (types.int64,) * count,
                types.int64 if returns else types.void,
                flags,
                {},
            )
        finally:
            settings.OPT = level
    text = str(result.library._final_module)  # pyright: ignore[reportPrivateUsage]
    return text, result.fndesc.llvm_func_name, count, returns


def _entry(symbol: str, inner: str, count: int, returns: bool) -> str:
    """LLVM text of `symbol`: numba's calling convention wrapped into C's.

    numba's functions return a status, and their value through the first argument.
    """
    parameters = ", ".join(f"i64 %a{i}" for i in range(count))
    passed = "".join(f", i64 %a{i}" for i in range(count))
    result, slot = ("i64", "i64") if returns else ("void", "ptr")
    back = "%v = load i64, ptr %r\n  ret i64 %v" if returns else "ret void"
    return f"""
define {result} @{symbol}({parameters}) nounwind {{
  %r = alloca {slot}
  %e = alloca ptr
  %s = call i32 @{inner}(ptr %r, ptr %e{passed})
  {back}
}}
"""


_DEFINITION = re.compile(r"^(define .*?)((?: #\d+)?(?: personality [^{]*)? \{)$", re.M)


def _optimized(function: Callable[..., Any], symbol: str, isa: Isa, machine: Any) -> Any:
    """The module after LLVM's O3 pipeline, with only `symbol` external."""
    text, inner, count, returns = _lower(function)
    text += _entry(symbol, inner, count, returns)
    text = re.sub(r"^target triple = .*$", f'target triple = "{isa.triple}"', text, flags=re.M)
    layout = f'target datalayout = "{machine.target_data}"'
    text = re.sub(r"^target datalayout = .*$", layout, text, flags=re.M)
    text = re.sub(r'"target-cpu"="[^"]*"|"target-features"="[^"]*"', "", text)
    text = _pause(text, isa)
    # Otherwise LLVM turns loops into calls of memset and memcpy, which nobody would define.
    text = _DEFINITION.sub(r'\1 "no-builtins"\2', text)
    module = llvm.parse_assembly(text)
    module.verify()
    for item in (*module.functions, *module.global_variables):
        if not item.is_declaration and item.name != symbol:
            item.linkage = "internal"
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = tuning.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module


def _pause(text: str, isa: Isa) -> str:
    """Make the function that stands for a spin-wait hint the machine's own."""
    argument, parameter = ("i32 1", "i32") if isa.pause == "llvm.aarch64.hint" else ("", "")
    body = f"""define internal void @{PAUSE}() alwaysinline {{
  call void @{isa.pause}({argument})
  ret void
}}
declare void @{isa.pause}({parameter})
"""
    definition = rf"^define [^\n]*@{PAUSE}\(\)[^\n]*\{{\n.*?^\}}\n"
    return re.sub(definition, body, text, flags=re.M | re.S)
