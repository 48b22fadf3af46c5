"""Builders for vectors of one item type, and intrinsics that are written with them.

A `Vector` loads, broadcasts and creates `Lanes`, whose operators are the arithmetic.  Tails are
masked, so that loads and stores access no memory outside the items.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeArgument=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.vector.expression_argument import Number
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.lane_builder import LaneBuilder
from nnefc.kernels.vector.lanes import Lanes, constant, suffix, vector_type
from nnefc.kernels.vector.llvm_types import I8, I32, I64, memory_type, register_type
from nnefc.kernels.vector.memory import WORD, native


class Vector(LaneBuilder):
    """A builder for vectors of `lanes` items of a type."""

    def __init__(self, builder: Any, dtype: str, lanes: int) -> None:
        super().__init__(builder, lanes)
        self.dtype = dtype
        self.item = register_type(dtype)
        """LLVM type of an item."""
        self.type = vector_type(self, dtype)
        """LLVM type of a vector."""
        self.itemsize = ITEMSIZE[dtype]
        self.nbytes = lanes * self.itemsize

    @classmethod
    def on(cls, v: LaneBuilder, dtype: str) -> Vector:
        """Vectors of `dtype` with as many lanes as `v`."""
        return cls(v.builder, dtype, v.lanes)

    def of(self, dtype: str) -> Vector:
        """Vectors of another item type with the same number of lanes."""
        return self if dtype == self.dtype else Vector(self.builder, dtype, self.lanes)

    def resized(self, lanes: int) -> Vector:
        """Vectors of the same item type with another number of lanes."""
        return Vector(self.builder, self.dtype, lanes)

    # -- values

    def value(self, value: Any) -> Lanes:
        """An LLVM vector of this type as `Lanes`."""
        return Lanes(self, self.dtype, value)

    def constant(self, number: Number) -> Lanes:
        """A number in every lane."""
        return constant(self, self.dtype, number)

    def zero(self) -> Lanes:
        return self.value(ir.Constant(self.type, None))

    def splat(self, item: Any) -> Lanes:
        """An LLVM item (a byte for bool, as in memory) in every lane."""
        if self.dtype == "bool":
            item = self.builder.icmp_unsigned("!=", item, I8(0))
        undefined = ir.Constant(self.type, ir.Undefined)
        first = self.builder.insert_element(undefined, item, I32(0))
        zeros = ir.Constant(ir.VectorType(I32, self.lanes), None)
        return self.value(self.builder.shuffle_vector(first, undefined, zeros))

    def gather(self, items: Iterable[Any]) -> Lanes:
        """A vector of LLVM items, one per lane."""
        value = ir.Constant(self.type, ir.Undefined)
        for lane, item in enumerate(items):
            value = self.builder.insert_element(value, item, I32(lane))
        return self.value(value)

    def mask(self, count: Any) -> Lanes:
        """The mask of lanes below `count` (a 64-bit integer of any value)."""
        kind = ir.VectorType(I64, self.lanes)
        counts = self.of("int64").splat(count).value
        numbers = ir.Constant(kind, list(range(self.lanes)))
        return Lanes(self, "bool", self.builder.icmp_signed("<", numbers, counts))

    def wide_mask(self, count: Any) -> Lanes:
        """As `mask`, by a comparison of 32 bits, which is cheaper for vectors of several registers.

        `count` is clamped to the number of lanes first.
        """
        b, all_ = self.builder, I64(self.lanes)
        few = b.select(b.icmp_signed("<", count, all_), count, all_)
        some = b.select(b.icmp_signed(">", few, I64(0)), few, I64(0))
        limit = self.of("int32").splat(b.trunc(some, I32)).value
        numbers = ir.Constant(ir.VectorType(I32, self.lanes), list(range(self.lanes)))
        return Lanes(self, "bool", b.icmp_signed("<", numbers, limit))

    # -- memory

    def load(self, pointer: Any, offset: Any = 0, mask: Lanes | None = None) -> Lanes:
        """Contiguous items; lanes outside `mask` are not read and become 0.

        A bool is true for any byte that is not 0.
        """
        kind = ir.VectorType(memory_type(self.dtype), self.lanes)
        pointer = self.at(pointer, offset)
        if mask is None:
            value = self.builder.load(pointer, typ=kind, align=self.itemsize)
        else:
            name = f"llvm.masked.load.{suffix(self, self.dtype)}.p0"
            align, other = I32(self.itemsize), ir.Constant(kind, None)
            value = self.call(name, kind, pointer, align, mask.value, other)
        if self.dtype == "bool":
            value = self.builder.icmp_unsigned("!=", value, ir.Constant(kind, None))
        return self.value(value)

    def load_item(self, pointer: Any, offset: Any = 0) -> Any:
        """One LLVM item, as in memory."""
        kind = memory_type(self.dtype)
        return self.builder.load(self.at(pointer, offset), typ=kind, align=self.itemsize)

    def store_item(self, item: Any, pointer: Any, offset: Any = 0) -> None:
        self.builder.store(item, self.at(pointer, offset), align=self.itemsize)

    def load_splat(self, pointer: Any, offset: Any = 0) -> Lanes:
        """The item at `pointer` in every lane."""
        return self.splat(self.load_item(pointer, offset))


def in_chunks(function: Callable[..., Lanes], lanes: int, *operands: Lanes) -> Lanes:
    """`function(*operands)`, a float32 vector, by a loop over vectors of `lanes` items.

    For vectors of several registers, long functions take less code and fewer spills in this way.
    """
    v = operands[0].v
    if v.lanes <= lanes:
        return function(*operands)
    places = [_local(v, operand.dtype) for operand in operands]
    for operand, place in zip(operands, places, strict=True):
        operand.store(place)
    result = _local(v, "float32")
    with v.loop(0, v.word(v.lanes), lanes) as turn:
        given = [
            Vector(v.builder, x.dtype, lanes).load(
                place, v.builder.mul(turn.index, I64(ITEMSIZE[x.dtype]))
            )
            for x, place in zip(operands, places, strict=True)
        ]
        function(*given).store(result, v.builder.mul(turn.index, I64(4)))
    return Vector(v.builder, "float32", v.lanes).load(result)


def _local(v: LaneBuilder, dtype: str) -> Any:
    """Pointer to stack memory for a vector."""
    with v.builder.goto_entry_block():
        memory = v.builder.alloca(ir.VectorType(memory_type(dtype), v.lanes))
    return v.pointer(v.builder.ptrtoint(memory, I64))


def vector_intrinsic(
    item: str, lanes: int, arguments: int, *, apart: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: an intrinsic of `arguments` 64-bit integers from `emit(v: Vector, *words)`.

    `apart`: the code becomes a separate function because it needs all registers.  Inlined, it would
    share them with constants that LLVM hoists out of surrounding loops.
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
    """Decorator: an intrinsic that returns the address of the function `emit(v: Vector, *words)`.

    `nnefc.kernels.vector.memory.procedure(arguments)` calls it.  A helper with such a call is
    translated once, for kernels that differ in the function.
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
    """The function `emit(v: Vector, *words)` of `arguments` words, in the module of `builder`.

    It is not inlined, and the passes for its caller do not change it: see `codegen.object_code`.
    """
    module = builder.module
    kind = ir.FunctionType(ir.VoidType(), [I64] * arguments)
    name = module.get_unique_name(f"{module.name}.{emit.__name__}")
    function = ir.Function(module, kind, name)
    for attribute in ("noinline", "nounwind"):
        function.attributes.add(attribute)
    inside = ir.IRBuilder(function.append_basic_block("entry"))
    emit(Vector(inside, item, lanes), *function.args)
    inside.ret_void()
    return function
