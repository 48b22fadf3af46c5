"""The loops of `nnefc.kernels.reduce.mean_variance` over rows.

Up to `BLOCK` items of a lane are summed in the item type, and these sums in float64.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnefc.kernels.reduce.mean_variance_formula import Group, Normalisation, Terms, splat_lane
from nnefc.kernels.reduce.mean_variance_parameters import IN_FLIGHT
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.lane_builder import LaneBuilder
from nnefc.kernels.vector.lanes import Lanes, select, shuffle
from nnefc.kernels.vector.llvm_types import I64
from nnefc.kernels.vector.rows import along
from nnefc.kernels.vector.vector_builder import Vector

BLOCK = 64


class Rows(Normalisation):
    """Rows of contiguous items: several vectors at a time, then single ones, then a masked one.

    A value per row is a vector of one lane.
    """

    def _unit(self, number: Any, pointers: list[Any]) -> None:
        self._normalise(Group(self._v, self._places("kept", number, pointers)))

    def _first(self, group: Group) -> Lanes:
        return self._single.load_splat(group.starts[0])

    def _spread(self, x: Lanes, v: LaneBuilder) -> Lanes:
        return splat_lane(convert(x, self._item), v)

    def _sums(self, group: Group, terms: Terms, count: int) -> list[Lanes]:
        b, v, width = self._b, self._sum, self._word("width")
        size = BLOCK * IN_FLIGHT * v.lanes
        with v.loop(0, self._word("volume"), 1, [v.of("float64").zero()] * count) as part:
            places = self._places("reduced", part.index, group.starts[:1])
            with v.loop(0, width, size, part.values) as block:
                (start,) = self._along(places, block.index)
                items = self._smaller(b.sub(width, block.index), I64(size))
                block.next = self._added(block.values, self._block(start, items, terms, count))
            part.next = block.values
        totals = [value.total() for value in part.values]
        return [self._single.of("float64").splat(total) for total in totals]

    def _block(self, start: Any, count: Any, terms: Terms, sums: int) -> list[Lanes]:
        """`sums` vectors whose lanes are partial sums over `count` items.

        The order of the terms is the same on all machines: items are added to `IN_FLIGHT` of the
        longest vectors, as many at a time as there are registers for.
        """
        b, v, wide = self._b, self._sum, self._wide

        def added(v: Vector, place: Any, mask: Lanes | None, held: list[Lanes]) -> list[Lanes]:
            after = terms(v.load(place, mask=mask), held)
            if mask is not None:
                after = [select(mask, x, y) for x, y in zip(after, held, strict=True)]
            return after

        step = IN_FLIGHT * v.lanes
        whole = b.and_(count, I64(-step))
        pieces: list[list[Lanes]] = [[] for _ in range(sums)]
        for first in range(0, step, wide.lanes):
            with v.loop(0, whole, step, [wide.zero()] * sums) as turn:
                (place,) = self._along([start], b.add(turn.index, I64(first)))
                turn.next = added(wide, place, None, turn.values)
            for of_sum, value in zip(pieces, turn.values, strict=True):
                of_sum += _pieces(value, v)
        tail = self._along([start], whole)

        def body(index: Any, mask: Lanes | None, held: list[Lanes]) -> list[Lanes]:
            return added(v, self._along(tail, index)[0], mask, held)

        return along(v, b.sub(count, whole), [_total(of_sum) for of_sum in pieces], body)

    def _each(self, group: Group, result: Callable[[Lanes], Lanes]) -> None:
        b, v, wide, width = self._b, self._v, self._wide, self._word("width")
        whole = b.and_(width, I64(-wide.lanes))
        with v.loop(0, self._word("volume"), 1) as part:
            places = self._places("reduced", part.index, group.starts)
            with v.loop(0, whole, wide.lanes) as turn:
                self._write(wide, self._along(places, turn.index), None, result)
            tail = self._along(places, whole)

            def body(index: Any, mask: Any, _: Any) -> list[Any]:
                self._write(v, self._along(tail, index), mask, result)
                return []

            along(v, b.sub(width, whole), [], body)


class Columns(Normalisation):
    """Rows that lie across the innermost dimension: several vectors of them, then single ones.

    A value per row is a lane of a vector, one for each column.
    """

    def _unit(self, number: Any, pointers: list[Any]) -> None:
        b, v, wide = self._b, self._v, self._wide
        chunk, chunks = self._word("chunk"), self._word("chunks")
        above = b.sdiv(number, chunks)
        begin = b.mul(b.sub(number, b.mul(above, chunks)), chunk)
        end = self._smaller(b.add(begin, chunk), self._word("width"))
        starts = self._places("kept", above, pointers)
        whole = b.add(begin, b.and_(b.sub(end, begin), I64(-wide.lanes)))
        with v.loop(begin, whole, wide.lanes) as turn:
            self._normalise(Group(wide, self._along(starts, turn.index)))
        with v.loop(whole, end, v.lanes) as turn:
            mask = v.wide_mask(b.sub(end, turn.index))
            self._normalise(Group(v, self._along(starts, turn.index), mask))

    def _first(self, group: Group) -> Lanes:
        return group.v.load(group.starts[0], mask=group.mask)

    def _spread(self, x: Lanes, v: LaneBuilder) -> Lanes:
        return convert(x, self._item)

    def _sums(self, group: Group, terms: Terms, count: int) -> list[Lanes]:
        b, v = self._b, group.v
        depth = self._word("depth")
        with v.loop(0, self._word("volume"), 1, [v.of("float64").zero()] * count) as part:
            (start,) = self._places("reduced", part.index, group.starts[:1])
            with v.loop(0, depth, BLOCK, part.values) as block:
                stop = self._smaller(b.add(block.index, I64(BLOCK)), depth)
                found = self._block(group, start, (block.index, stop), terms, count)
                block.next = self._added(block.values, found)
            part.next = block.values
        return part.values

    def _block(
        self, group: Group, start: Any, steps: tuple[Any, Any], terms: Terms, count: int
    ) -> list[Lanes]:
        """Sums over a range of steps of the depth; single vectors take several steps at a time."""
        b, v, pitch = self._b, group.v, self._word("depth_x")
        first, stop = steps
        turns = self._wide.lanes // v.lanes
        whole = b.sub(stop, b.srem(b.sub(stop, first), I64(turns)))
        held = [[v.zero()] * count] * turns
        parts = [(first, whole, turns), (whole, stop, 1)] if turns > 1 else [(first, stop, 1)]
        for begin, end, at_once in parts:
            with v.loop(begin, end, at_once, [x for sums in held for x in sums]) as step:
                given = [step.values[i : i + count] for i in range(0, count * turns, count)]
                for i in range(at_once):
                    place = v.at(start, b.mul(b.add(step.index, I64(i)), pitch))
                    given[i] = terms(v.load(place, mask=group.mask), given[i])
                step.next = [x for sums in given for x in sums]
            held = [step.values[i : i + count] for i in range(0, count * turns, count)]
        return [_total(list(sums)) for sums in zip(*held)]

    def _each(self, group: Group, result: Callable[[Lanes], Lanes]) -> None:
        b, v = self._b, group.v
        pitches = [self._word(f"depth_{name}") for name in self._names]
        with v.loop(0, self._word("volume"), 1) as part:
            starts = self._places("reduced", part.index, group.starts)
            with v.loop(0, self._word("depth"), 1) as step:
                places = [
                    v.at(start, b.mul(step.index, pitch))
                    for start, pitch in zip(starts, pitches, strict=True)
                ]
                self._write(v, places, group.mask, result)


def _pieces(x: Lanes, v: Vector) -> list[Lanes]:
    """The pieces of x that are as long as v."""
    return [shuffle(x, v, range(i, i + v.lanes)) for i in range(0, x.v.lanes, v.lanes)]


def _total(parts: list[Lanes]) -> Lanes:
    while len(parts) > 1:
        parts = [y + z for y, z in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]
