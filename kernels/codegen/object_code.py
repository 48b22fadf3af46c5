"""Compiles a Python function to an object file that is independent of Python.

The function and its helpers are translated one by one.  A wrapper in LLVM text gives the function
the C calling convention; every other function becomes internal.  LLVM optimises the module for one
instruction set, and writes an object with one defined and no undefined symbol.

Functions that kernels emit instruction by instruction, such as register tiles, are most of the code
but gain nothing from most passes.  They are optimised apart from the translated functions.  Many
kernels differ only in these functions, so the translated ones are optimised once per process.

numba 0.62 to 0.68 and llvmlite 0.45 to 0.50 are known to work; errors mention the installed ones.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is not typed)

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any, Final

import llvmlite.binding as llvm

from nnefc.kernels.codegen.exact_multiply_add import answered, exact
from nnefc.kernels.codegen.translate import Translation, numba_type, translate
from nnefc.kernels.target.isa import NATIVE, Isa
from nnefc.kernels.target.processor import llvm_target
from nnefc.kernels.vector.memory import PAUSE, WORD
from nnefc.kernels.vector.vector_kernel import VectorKernel
from nnefc.support.errors import NnefError


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()


def emit(function: Callable[..., Any], symbol: str, isa: Isa) -> bytes:
    """Compile `function` for `isa` to an ELF object that exports `symbol`.

    `function` takes 64-bit integers or pointers.  It returns a 64-bit integer if its return
    annotation is `int`, else void.  A `VectorKernel` emits its own instructions.
    Raises NnefError `internal/code-generation` if numba or LLVM fails.
    """
    machine, module = _generate(function, symbol, isa)
    return machine.emit_object(module)


def emit_assembly(function: Callable[..., Any], symbol: str, isa: Isa) -> str:
    """As `emit`, but assembly text."""
    machine, module = _generate(function, symbol, isa)
    return machine.emit_assembly(module)


def _generate(function: Callable[..., Any], symbol: str, isa: Isa) -> tuple[Any, Any]:
    """The LLVM target machine and the optimised module."""
    _initialize()
    try:
        machine = _target_machine(isa)
        if isinstance(function, VectorKernel):
            return machine, _vector_module(function, symbol, isa, machine)
        return machine, _optimized(function, symbol, isa, machine)
    except NnefError:
        raise
    except Exception as error:
        raise NnefError.of(
            "internal/code-generation",
            f"cannot compile {symbol}: {type(error).__name__}: {error}",
            hint=f"numba {version('numba')} and llvmlite {version('llvmlite')} are installed;"
            " known to work are numba 0.62 to 0.68 with llvmlite 0.45 to 0.50",
        ) from error


def _target_machine(isa: Isa) -> Any:
    cpu, features = llvm_target() if isa.cpu == NATIVE else (isa.cpu, "")
    return llvm.Target.from_triple(isa.triple).create_target_machine(
        cpu=cpu,
        features=",".join(filter(None, [features, isa.llvm_features])),
        opt=3,
        reloc="pic",
        codemodel="small",
    )


def _entry(symbol: str, kernel: Translation, count: int, isa: Isa) -> str:
    """LLVM text of `symbol`, which calls the translated kernel, and of the `PAUSE` function.

    Functions of numba return a status, and their value through the first argument.
    """
    returns = kernel.result != numba_type(None)
    parameters = ", ".join(f"i64 %a{i}" for i in range(count))
    passed = "".join(f", i64 %a{i}" for i in range(count))
    result, slot = ("i64", "i64") if returns else ("void", "ptr")
    back = "%v = load i64, ptr %r\n  ret i64 %v" if returns else "ret void"
    argument, parameter = ("i32 1", "i32") if isa.pause == "llvm.aarch64.hint" else ("", "")
    return f"""
declare i32 @"{kernel.name}"(ptr, ptr{", i64" * count})
declare void @{isa.pause}({parameter})
define {result} @{symbol}({parameters}) nounwind {{
  %r = alloca {slot}
  %e = alloca ptr
  %s = call i32 @"{kernel.name}"(ptr %r, ptr %e{passed})
  {back}
}}
define void @{PAUSE}() alwaysinline {{
  call void @{isa.pause}({argument})
  ret void
}}
"""


def _optimized(function: Callable[..., Any], symbol: str, isa: Isa, machine: Any) -> Any:
    """The optimised module, with only `symbol` external.

    LLVM's O3 pipeline optimises the translated functions, and a few passes the separate ones.
    """
    count = function.__code__.co_argcount
    returns = function.__annotations__.get("return") in (int, "int")
    result = numba_type(WORD if returns else None)
    kernel = translate(function, (numba_type(WORD),) * count, result)
    parts = list(kernel.all())
    entry = _entry(_ENTRY, kernel, count, isa)
    module = _linked([entry, *(part.text for part in parts)], _ENTRY, isa, machine)
    separate = [part.separate for part in parts if part.separate]
    vectors = _linked(separate, None, isa, machine) if separate else None
    _number_declarations(module, vectors)
    module = llvm.parse_bitcode(_optimized_once(str(module), isa))
    if vectors is not None:
        _clean_up(vectors, machine)
        module.link_in(vectors)
        _hide_all_but(_ENTRY, module)
    module.get_function(_ENTRY).name = symbol
    return module


_ENTRY: Final = "entry"
"""Symbol of every kernel until its code is optimised."""


def _number_declarations(module: Any, vectors: Any) -> None:
    """Rename the functions that `module` declares and `vectors` defines by number, in both.

    Names of numba count what the process has translated.  Numbers make modules of kernels equal
    that differ only in separate functions.  Functions of the C library keep their names.
    """
    defined = {} if vectors is None else {f.name: f for f in vectors.functions}
    number = 0
    for function in module.functions:
        definition = defined.get(function.name)
        if function.is_declaration and definition and not definition.is_declaration:
            function.name = definition.name = f"separate.{number}"
            number += 1


@lru_cache(256)
def _optimized_once(text: str, isa: Isa) -> bytes:
    """Bitcode of an LLVM module after the O3 pipeline."""
    module, machine = llvm.parse_assembly(text), _target_machine(isa)
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = tuning.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module.as_bitcode()


def _vector_module(kernel: VectorKernel, symbol: str, isa: Isa, machine: Any) -> Any:
    """The optimised module of a kernel that emits its own instructions."""
    module = _linked([kernel.text(symbol)], symbol, isa, machine)
    _clean_up(module, machine)
    return module


def _clean_up(module: Any, machine: Any) -> None:
    """Optimise functions that emit their own instructions.

    Their code needs only light clean-up, and a few passes take a tenth of the time of O3.
    """
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
    passes = llvm.create_new_function_pass_manager()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_loop_rotate_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)


def _linked(texts: Sequence[str], symbol: str | None, isa: Isa, machine: Any) -> Any:
    """One module of several texts; if `symbol` is given, only `symbol` stays external."""
    first, *others = (_parse(text, isa, machine) for text in texts)
    for other in others:
        first.link_in(other)
    first.verify()
    if symbol is not None:
        _hide_all_but(symbol, first)
    return first


def _hide_all_but(symbol: str, module: Any) -> None:
    """Make everything internal that the module defines, except `symbol`.

    Names of numba count what the process has translated, and objects must not depend on that.
    """
    for number, item in enumerate((*module.functions, *module.global_variables)):
        if not item.is_declaration and item.name != symbol:
            item.linkage, item.name = "internal", f"internal.{number}"


_DEFINITION = re.compile(r"^(define .*?)(\s*\{)$", re.M)


def _parse(text: str, isa: Isa, machine: Any) -> Any:
    text = answered(text, once=isa.fma or isa.exact_fma)
    if isa.exact_fma:
        text = exact(text)
    # Otherwise LLVM turns loops into calls of memset and memcpy, which are undefined symbols here.
    module = llvm.parse_assembly(_DEFINITION.sub(r'\1 "no-builtins"\2', text))
    module.triple, module.data_layout = isa.triple, str(machine.target_data)
    if isa.exact_fma:
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.run(module, builder)
    return module
