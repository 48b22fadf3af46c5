"""Python functions to LLVM text: numba's front end and nothing else of it.

numba reads the bytecode, infers types and lowers to LLVM; what it does by default on top of
that serves arrays, Python objects and just-in-time calls, and takes most of the time: rewrites
of the program, optimising and linking every helper into native code, wrappers, registries of
NumPy and of the containers.  Here is none of it.  Kernels use integers, floats and booleans,
`range` loops, and what this module defines:

- `helper`: a function that kernels call, translated once for each combination of types;
- `intrinsic`: a function that writes its LLVM instructions itself.

Neither can be called from Python.

Everything that reaches into numba's private interfaces is in this module.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportPrivateUsage=false
# pyright: reportUntypedBaseClass=false, reportMissingTypeArgument=false
# (numba and llvmlite are not typed)

from __future__ import annotations

import importlib
import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import BuiltinFunctionType
from typing import Any

from llvmlite import ir
from numba.core import compiler, cpu, imputils, types
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.funcdesc import PythonFunctionDescriptor
from numba.core.lowering import Lower
from numba.core.typed_passes import NopythonTypeInference, PreLowerStripPhis
from numba.core.typing import templates
from numba.core.typing.context import BaseContext
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    IRProcessing,
    ReconstructSSA,
    TranslateByteCode,
)
from numba.extending import models, register_model

_lock = threading.RLock()
"""numba keeps the state of a compilation in places that are global to the process."""


@dataclass(frozen=True, slots=True, eq=False)
class Translation:
    """A function for one combination of argument types."""

    result: Any
    """numba type."""
    text: str
    """LLVM module that defines it, not optimised."""
    name: str
    """Its name there; numba's calling convention."""
    descriptor: Any
    """What numba needs to declare it elsewhere."""
    calls: tuple[Translation, ...]
    """Helpers that it calls."""

    def all(self) -> Iterator[Translation]:
        """This and every helper that it needs, once."""
        seen: set[Translation] = {self}
        waiting: list[Translation] = [self]
        while waiting:
            yield (one := waiting.pop())
            new = [called for called in one.calls if called not in seen]
            seen.update(new)
            waiting += new


def translate(function: Callable[..., Any], arguments: tuple[Any, ...], result: Any) -> Translation:
    """`function` over numba types; `result` None: what it returns is inferred.

    Raises what numba raises if it cannot.
    """
    with _lock:
        typing_context, target = _contexts()
        library = _Library()
        pipeline = _Pipeline(typing_context, target, library, arguments, result, _flags(), {})
        made = pipeline.compile_extra(function)
        return Translation(
            made.restype, library.text, made.llvm_func_name, made, tuple(library.calls)
        )


# -- what kernels call


class _Callee(ABC):
    """Something that code under translation can call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self._function = function
        self.type = _CalleeType(self)
        self._known: dict[tuple[Any, ...], Any] = {}

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"{self.__name__} can be called from kernels only")

    @abstractmethod
    def signature(self, arguments: tuple[Any, ...]) -> Any:
        """numba signature of a call."""

    @abstractmethod
    def emit(self, context: Any, builder: Any, signature: Any, values: Any) -> Any:
        """The LLVM value of a call whose signature `signature` gave."""


_numbers = itertools.count()


class _CalleeType(types.Callable, types.Dummy):
    """The type that one callee alone has."""

    def __init__(self, callee: _Callee) -> None:
        self.callee = callee
        super().__init__(f"{callee.__name__}.{next(_numbers)}")  # types are told apart by name

    def get_call_type(self, context, args, kws):
        if kws:
            raise TypeError(f"{self.callee.__name__} takes no keywords")
        return self.callee.signature(tuple(types.unliteral(a) for a in args))

    def get_call_signatures(self):
        return [], True

    def get_impl_key(self, sig):
        return self.callee


register_model(_CalleeType)(models.OpaqueModel)


class _Helper(_Callee):
    """Translated once for each combination of argument types."""

    def _translation(self, arguments: tuple[Any, ...]) -> Translation:
        found = self._known.get(arguments)
        if found is None:
            found = self._known[arguments] = translate(self._function, arguments, None)
        return found

    def signature(self, arguments):
        return self._translation(arguments).result(*arguments)

    def emit(self, context, builder, signature, values):
        called = self._translation(signature.args)
        context.active_code_library.calls[called] = None
        # The status is not looked at: helpers do not raise.
        _, value = context.call_internal_no_propagate(builder, called.descriptor, signature, values)
        return value


class _Intrinsic(_Callee):
    """Writes its instructions in place."""

    def _definition(self, arguments: tuple[Any, ...]) -> Any:
        found = self._known.get(arguments)
        if found is None:
            found = self._known[arguments] = self._function(_contexts()[0], *arguments)
        return found

    def signature(self, arguments):
        signature, _ = self._definition(arguments)
        return signature

    def emit(self, context, builder, signature, values):
        _, code = self._definition(signature.args)
        return code(context, builder, signature, values)


def helper(function: Callable[..., Any]) -> Any:
    """Decorator: a function that kernels call; it is compiled with them and never raises."""
    return _Helper(function)


def intrinsic(function: Callable[..., Any]) -> Any:
    """Decorator: `function(typing_context, *types) -> (signature, code)` writes LLVM itself.

    `code(context, builder, signature, values)` gives the LLVM value of a call.  Types are those
    of the arguments, literals widened; arguments become those of the signature.
    """
    return _Intrinsic(function)


def _extreme(name: str, sign: str) -> _Callee:
    """Python's `min` and `max` of two numbers: the first, unless the second is beyond it."""

    def definition(context, x, y):
        kind = context.unify_types(x, y)

        def code(context, builder, signature, values):
            compare = builder.fcmp_ordered if kind in types.real_domain else builder.icmp_signed
            x, y = values
            return builder.select(compare(sign, y, x), y, x)

        return kind(kind, kind), code

    definition.__name__ = name
    return intrinsic(definition)


def _conversion(result: Any) -> _Callee:
    """`int` and `float` of a number."""

    def definition(context, x):
        def code(context, builder, signature, values):
            return context.cast(builder, values[0], x, result)

        return result(x), code

    definition.__name__ = str(result)
    return intrinsic(definition)


_BUILTINS = {
    min: _extreme("min", "<"),
    max: _extreme("max", ">"),
    int: _conversion(types.int64),
    float: _conversion(types.float64),
}
"""What numba would compile a function for."""


# -- numba without what kernels do not use


class _Library:
    """Where numba puts the LLVM module of a function: kept as text."""

    def __init__(self) -> None:
        self.text = ""
        self.calls: dict[Translation, None] = {}

    def create_ir_module(self, name: str) -> Any:
        return ir.Module(name)

    def add_ir_module(self, module: Any) -> None:
        self.text = str(module)

    def add_linking_library(self, library: Any) -> None:
        raise TypeError(f"kernels cannot use what numba compiles for itself: {library}")


class _Typing(BaseContext):
    """Types of the built-in operators; nothing of NumPy, containers, strings."""

    def refresh(self):
        """Everything there is was loaded when this was made."""

    def __init__(self):
        super().__init__()
        self._signatures: dict[Any, Any] = {}

    def resolve_function_type(self, func, args, kws):
        if not isinstance(func, types.Function) or kws:
            return super().resolve_function_type(func, args, kws)
        # What an operator gives depends on types, not on values.
        key = func, tuple(types.unliteral(a) for a in args)
        if key not in self._signatures:
            self._signatures[key] = super().resolve_function_type(*key, kws)
        return self._signatures[key]

    def resolve_value_type(self, val):
        if isinstance(val, (BuiltinFunctionType, type)):
            val = _BUILTINS.get(val, val)
        if isinstance(val, _Callee):
            return val.type
        # numba's own way to the type of `range` imports the containers.
        return self._lookup_global(val) if val is range else super().resolve_value_type(val)


class _Target(cpu.CPUContext):
    """How the same operators become LLVM instructions."""

    def __init__(self, typing_context: Any) -> None:
        super().__init__(typing_context)
        self._sizes: dict[str, int] = {}
        for module in ("builtins", "numbers", "rangeobj", "tupleobj"):
            importlib.import_module(f"numba.cpython.{module}")  # registers how to lower
        self.install_registry(imputils.builtin_registry)

    def refresh(self):
        """As above."""

    def post_lowering(self, mod, library):
        """Nothing: numba's run-time library is not used."""

    def get_abi_sizeof(self, ty):
        # asked for every variable, of a handful of types
        name = str(ty)
        if name not in self._sizes:
            self._sizes[name] = super().get_abi_sizeof(ty)
        return self._sizes[name]

    def get_function(self, fn, sig, _firstcall=True):
        if isinstance(fn, _CalleeType):
            return _Call(fn.callee, self, sig)
        return super().get_function(fn, sig, False)


@dataclass(frozen=True, slots=True)
class _Call:
    callee: _Callee
    context: Any
    signature: Any

    def __call__(self, builder, values, loc=None):
        return self.callee.emit(self.context, builder, self.signature, values)


@cache
def _contexts() -> tuple[Any, Any]:
    """(typing context, target context)."""
    typing_context = _Typing()
    typing_context.install_registry(_operators())
    return typing_context, _Target(typing_context)


def _operators() -> Any:
    """numba's declarations but those that it compiles for its own target."""

    def ours(template: Any) -> bool:
        return not (hasattr(template, "_overload_func") or hasattr(template, "_definition_func"))

    everything, some = templates.builtin_registry, templates.Registry()
    some.functions = [t for t in everything.functions if ours(t)]
    some.attributes = [t for t in everything.attributes if ours(t)]
    some.globals = [
        (value, kind)
        for value, kind in everything.globals
        if all(map(ours, getattr(kind, "templates", ())))
    ]
    return some


def _flags() -> Any:
    flags: Any = compiler.Flags()
    flags.error_model = "numpy"  # division by zero raises nothing
    flags.nrt = False
    flags.boundscheck = False
    return flags


@register_pass(mutates_CFG=False, analysis_only=False)
class _Lowering(FunctionPass):
    """To LLVM, and no further: numba's own pass goes on to native code.

    No variable needs to be deleted where it is used last, as nothing is counted.
    """

    _name = "kernel_lowering"

    def __init__(self):
        super().__init__()

    def run_pass(self, state) -> Any:
        descriptor = PythonFunctionDescriptor.from_specialized_function(
            state.func_ir,
            state.typemap,
            state.return_type,
            state.calltypes,
            mangler=state.targetctx.mangler,
            inline=False,
            noalias=False,
            abi_tags=(),
        )
        with state.targetctx.push_code_library(state.library):
            Lower(state.targetctx, state.library, descriptor, state.func_ir, {}).lower()
        state.cr = descriptor
        return True


class _Pipeline(compiler.CompilerBase):
    def define_pipelines(self):
        passes = PassManager("kernel")
        for kind in (
            TranslateByteCode,
            FixupArgs,
            IRProcessing,
            DeadBranchPrune,
            ReconstructSSA,
            NopythonTypeInference,
            PreLowerStripPhis,
            _Lowering,
        ):
            passes.add_pass(kind, kind.__name__)
        passes.finalize()
        return [passes]
