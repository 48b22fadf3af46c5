"""Vector IR in few words: what register-tiled kernels are written with.

`Vector` wraps an llvmlite builder for one item type and number of lanes.  Offsets
are in bytes; loops carry their values in phi nodes, so accumulators stay in
registers without help from the optimiser.  Tails are masked, so that no load or
store touches memory beyond the items that were asked for.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeArgument=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir

from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.item_types import BITS, FLOATS, ITEMSIZE
from nnefc.kernels.vector.llvm_types import I8, I32, I64, POINTER, memory_type
from nnefc.kernels.vector.memory import WORD, native


@dataclass
class Loop:
    """One turn of a loop: its counter, the values it got, and those the next turn gets."""

    index: Any
    values: list[Any]
    next: list[Any] = field(default_factory=list[Any])


class Vector:
    """A builder for vectors of `lanes` items of a floating-point type, or of short ones to move."""

    def __init__(self, builder: Any, item: str, lanes: int) -> None:
        self.builder = builder
        self.lanes = lanes
        self.item = memory_type(item)
        self.type = ir.VectorType(self.item, lanes)
        self.itemsize = ITEMSIZE[item]
        self.nbytes = lanes * self.itemsize
        self._suffix = f"v{lanes}{'f' if item in FLOATS else 'i'}{BITS[item]}"
        self._undefined = ir.Constant(self.type, ir.Undefined)

    @staticmethod
    def word(value: int) -> Any:
        """A 64-bit integer constant."""
        return ir.Constant(I64, value)

    def zero(self) -> Any:
        return ir.Constant(self.type, [0.0] * self.lanes)

    def pointer(self, address: Any) -> Any:
        return self.builder.inttoptr(address, POINTER)

    def at(self, pointer: Any, offset: Any) -> Any:
        """The pointer `offset` bytes further on."""
        if isinstance(offset, int):
            if not offset:
                return pointer
            offset = self.word(offset)
        return self.builder.gep(pointer, [offset], source_etype=I8)

    def load(self, pointer: Any, offset: Any = 0) -> Any:
        return self.builder.load(self.at(pointer, offset), typ=self.type, align=self.itemsize)

    def store(self, value: Any, pointer: Any, offset: Any = 0) -> None:
        self.builder.store(value, self.at(pointer, offset), align=self.itemsize)

    def stream(self, value: Any, pointer: Any, *, align: int = 0) -> None:
        """Store past the caches, which does not read the line first; nothing but a fence orders it.

        `pointer` is aligned to `align` bytes, or to a whole vector.
        """
        done = self.builder.store(value, pointer, align=align or self.nbytes)
        done.set_metadata("nontemporal", self.builder.module.add_metadata([ir.Constant(I32, 1)]))

    def prefetch(self, pointer: Any, offset: Any = 0) -> None:
        """Fetch a cache line into the second cache: what is used soon, but not at once."""
        read, second_cache, data = (ir.Constant(I32, n) for n in (0, 2, 1))
        place = self.at(pointer, offset)
        self.call("llvm.prefetch.p0", ir.VoidType(), place, read, second_cache, data)

    def load_item(self, pointer: Any, offset: Any = 0) -> Any:
        return self.builder.load(self.at(pointer, offset), typ=self.item, align=self.itemsize)

    def store_item(self, value: Any, pointer: Any, offset: Any = 0) -> None:
        self.builder.store(value, self.at(pointer, offset), align=self.itemsize)

    def splat(self, item: Any) -> Any:
        """`item` in every lane."""
        first = self.builder.insert_element(self._undefined, item, ir.Constant(I32, 0))
        order = ir.Constant(ir.VectorType(I32, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, self._undefined, order)

    def mask(self, count: Any) -> Any:
        """Lanes with a number less than `count` (a 64-bit integer, any value)."""
        kind = ir.VectorType(I64, self.lanes)
        undefined = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(undefined, count, ir.Constant(I32, 0))
        order = ir.Constant(ir.VectorType(I32, self.lanes), [0] * self.lanes)
        counts = self.builder.shuffle_vector(first, undefined, order)
        return self.builder.icmp_signed("<", ir.Constant(kind, list(range(self.lanes))), counts)

    def masked_load(self, pointer: Any, mask: Any, other: Any = None) -> Any:
        other = self.zero() if other is None else other
        align = ir.Constant(I32, self.itemsize)
        name = f"llvm.masked.load.{self._suffix}.p0"
        return self.call(name, self.type, pointer, align, mask, other)

    def masked_store(self, value: Any, pointer: Any, mask: Any) -> None:
        align = ir.Constant(I32, self.itemsize)
        name = f"llvm.masked.store.{self._suffix}.p0"
        self.call(name, ir.VoidType(), value, pointer, align, mask)

    def local(self, kind: Any) -> Any:
        """Pointer to memory for a value of an LLVM type on the stack, of the whole function."""
        with self.builder.goto_entry_block():
            return self.pointer(self.builder.ptrtoint(self.builder.alloca(kind), I64))

    def call(self, name: str, result: Any, *arguments: Any) -> Any:
        """Call an LLVM intrinsic."""
        function = self.builder.module.globals.get(name)
        if function is None:
            kind = ir.FunctionType(result, [a.type for a in arguments])
            function = ir.Function(self.builder.module, kind, name)
        return self.builder.call(function, arguments)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a * b + c, rounded once where the machine can (not in SSE4.2)."""
        return self.call(f"llvm.fmuladd.{self._suffix}", self.type, a, b, c)

    def add(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b)

    def extended(self, vector: Any) -> Any:
        """A vector of as many lanes or half of them, with zeros after it."""
        if vector.type.count == self.lanes:
            return vector
        order = ir.Constant(ir.VectorType(I32, self.lanes), list(range(self.lanes)))
        zeros = ir.Constant(vector.type, [0.0] * vector.type.count)
        return self.builder.shuffle_vector(vector, zeros, order)

    def shuffled(self, vector: Any, order: Sequence[int]) -> Any:
        """The items at these lanes."""
        kind = ir.VectorType(I32, self.lanes)
        return self.builder.shuffle_vector(vector, self._undefined, ir.Constant(kind, order))

    def even(self, low: Any, high: Any) -> Any:
        """Every other item of two vectors."""
        kind = ir.VectorType(I32, self.lanes)
        order = [2 * i for i in range(self.lanes)]
        return self.builder.shuffle_vector(low, high, ir.Constant(kind, order))

    def total(self, vector: Any) -> Any:
        """Sum of the lanes, pairwise."""
        width = self.lanes
        while width > 1:
            width //= 2
            order = [i + width if i < width else i for i in range(self.lanes)]
            kind = ir.VectorType(I32, self.lanes)
            other = self.builder.shuffle_vector(vector, self._undefined, ir.Constant(kind, order))
            vector = self.add(vector, other)
        return self.builder.extract_element(vector, ir.Constant(I32, 0))

    @contextmanager
    def loop(
        self, start: Any, stop: Any, step: int, carried: Sequence[Any] = ()
    ) -> Generator[Loop]:
        """`for index in range(start, stop, step)`; the turn assigns `next`.

        After the loop `values` holds the last values.
        """
        b = self.builder
        start = self.word(start) if isinstance(start, int) else start
        head, body, done = (b.append_basic_block(name) for name in ("head", "body", "done"))
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        index = b.phi(I64)
        index.add_incoming(start, before)
        values = [b.phi(value.type) for value in carried]
        for phi, value in zip(values, carried, strict=True):
            phi.add_incoming(value, before)
        b.cbranch(b.icmp_signed("<", index, stop), body, done)
        b.position_at_end(body)
        turn = Loop(index, values, list(values))
        yield turn
        index.add_incoming(b.add(index, self.word(step)), b.block)
        for phi, value in zip(values, turn.next, strict=True):
            phi.add_incoming(value, b.block)
        b.branch(head)
        b.position_at_end(done)


def vector_intrinsic(
    item: str, lanes: int, arguments: int, *, apart: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: `emit(v: Vector, *words)` becomes a numba intrinsic of so many 64-bit integers.

    `apart`: a function of its own, for code that needs all registers.  Inlined, it would share
    them with constants that LLVM moves out of the loops around it.
    """

    def wrap(emit: Callable[..., Any]) -> Any:
        def generate(builder: Any, *words: Any) -> None:
            if apart:
                builder.call(separate_function(builder, emit, item, lanes, arguments), words)
            else:
                emit(Vector(builder, item, lanes), *words)

        generate.__name__ = emit.__name__
        return native(None, *[WORD] * arguments)(generate)

    return wrap


def vector_function(item: str, lanes: int, arguments: int) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: `emit(v: Vector, *words)` becomes an intrinsic that gives a function's address.

    To be called by `nnefc.kernels.vector.memory.procedure(arguments)`: so one piece of code,
    translated once, serves kernels that differ in what they call.
    """

    def wrap(emit: Callable[..., Any]) -> Any:
        def generate(builder: Any) -> Any:
            return builder.ptrtoint(separate_function(builder, emit, item, lanes, arguments), I64)

        generate.__name__ = emit.__name__
        return native(WORD)(generate)

    return wrap


def separate_function(
    builder: Any, emit: Callable[..., Any], item: str, lanes: int, arguments: int
) -> Any:
    """The function `emit(v: Vector, *words)` of so many words in the module; it is not inlined."""
    kind = ir.FunctionType(ir.VoidType(), [I64] * arguments)
    name = builder.module.get_unique_name(f"nnefc_{emit.__name__}")
    function = ir.Function(builder.module, kind, name)
    function.linkage = "internal"
    for attribute in ("noinline", "nounwind"):
        function.attributes.add(attribute)
    inside = ir.IRBuilder(function.append_basic_block("entry"))
    emit(Vector(inside, item, lanes), *function.args)
    inside.ret_void()
    return function


def lanes_of(item: str) -> int:
    """Items of a floating-point type in one vector of this machine."""
    return host().vector_bits // BITS[item]
