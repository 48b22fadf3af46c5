"""Functions that are optimised apart from the code that calls them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is not typed)

from __future__ import annotations

import ctypes
import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from nnefc.kernels.codegen import object_code
from nnefc.kernels.codegen.linker import link
from nnefc.kernels.codegen.object_code import emit
from nnefc.kernels.embedded import libc
from nnefc.kernels.target.isa import TABLE, host
from nnefc.kernels.vector.llvm_types import I64
from nnefc.kernels.vector.memory import helper
from nnefc.kernels.vector.module_text import module_texts
from nnefc.kernels.vector.vector_builder import Vector, separate_function, vector_intrinsic
from nnefc.kernels.vector.vector_kernel import VectorKernel
from nnefc.runtime.compile.executable_memory import ExecutableImage
from nnefc.runtime.compile.kernel_compiler import compile_functions
from nnefc.support.errors import NnefError


def _adding(number: float) -> Any:
    @vector_intrinsic("float32", 8, 1, apart=True)
    def add(v: Vector, place: Any) -> None:
        pointer = v.pointer(place)
        (v.load(pointer) + v.splat(ir.Constant(ir.FloatType(), number))).store(pointer)

    return add


_add_one, _add_ten = _adding(1), _adding(10)


@helper
def _inside(place: int) -> None:
    _add_one(place)  # a function of another module, under the same name
    _add_one(place)


def both(place: int, _params: int, _first: int, _last: int) -> None:
    _inside(place)
    _add_ten(place)
    _add_one(place)


def _apart(builder: Any, bases: Any, params: Any, first: Any, last: Any) -> None:
    def nothing(v: Vector, word: Any) -> None: ...

    builder.call(separate_function(builder, nothing, "float32", 4, 1), [bases])


def test_functions_of_equal_name_in_one_kernel():
    data = np.zeros(8, np.float32)
    image = compile_functions([("both", both)])
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(image.entry("both"))(data.ctypes.data, 0, 0, 0)
    np.testing.assert_array_equal(data, np.full(8, 13, np.float32))


def test_an_object_exports_its_symbol_only():
    for isa in (host(), *TABLE.values()):
        for function in (both, VectorKernel(_apart)):
            assert link([emit(function, "symbol", isa)]).symbols.keys() == {"symbol"}


def test_texts_declare_each_other():
    module = ir.Module("module")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64]), "caller")
    builder = ir.IRBuilder(function.append_basic_block())

    def store(v: Vector, place: Any) -> None:
        v.splat(ir.Constant(ir.FloatType(), 1.5)).store(v.pointer(place))

    builder.call(separate_function(builder, store, "float32", 4, 1), [function.args[0]])
    builder.ret_void()
    texts = module_texts(module)
    names = [
        {f.name: f.is_declaration for f in llvm.parse_assembly(text).functions} for text in texts
    ]
    assert names == [{"caller": False, "module.store": True}, {"module.store": False}]
    assert all("noinline" in text for text in texts)
    assert not re.search("store", module_texts(ir.Module("empty"))[0])


def _calling(number: float, turns: int) -> Any:
    """A kernel that adds `number` to a vector `turns` times."""
    add = _adding(number)

    def repeat(place: int, _params: int, _first: int, _last: int) -> None:
        for _ in range(turns):
            add(place)

    return repeat


def test_kernels_that_differ_in_separate_functions_are_optimised_once():
    cases = {"a": (2.0, 3), "b": (5.0, 3), "c": (2.0, 4)}
    object_code._optimized_once.cache_clear()  # pyright: ignore[reportPrivateUsage]
    objects = {name: emit(_calling(*case), name, host()) for name, case in cases.items()}
    found = object_code._optimized_once.cache_info()  # pyright: ignore[reportPrivateUsage]
    assert (found.hits, found.misses) == (1, 2)

    image = ExecutableImage(link(list(objects.values())))
    for name, (number, turns) in cases.items():
        data = np.zeros(8, np.float32)
        ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(image.entry(name))(data.ctypes.data, 0, 0, 0)
        np.testing.assert_array_equal(data, np.full(8, number * turns, np.float32))

    object_code._optimized_once.cache_clear()  # pyright: ignore[reportPrivateUsage]
    again = {name: emit(_calling(*cases[name]), name, host()) for name in reversed(cases)}
    assert again == objects


_store_names = libc.store_addresses(("abs", "labs"))


def beside_c_functions(place: int, _params: int, _first: int, _last: int) -> None:
    _store_names(place)
    _add_ten(place)


def test_functions_of_the_c_library_keep_their_names():
    with pytest.raises(NnefError, match="undefined symbols: abs, labs"):
        link([emit(beside_c_functions, "symbol", host())])
