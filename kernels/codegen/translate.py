"""Translates Python functions to LLVM text with the front end of numba.

numba reads the bytecode, infers types and lowers to LLVM.  Its default pipeline also supports
arrays, Python objects and just-in-time calls, with rewrites, native code for every helper, wrappers
and the registries of NumPy and of containers.  These steps take most of the time and are omitted
here: kernels use integers, floats, booleans, `range` loops, and the callees of `callee`.

Only this module imports numba, which takes 0.2 s and 60 MB; only compiling imports this module.
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
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import BuiltinFunctionType
from typing import Any

import numpy as np
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

from nnefc.kernels.codegen.callee import Callee, Definition, Helper, Intrinsic
from nnefc.kernels.vector.item_types import SCALARS
from nnefc.kernels.vector.module_text import module_texts

_lock = threading.RLock()
"""Serialises compilations, because numba keeps their state in global variables."""


@dataclass(frozen=True, slots=True, eq=False)
class Translation:
    """A function for one combination of argument types."""

    result: Any
    """numba type."""
    text: str
    """LLVM module that defines the function, not optimised."""
    separate: str
    """LLVM module of the separate functions that `text` declares; empty if it has none."""
    name: str
    """Name of the function in the module, in numba's calling convention."""
    descriptor: Any
    """numba's function descriptor, to declare the function in other modules."""
    calls: tuple[Translation, ...]
    """Helpers that the function calls."""

    def all(self) -> Iterator[Translation]:
        """This translation and those of all helpers that it reaches, each once."""
        seen: set[Translation] = {self}
        waiting: list[Translation] = [self]
        while waiting:
            yield (one := waiting.pop())
            new = [called for called in one.calls if called not in seen]
            seen.update(new)
            waiting += new


def translate(function: Callable[..., Any], arguments: tuple[Any, ...], result: Any) -> Translation:
    """Translate `function` for arguments of numba types; a `result` of None is inferred.

    Propagates numba's exceptions.
    """
    with _lock:
        typing_context, target = _contexts()
        library = _Library()
        pipeline = _Pipeline(typing_context, target, library, arguments, result, _flags(), {})
        made = pipeline.compile_extra(function)
        calls = tuple(library.calls)
        return Translation(made.restype, *library.texts, made.llvm_func_name, made, calls)


_NUMBERS = {name: types.boolean if name == "bool" else getattr(types, name) for name in SCALARS}
"""numba's types by NumPy's names; `str` of a numba type gives the same name."""
_count = itertools.count()


def numba_type(name: str | None) -> Any:
    """numba's type for a NumPy type name; `void` for None."""
    return types.void if name is None else _NUMBERS[name]


class _CalleeType(types.Callable, types.Dummy):
    """A numba type per callee."""

    def __init__(self, name: str) -> None:
        self._known: dict[tuple[Any, ...], Any] = {}
        super().__init__(f"{name}.{next(_count)}")  # types are told apart by name

    @abstractmethod
    def signature(self, arguments: tuple[Any, ...]) -> Any:
        """The numba signature of a call with arguments of these types."""

    @abstractmethod
    def emit(self, context: Any, builder: Any, signature: Any, values: Any) -> Any:
        """Emit a call with this signature; returns its LLVM value."""

    def get_call_type(self, context, args, kws):
        if kws:
            raise TypeError(f"{self.name.partition('.')[0]} takes no keywords")
        return self.signature(tuple(types.unliteral(a) for a in args))

    def get_call_signatures(self):
        return [], True

    def get_impl_key(self, sig):
        return self


class _HelperType(_CalleeType):
    """A helper, translated once per combination of argument types."""

    def __init__(self, callee: Helper) -> None:
        self._function = callee.function
        super().__init__(callee.__name__)

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
        # The status is ignored: helpers do not raise.
        _, value = context.call_internal_no_propagate(builder, called.descriptor, signature, values)
        return value


class _IntrinsicType(_CalleeType):
    """An intrinsic, whose instructions are emitted inline."""

    def __init__(self, callee: Intrinsic) -> None:
        self._function = callee.function
        super().__init__(callee.__name__)

    def _definition(self, arguments: tuple[Any, ...]) -> Definition:
        found = self._known.get(arguments)
        if found is None:
            found = self._known[arguments] = self._function(*map(str, arguments))
        return found

    def signature(self, arguments):
        definition = self._definition(arguments)
        return numba_type(definition.result)(*map(numba_type, definition.parameters))

    def emit(self, context, builder, signature, values):
        definition = self._definition(signature.args)
        value = definition.emit(builder, *values)
        return context.get_dummy_value() if definition.result is None else value


class _ConversionType(_CalleeType):
    """A conversion of a number by calling `int`, `float` or a NumPy type."""

    def __init__(self, result: str) -> None:
        self._result = numba_type(result)
        super().__init__(result)

    def signature(self, arguments):
        (given,) = arguments
        return self._result(given)

    def emit(self, context, builder, signature, values):
        return context.cast(builder, values[0], signature.args[0], self._result)


for _kind in (_HelperType, _IntrinsicType, _ConversionType):
    register_model(_kind)(models.OpaqueModel)


def _type_of(callee: Callee) -> _CalleeType:
    if callee.translated is None:
        kind = _HelperType if isinstance(callee, Helper) else _IntrinsicType
        callee.translated = kind(callee)
    return callee.translated


def _extreme(name: str, sign: str) -> _CalleeType:
    """Python's `min` or `max` of two numbers: the second if `second sign first`, else the first."""

    def define(x: str, y: str) -> Definition:
        kind = np.promote_types(x, y)

        def emit(builder, x, y):
            compare = {"f": builder.fcmp_ordered, "i": builder.icmp_signed}.get(
                kind.kind, builder.icmp_unsigned
            )
            return builder.select(compare(sign, y, x), y, x)

        return Definition(kind.name, (kind.name, kind.name), emit)

    define.__name__ = name
    return _type_of(Intrinsic(define))


_BUILTINS = {
    min: _extreme("min", "<"),
    max: _extreme("max", ">"),
    int: _ConversionType("int64"),
    float: _ConversionType("float64"),
    **{np.dtype(name).type: _ConversionType(name) for name in _NUMBERS},
}
"""Builtins that become a few instructions instead of numba functions."""


# -- numba's contexts and pipeline, reduced to what kernels use


class _Library:
    """A numba code library for one function, which stores its LLVM module as texts."""

    def __init__(self) -> None:
        self.texts = "", ""
        self.calls: dict[Translation, None] = {}

    def create_ir_module(self, name: str) -> Any:
        return ir.Module(name)

    def add_ir_module(self, module: Any) -> None:
        self.texts = module_texts(module)

    def add_linking_library(self, library: Any) -> None:
        raise TypeError(f"kernels cannot call functions of numba's library: {library}")


class _Typing(BaseContext):
    """A typing context with the built-in operators, but no NumPy, containers or strings."""

    def refresh(self):
        """Do nothing: the constructor has loaded all declarations."""

    def __init__(self):
        super().__init__()
        self._signatures: dict[Any, Any] = {}

    def resolve_function_type(self, func, args, kws):
        if not isinstance(func, types.Function) or kws:
            return super().resolve_function_type(func, args, kws)
        # The result type of an operator depends on types, not on literal values.
        key = func, tuple(types.unliteral(a) for a in args)
        if key not in self._signatures:
            self._signatures[key] = super().resolve_function_type(*key, kws)
        return self._signatures[key]

    def resolve_value_type(self, val):
        if isinstance(val, Callee):
            return _type_of(val)
        if isinstance(val, (BuiltinFunctionType, type)) and val in _BUILTINS:
            return _BUILTINS[val]
        # numba's own look-up of types imports the containers; branches convert to `bool`.
        own = val is range or val is bool
        return self._lookup_global(val) if own else super().resolve_value_type(val)


class _Target(cpu.CPUContext):
    """A target context that lowers the operators of `_Typing` to LLVM instructions."""

    def __init__(self, typing_context: Any) -> None:
        super().__init__(typing_context)
        self._sizes: dict[str, int] = {}
        for module in ("builtins", "numbers", "rangeobj", "tupleobj"):
            importlib.import_module(f"numba.cpython.{module}")  # registers lowerings
        self.install_registry(imputils.builtin_registry)

    def refresh(self):
        """Do nothing, as in `_Typing`."""

    def post_lowering(self, mod, library):
        """Do nothing: numba's run-time library is not used."""

    def get_abi_sizeof(self, ty):
        # numba calls this for every variable; the types are few
        name = str(ty)
        if name not in self._sizes:
            self._sizes[name] = super().get_abi_sizeof(ty)
        return self._sizes[name]

    def get_function(self, fn, sig, _firstcall=True):
        if isinstance(fn, _CalleeType):
            return _Call(fn, self, sig)
        return super().get_function(fn, sig, False)


@dataclass(frozen=True, slots=True)
class _Call:
    callee: _CalleeType
    context: Any
    signature: Any

    def __call__(self, builder, values, loc=None):
        return self.callee.emit(self.context, builder, self.signature, values)


@cache
def _contexts() -> tuple[Any, Any]:
    """The typing context and the target context."""
    typing_context = _Typing()
    typing_context.install_registry(_operators())
    return typing_context, _Target(typing_context)


def _operators() -> Any:
    """numba's declarations, except functions that numba itself implements in Python."""

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
    flags.error_model = "numpy"  # division by zero does not raise
    flags.nrt = False
    flags.boundscheck = False
    return flags


@register_pass(mutates_CFG=False, analysis_only=False)
class _Lowering(FunctionPass):
    """Lowers to LLVM and stops there; numba's own pass goes on to native code.

    Kernels have no reference counts, so variables need not be deleted after their last use.
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
