"""Loops, pointers and calls in LLVM IR for vector kernels.

`LaneBuilder` wraps an llvmlite builder for vectors with a number of lanes.  Offsets are in bytes.
Loops carry values in phi nodes, so that accumulators stay in registers without help from the
optimiser.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeArgument=false
# pyright: reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.item_types import BITS
from nnefc.kernels.vector.llvm_types import I8, I32, I64, POINTER, VOID
from nnefc.support.alignment import CACHE_LINE

LONGEST_BITS: Final = 512
"""Bits of the longest vector of any machine."""


@dataclass
class Loop:
    """The body of a loop: its counter, the carried values, and their next values."""

    index: Any
    values: list[Any]
    next: list[Any] = field(default_factory=list[Any])


class TypedValue(ABC):
    """An LLVM value with an item type: the base class of `nnefc.kernels.vector.lanes.Lanes`."""

    __slots__ = ()
    value: Any

    @abstractmethod
    def same(self, value: Any) -> Any:
        """Another LLVM value with this item type."""


def llvm_value(x: Any) -> Any:
    """The LLVM value of a typed value; an LLVM value unchanged."""
    return x.value if isinstance(x, TypedValue) else x


def like(x: Any, value: Any) -> Any:
    """The LLVM value `value` with the type of `x` if that is typed, else unchanged."""
    return x.same(value) if isinstance(x, TypedValue) else value


class LaneBuilder:
    """An llvmlite builder for vectors of `lanes` items."""

    def __init__(self, builder: Any, lanes: int) -> None:
        self.builder = builder
        self.lanes = lanes

    @staticmethod
    def word(value: int) -> Any:
        """A 64-bit integer constant."""
        return ir.Constant(I64, value)

    def pointer(self, address: Any) -> Any:
        return self.builder.inttoptr(address, POINTER)

    def at(self, pointer: Any, offset: Any) -> Any:
        """The pointer advanced by `offset` bytes."""
        if isinstance(offset, int):
            if not offset:
                return pointer
            offset = self.word(offset)
        return self.builder.gep(pointer, [offset], source_etype=I8)

    def prefetch(self, pointer: Any, offset: Any = 0) -> None:
        """Prefetch a cache line into the L2 cache, for data that is not used at once."""
        read, second_cache, data = (ir.Constant(I32, n) for n in (0, 2, 1))
        place = self.at(pointer, offset)
        self.call("llvm.prefetch.p0", VOID, place, read, second_cache, data)

    def prefetch_lines(self, pointer: Any, nbytes: int, ahead: int = 0) -> None:
        """Prefetch the cache lines of `nbytes` bytes, `ahead` bytes behind the pointer."""
        for line in range(0, nbytes, CACHE_LINE):
            self.prefetch(pointer, ahead + line)

    def local(self, kind: Any) -> Any:
        """Pointer to stack memory for a value of an LLVM type; allocated once per function call."""
        with self.builder.goto_entry_block():
            return self.pointer(self.builder.ptrtoint(self.builder.alloca(kind), I64))

    def call(self, name: str, result: Any, *arguments: Any) -> Any:
        """Call an LLVM intrinsic."""
        function = self.builder.module.globals.get(name)
        if function is None:
            kind = ir.FunctionType(result, [a.type for a in arguments])
            function = ir.Function(self.builder.module, kind, name)
        return self.builder.call(function, arguments)

    @contextmanager
    def loop(
        self, start: Any, stop: Any, step: int, carried: Sequence[Any] = ()
    ) -> Generator[Loop]:
        """`for index in range(start, stop, step)`; the body assigns `Loop.next`.

        Carried values are LLVM values or `Lanes`.  After the block, `values` are the final ones.
        """
        b = self.builder
        start = self.word(start) if isinstance(start, int) else start
        head, body, done = (b.append_basic_block(name) for name in ("head", "body", "done"))
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        index = b.phi(I64)
        index.add_incoming(start, before)
        phis = [b.phi(llvm_value(value).type) for value in carried]
        for phi, value in zip(phis, carried, strict=True):
            phi.add_incoming(llvm_value(value), before)
        values = [like(value, phi) for value, phi in zip(carried, phis)]
        b.cbranch(b.icmp_signed("<", index, stop), body, done)
        b.position_at_end(body)
        turn = Loop(index, values, list(values))
        yield turn
        index.add_incoming(b.add(index, self.word(step)), b.block)
        for phi, value in zip(phis, turn.next, strict=True):
            phi.add_incoming(llvm_value(value), b.block)
        b.branch(head)
        b.position_at_end(done)


def lanes_of(item: str) -> int:
    """Number of items of a type in one vector of this machine."""
    return host().vector_bits // BITS[item]


def longest_lanes(item: str) -> int:
    """Number of items of a type in the longest vector of any machine.

    Sums over such vectors have one order, and thus the same bits, on all machines; LLVM splits them
    where vectors are shorter.
    """
    return LONGEST_BITS // BITS[item]
