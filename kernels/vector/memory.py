"""Intrinsics for kernels that numba translates: memory, atomics, calls.

Addresses, offsets and indices are 64-bit integers.  Items are aligned to their size.

LLVM's loop vectoriser follows an index, not an address: write `LOAD["float32"](base, i)` with a
`base` that is invariant in the loop, not `LOAD["float32"](base + 4 * i)`.
`READ` and `WRITE` are `LOAD` and `STORE` with `noalias` metadata.  They promise that a WRITE never
hits an item that a READ of the same kernel reads, except the item it was computed from.  Without
the promise the vectoriser compares all ranges at run time, and gives up if they are many.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite is not typed)

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.kernels.codegen.callee import Definition, helper, intrinsic, native
from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.vector.item_types import ITEMSIZE, SCALARS
from nnefc.kernels.vector.llvm_types import DOUBLE, FLOAT, I32, I64, POINTER, memory_type

WORD = "int64"


def _integers(count: int) -> list[str]:
    return [WORD] * count


def _pointer(builder, address):
    return builder.inttoptr(address, POINTER)


# -- words


@native(WORD, WORD)
def load_word(builder, address):
    """Load a word that is constant while the kernel runs: base table, parameters, tables."""
    value = builder.load(_pointer(builder, address), typ=I64, align=8)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


@helper
def address(bases, reference):
    """The address that the `ref` field at the address `reference` refers to."""
    return load_word(bases + 8 * load_word(reference)) + load_word(reference + 8)


# -- items

NUMBER: dict[str, Any] = {name: np.dtype(name).type for name in SCALARS}
"""`NUMBER[dtype](x)`: x as a number of that type, in kernels and in Python."""


def _scope(builder):
    """Metadata of the alias scope of every WRITE."""
    module = builder.module
    domain = module.add_metadata(["nnefc"])
    return module.add_metadata([module.add_metadata(["nnefc.written", domain])])


def _item(builder, place, kind):
    """Pointer to the item at (address,) or (base, index)."""
    base, *index = place
    pointer = _pointer(builder, base)
    return builder.gep(pointer, index, source_etype=kind) if index else pointer


def _loader(name: str, promise: bool) -> Any:
    kind, size = memory_type(name), ITEMSIZE[name]

    @intrinsic
    def load(base, index=None):
        def emit(builder, *place):
            value = builder.load(_item(builder, place, kind), typ=kind, align=size)
            if promise:
                value.set_metadata("noalias", _scope(builder))
            return builder.icmp_unsigned("!=", value, kind(0)) if name == "bool" else value

        return Definition(name, (WORD,) if index is None else (WORD, WORD), emit)

    return load


def _storer(name: str, promise: bool) -> Any:
    kind, size = memory_type(name), ITEMSIZE[name]

    @intrinsic
    def store(base, index, value=None):
        def emit(builder, *given):
            *place, item = given
            if name == "bool":
                item = builder.zext(item, kind)
            done = builder.store(item, _item(builder, place, kind), align=size)
            if promise:
                done.set_metadata("alias.scope", _scope(builder))

        return Definition(None, (WORD, name) if value is None else (WORD, WORD, name), emit)

    return store


LOAD: dict[str, Any] = {name: _loader(name, False) for name in SCALARS}
"""`LOAD[dtype](address)` or `LOAD[dtype](base, index)`: one item; a bool is a byte, 0 or not."""
STORE: dict[str, Any] = {name: _storer(name, False) for name in SCALARS}
"""`STORE[dtype](address, value)` or `STORE[dtype](base, index, value)`."""
READ: dict[str, Any] = {name: _loader(name, True) for name in SCALARS}
"""`LOAD`, of items that no WRITE of the kernel changes."""
WRITE: dict[str, Any] = {name: _storer(name, True) for name in SCALARS}
"""`STORE`, to items that no READ of the kernel reads."""


# -- values


@intrinsic
def select(condition, yes, no):
    """`select(condition, yes, no)`: computes both, without a branch."""
    kind = np.promote_types(yes, no).name

    def emit(builder, *values):
        return builder.select(*values)

    return Definition(kind, ("bool", kind, kind), emit)


def _floating(name: str, arity: int) -> Any:
    """An LLVM floating-point intrinsic over float32 or float64."""

    def define(*given):
        if len(given) != arity:
            raise TypeError(f"{name} takes {arity} arguments")

        def emit(builder, *values):
            kind = values[0].type
            full = f"llvm.{name}.f{32 if kind == FLOAT else 64}"
            function = builder.module.declare_intrinsic(
                full, fnty=ir.FunctionType(kind, [kind] * arity)
            )
            return builder.call(function, values)

        return Definition(given[0], (given[0],) * arity, emit)

    define.__name__ = name
    return intrinsic(define)


fma = _floating("fmuladd", 3)
"""x * y + z in the type of x, rounded once on machines with fused multiply-adds (not SSE4.2)."""
floor = _floating("floor", 1)
copysign = _floating("copysign", 2)


@native("int64", "float64")
def float64_bits(builder, x):
    return builder.bitcast(x, I64)


@native("float64", "int64")
def bits_float64(builder, x):
    return builder.bitcast(x, DOUBLE)


# -- threads


@native(WORD, WORD)
def acquire(builder, address):
    """Load a word that other threads write."""
    return builder.load_atomic(_pointer(builder, address), "acquire", 8, typ=I64)


@native(WORD, WORD, WORD)
def fetch_add(builder, address, value):
    """Add to a word; returns the old value."""
    return builder.atomic_rmw("add", _pointer(builder, address), value, "seq_cst")


@native(WORD, WORD, WORD)
def exchange(builder, address, value):
    """Store a word with a full fence; returns the old value."""
    return builder.atomic_rmw("xchg", _pointer(builder, address), value, "seq_cst")


@native(WORD, WORD, WORD, WORD)
def compare_and_swap(builder, address, old, new):
    """Replace a word by `new` if it is `old`; returns 1 if it was, else 0."""
    done = builder.cmpxchg(_pointer(builder, address), old, new, "seq_cst", "monotonic")
    return builder.zext(builder.extract_value(done, 1), I64)


@native(None)
def pause(builder):
    """Hint that this thread spins, by a function that `codegen` defines for the target."""
    module = builder.module
    function = module.globals.get(PAUSE)
    if function is None:
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), PAUSE)
    builder.call(function, [])


PAUSE = "nnefc_pause"


# -- calls through addresses


def _function(builder, address, result, arguments):
    return builder.inttoptr(address, ir.FunctionType(result, arguments).as_pointer())


@native(None, *_integers(5))
def call_kernel(builder, function, bases, params, first, last):
    kernel = _function(builder, function, ir.VoidType(), [I64] * 4)
    builder.call(kernel, [bases, params, first, last])


def procedure(arguments: int) -> Any:
    """Intrinsic `call(function, *words)`: calls an address with `arguments` 64-bit integers."""

    def call(builder, function, *words):
        builder.call(_function(builder, function, ir.VoidType(), [I64] * arguments), words)

    return native(None, *_integers(arguments + 1))(call)


@native(WORD, WORD)
def call_int(builder, function):
    """Call `int f(void)`."""
    return builder.sext(builder.call(_function(builder, function, I32, []), []), I64)


@native(WORD, *_integers(5))
def system_call(builder, syscall, number, a, b, c):
    """Call `syscall(number, a, b, c, 0, 0)` through the address of the C library's function."""
    function = _function(builder, syscall, I64, [I64] * 6)
    return builder.call(function, [number, a, b, c, I64(0), I64(0)])
