"""Splits and joins interleaved planes, such as the colours of an image."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.movement.matrix_transpose import square_lanes
from nnefc.kernels.vector.item_types import MOVED_AS
from nnefc.kernels.vector.lanes import Lanes, shuffle, shuffle_two
from nnefc.kernels.vector.llvm_types import I64
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic

PLANES: Final = (2, 3, 4)
"""Numbers of planes for which code is generated."""


@cache
def split_planes(itemsize: int) -> Any:
    """Intrinsic `split(x, y, y_row, count, planes)`: y[p, i] = x[i, p].

    x is dense, rows of y are `y_row` bytes apart; `count` is a multiple of `square_lanes`.
    """

    @vector_intrinsic(MOVED_AS[itemsize], square_lanes(itemsize), 5, apart=True)
    def split(v: Vector, x, y, y_row, count, planes):
        x, y = v.pointer(x), v.pointer(y)

        def emit(number: int) -> None:
            with v.loop(0, count, v.lanes) as turn:
                at = v.builder.mul(turn.index, v.word(v.itemsize))
                source = v.at(x, v.builder.mul(at, v.word(number)))
                together = [v.load(source, k * v.nbytes) for k in range(number)]
                for p in range(number):
                    order = [number * i + p for i in range(v.lanes)]
                    row = v.at(y, v.builder.mul(y_row, v.word(p)))
                    _shuffled(v, together, order).store(v.at(row, at))

        _for_each(v, planes, emit)

    return split


@cache
def join_planes(itemsize: int) -> Any:
    """Intrinsic `join(x, x_row, y, count, planes)`: y[i, p] = x[p, i].

    y is dense, rows of x are `x_row` bytes apart; `count` is a multiple of `square_lanes`.
    """

    @vector_intrinsic(MOVED_AS[itemsize], square_lanes(itemsize), 5, apart=True)
    def join(v: Vector, x, x_row, y, count, planes):
        x, y = v.pointer(x), v.pointer(y)

        def emit(number: int) -> None:
            with v.loop(0, count, v.lanes) as turn:
                at = v.builder.mul(turn.index, v.word(v.itemsize))
                target = v.at(y, v.builder.mul(at, v.word(number)))
                rows = [v.at(x, v.builder.mul(x_row, v.word(p))) for p in range(number)]
                planes_ = [v.load(v.at(row, at)) for row in rows]
                for k in range(number):
                    items = range(k * v.lanes, (k + 1) * v.lanes)
                    order = [e % number * v.lanes + e // number for e in items]
                    _shuffled(v, planes_, order).store(target, k * v.nbytes)

        _for_each(v, planes, emit)

    return join


def _for_each(v: Vector, planes: Any, emit: Callable[[int], None]) -> None:
    """Emit a switch over the number of planes, with code for each of `PLANES`."""
    out = v.builder.append_basic_block("out")
    switch = v.builder.switch(planes, out)
    for number in PLANES:
        switch.add_case(ir.Constant(I64, number), v.builder.append_basic_block(f"planes{number}"))
        v.builder.position_at_end(v.builder.function.blocks[-1])
        emit(number)
        v.builder.branch(out)
    v.builder.position_at_end(out)


def _shuffled(v: Vector, vectors: Sequence[Lanes], order: Sequence[int]) -> Lanes:
    """The vector whose lane i is item order[i] of the concatenated `vectors`."""
    parts = list(vectors)
    while len(parts) > 1:
        if len(parts) % 2:
            parts.append(parts[0].same(ir.Constant(parts[0].value.type, ir.Undefined)))
        twice = v.resized(2 * parts[0].v.lanes)
        parts = [
            shuffle_two(low, high, twice, range(twice.lanes))
            for low, high in zip(parts[::2], parts[1::2], strict=True)
        ]
    return shuffle(parts[0], v, order)
