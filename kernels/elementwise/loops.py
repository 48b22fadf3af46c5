"""The loop nest of an element-wise kernel, as vector IR.

The outer loops run over tiles, groups of rows that share the outer index, and rows.  Along a row,
the code takes several vectors at a time to hide latency, then single vectors, then a masked one.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nnefc.kernels.abi import BASE_LIBM
from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.elementwise.parameters import (
    IN_FLIGHT,
    MAX_PERIOD,
    OUTER,
    Access,
    AccessPattern,
    lanes,
    offsets,
)
from nnefc.kernels.vector.emit_expression import emit
from nnefc.kernels.vector.expression_argument import Expression
from nnefc.kernels.vector.item_types import BITS
from nnefc.kernels.vector.lane_builder import Loop
from nnefc.kernels.vector.lanes import Lanes, shuffle
from nnefc.kernels.vector.llvm_types import I8, I64, memory_type
from nnefc.kernels.vector.quick_halves import quick
from nnefc.kernels.vector.vector_builder import Vector
from nnefc.kernels.vector.vector_kernel import address, load_word


@dataclass(frozen=True, slots=True)
class _Row:
    """A row or a range of its columns."""

    inputs: list[Any]
    """Pointers to the item of the first column."""
    outputs: list[Any]
    count: Any
    """Number of columns."""
    fixed: dict[tuple[int, int], Lanes]
    """The vector of an input that is constant along the row, by (input, lanes)."""


class Loops:
    """Emits the kernel of `expression`, with parameters laid out by `parameters.layout`."""

    def __init__(self, builder: Any, expression: Expression, pattern: AccessPattern) -> None:
        self._builder = builder
        self._expression = expression
        self._pattern = pattern
        self._lanes = lanes(expression)
        self._quick = quick if pattern.quick else None
        self._types = expression.types
        self._inputs = len(expression.inputs)
        self._outputs = len(expression.results)
        self._at = offsets(self._inputs, self._outputs)
        self._names = [
            *(f"x{i}" for i in range(self._inputs)),
            *(f"y{i}" for i in range(self._outputs)),
        ]
        self._sizes = [
            BITS[d] // 8
            for d in (*expression.inputs, *(self._types[r] for r in expression.results))
        ]
        # Vectors of a group, which begins at a whole item of a stretched operand.
        self._group = pattern.factor // math.gcd(pattern.factor, self._lanes)
        self._in_flight = max(IN_FLIGHT // self._group, 1)
        self._v = self._vector(1)
        self._params: Any = None
        self._libm: Any = None
        self._period: Any = None
        self._tables: dict[int, Any] = {}

    def _vector(self, count: int) -> Vector:
        """Vectors of items of the first result, with `count` times the usual lanes."""
        first = self._types[self._expression.results[0]]
        return Vector(self._builder, first, self._lanes * count)

    def _parameter(self, name: str, word: int = 0) -> Any:
        offset = self._at[name] + 8 * word
        return load_word(self._builder, self._builder.add(self._params, I64(offset)))

    # -- from tiles to rows

    def emit(self, bases: Any, params: Any, first: Any, last: Any) -> None:
        """Emit the body of the kernel."""
        b, v = self._builder, self._v
        self._params = params
        pointers = [
            v.pointer(address(b, bases, b.add(params, I64(self._at[name])))) for name in self._names
        ]
        if self._expression.calls_library:
            self._libm = load_word(b, b.add(bases, I64(8 * BASE_LIBM)))
        if Access.PERIODIC in self._pattern.access:
            self._period = self._parameter("period")
        for i, access in enumerate(self._pattern.access):
            if access is Access.PERIODIC:
                items = MAX_PERIOD + IN_FLIGHT * self._lanes
                with b.goto_entry_block():
                    memory = b.alloca(ir.ArrayType(I8, items * self._sizes[i]))
                    memory.align = 64
                    self._tables[i] = v.pointer(b.ptrtoint(memory, I64))
        rows, columns = self._parameter("rows"), self._parameter("columns")
        tile_rows, tile_columns = self._parameter("tile_rows"), self._parameter("tile_columns")
        column_tiles, middle = self._parameter("column_tiles"), self._parameter("middle")
        with v.loop(first, last, 1) as tile:
            above = b.sdiv(tile.index, column_tiles)
            row = b.mul(above, tile_rows)
            column = b.mul(b.sub(tile.index, b.mul(above, column_tiles)), tile_columns)
            end = self._smaller(b.add(row, tile_rows), rows)
            count = self._smaller(b.sub(columns, column), tile_columns)
            last_group = b.sdiv(b.add(end, b.sub(middle, I64(1))), middle)
            with v.loop(b.sdiv(row, middle), last_group, 1) as group:
                begin = b.mul(group.index, middle)
                low = b.select(b.icmp_signed("<", begin, row), row, begin)
                high = self._smaller(b.add(begin, middle), end)
                starts = self._starts(pointers, group.index, b.sub(low, begin), column)
                steps = [self._parameter(f"strides_{name}", OUTER) for name in self._names]
                with v.loop(low, high, 1, starts) as line:
                    self._row(line.values, count, column)
                    line.next = [v.at(p, step) for p, step in zip(line.values, steps)]
        if self._pattern.stream:
            # Only a fence orders stores past the caches.
            b.fence("seq_cst")

    def _smaller(self, x: Any, y: Any) -> Any:
        return self._builder.select(self._builder.icmp_signed("<", x, y), x, y)

    def _starts(self, pointers: list[Any], group: Any, line: Any, column: Any) -> list[Any]:
        """Pointers to the items of column `column` in row `line` of outer index `group`."""
        b, v = self._builder, self._v
        strides = [I64(self._at[f"strides_{name}"]) for name in self._names]
        offsets = [b.mul(line, self._parameter(f"strides_{name}", OUTER)) for name in self._names]
        with v.loop(0, self._parameter("outer"), 1, [group, *offsets]) as d:
            index, *offsets = d.values
            word = b.add(self._params, b.mul(d.index, I64(8)))
            extent = load_word(b, b.add(word, I64(self._at["extents"])))
            above = b.sdiv(index, extent)
            place = b.sub(index, b.mul(above, extent))
            d.next = [
                above,
                *(
                    b.add(offset, b.mul(place, load_word(b, b.add(word, stride))))
                    for offset, stride in zip(offsets, strides)
                ),
            ]
        offsets = d.values[1:]
        for i, size in enumerate(self._sizes):
            access = self._pattern.access[i] if i < self._inputs else Access.CONTIGUOUS
            if access is Access.CONTIGUOUS:
                offsets[i] = b.add(offsets[i], b.mul(column, I64(size)))
            elif access is Access.STRETCHED:
                item = b.sdiv(column, I64(self._pattern.factor))
                offsets[i] = b.add(offsets[i], b.mul(item, I64(size)))
        return [v.at(p, offset) for p, offset in zip(pointers, offsets)]

    # -- along a row

    def _row(self, pointers: list[Any], count: Any, column: Any) -> None:
        """Compute `count` columns; the pointers point to the first one, number `column`."""
        b, v, inputs = self._builder, self._v, pointers[: self._inputs]
        row = _Row(inputs, pointers[self._inputs :], count, self._fixed(inputs))
        phase = []
        if self._period is not None:
            self._fill_tables(inputs)
            phase = [b.srem(column, self._period)]
        begin = v.word(0)
        if self._pattern.stream:
            begin = self._head(row)
        carried = Loop(begin, phase)
        for step in sorted({self._in_flight, 1}, reverse=True):
            carried = self._whole_vectors(row, carried, step)
        with v.loop(carried.index, count, self._group * self._lanes, carried.values) as turn:
            self._group_of_vectors(row, turn, self._vector(1), masked=True)

    def _whole_vectors(self, row: _Row, start: Loop, step: int) -> Loop:
        """Compute all whole groups of vectors of `step` * lanes; returns the loop after them."""
        b, vector = self._builder, self._vector(step)
        width = self._group * vector.lanes
        left = b.sub(row.count, start.index)
        stop = b.add(start.index, b.sub(left, b.srem(left, I64(width))))
        with vector.loop(start.index, stop, width, start.values) as turn:
            self._group_of_vectors(row, turn, vector)
        return Loop(stop, turn.values)

    def _head(self, row: _Row) -> Any:
        """Compute the columns before the first vector-aligned one; returns their number."""
        b, v, size = self._builder, self._v, self._sizes[-1]
        address = b.ptrtoint(row.outputs[0], I64)
        behind = b.and_(b.neg(address), I64(self._lanes * size - 1))
        head = self._smaller(b.sdiv(behind, I64(size)), row.count)
        with v.loop(0, head, self._lanes) as turn:
            self._group_of_vectors(replace(row, count=head), turn, v, masked=True)
        return head

    def _group_of_vectors(
        self, row: _Row, turn: Loop, vector: Vector, masked: bool = False
    ) -> None:
        """Emit one iteration of a loop along a row; advances the phase."""
        b = self._builder
        columns = [b.add(turn.index, I64(j * vector.lanes)) for j in range(self._group)]
        masks: list[Any] = [None] * self._group
        if masked:
            masks = [vector.wide_mask(b.sub(row.count, column)) for column in columns]
        phases, turn.next = self._phases(turn.values, vector)
        operands = [
            self._operands(row, i, vector, columns, masks, phases) for i in range(self._inputs)
        ]
        for j, (column, mask) in enumerate(zip(columns, masks)):
            given = [vectors[j] for vectors in operands]
            results = emit(vector, self._expression, given, self._libm, self._quick)
            for result, pointer in zip(results, row.outputs):
                size = BITS[result.dtype] // 8
                offset = b.mul(column, I64(size))
                stream = self._lanes * size if self._pattern.stream and not masked else 0
                place = vector.at(pointer, offset)
                if stream:
                    result.stream(place, align=stream)
                else:
                    result.store(place, mask=mask)

    def _operands(
        self,
        row: _Row,
        i: int,
        vector: Vector,
        columns: Sequence[Any],
        masks: Sequence[Any],
        phases: Sequence[Any],
    ) -> list[Lanes]:
        """The vectors of input `i` for a group."""
        b, dtype, size = self._builder, self._expression.inputs[i], I64(self._sizes[i])
        match self._pattern.access[i]:
            case Access.REPEATED | Access.BLOCK:
                return [row.fixed[i, vector.lanes]] * self._group
            case Access.PERIODIC:
                table = self._tables[i]
                places = [vector.at(table, b.mul(phase, size)) for phase in phases]
                return [vector.of(dtype).load(place) for place in places]
            case Access.STRETCHED:
                return self._stretched(row, i, vector, columns[0], masks[0] is not None)
            case Access.CONTIGUOUS:
                places = [vector.at(row.inputs[i], b.mul(c, size)) for c in columns]
                return [
                    vector.of(dtype).load(place, mask=mask) for place, mask in zip(places, masks)
                ]

    def _stretched(
        self, row: _Row, i: int, vector: Vector, column: Any, masked: bool
    ) -> list[Lanes]:
        """The vectors of a `STRETCHED` input, which repeat each item `factor` times."""
        b, factor, dtype = self._builder, self._pattern.factor, self._expression.inputs[i]
        items = self._group * vector.lanes // factor
        few = Vector(b, dtype, items)
        at = few.at(row.inputs[i], b.mul(b.sdiv(column, I64(factor)), I64(self._sizes[i])))
        mask = None
        if masked:
            left = b.sub(row.count, column)
            mask = few.wide_mask(b.sdiv(b.add(left, I64(factor - 1)), I64(factor)))
        if items == 1:
            return [vector.of(dtype).load_splat(at)] * self._group
        loaded = few.load(at, mask=mask)
        return [
            shuffle(loaded, vector, [(j * vector.lanes + k) // factor for k in range(vector.lanes)])
            for j in range(self._group)
        ]

    def _fixed(self, inputs: list[Any]) -> dict[tuple[int, int], Lanes]:
        """The vectors of inputs that are constant along a row."""
        found: dict[tuple[int, int], Lanes] = {}
        for i, access in enumerate(self._pattern.access):
            dtype = self._expression.inputs[i]
            if access is Access.REPEATED:
                one = self._v.of(dtype).load_splat(inputs[i])
            elif access is Access.BLOCK:
                one = self._v.of(dtype).load(inputs[i])
            else:
                continue
            found[i, self._lanes] = one
            wide = self._vector(self._in_flight)
            order = [k % self._lanes for k in range(wide.lanes)]
            found[i, wide.lanes] = shuffle(one, wide, order)
        return found

    # -- periodic operands

    def _fill_tables(self, inputs: list[Any]) -> None:
        """Copy each periodic operand repeatedly, so that a vector can start at any item."""
        b, v = self._builder, self._v
        for i, table in self._tables.items():
            kind, size = memory_type(self._expression.inputs[i]), I64(self._sizes[i])
            with v.loop(0, b.add(self._period, I64(IN_FLIGHT * self._lanes)), 1, [I64(0)]) as k:
                (item,) = k.values
                source = v.at(inputs[i], b.mul(item, size))
                b.store(b.load(source, typ=kind), v.at(table, b.mul(k.index, size)))
                k.next = [self._advance(item, I64(1))]

    def _advance(self, phase: Any, step: Any) -> Any:
        """(phase + step) modulo the period, for a phase and a step below the period."""
        b = self._builder
        moved = b.add(phase, step)
        return b.select(b.icmp_signed(">=", moved, self._period), b.sub(moved, self._period), moved)

    def _phases(self, values: list[Any], vector: Vector) -> tuple[list[Any], list[Any]]:
        """The phase of each vector of a group, and the phase of the next group."""
        if not values:
            return [None] * self._group, []
        step = self._builder.srem(I64(vector.lanes), self._period)
        phases = list(values)
        for _ in range(self._group):
            phases.append(self._advance(phases[-1], step))
        return phases[:-1], phases[-1:]
