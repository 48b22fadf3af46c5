"""The transforms of Winograd's convolution, one dimension at a time.

Every number of outputs along a dimension has straight-line code, so that the height and width of a
tile may differ.  A dimension in which the filter has one tap is not transformed.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.convolution.winograd_matrices import (
    input_matrix,
    inverse_and_shift,
    output_matrix,
    points,
    whole_input_matrix,
    whole_output_matrix,
)
from nnefc.kernels.convolution.winograd_results import OutputResults, output_results
from nnefc.kernels.tile.code_results import Ending
from nnefc.kernels.tile.real_form import RealForm
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.item_types import FLOATS, ITEMSIZE, NUMBER_BYTES, check_accumulator
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import fma
from nnefc.kernels.vector.llvm_types import I32, I64
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic

Taps = tuple[int, int]
"""Rows and columns of the filter."""
ROWS, COLUMNS = 0, 1
AHEAD: Final = 4
"""Prefetch distance in tiles; hardware prefetchers do not follow rows of a tile."""
AnyEnding = Ending | RealForm | None
"""What is done with outputs, see `output_tiles`."""
WHOLE: Final = "int16"
"""The type of elements of codes, whose products are summed as int32."""


def sum_type(element: str) -> str:
    """The type of sums of products of elements: their own for floats."""
    return "int32" if element == WHOLE else element


def block_lanes(element: str) -> int:
    """Elements of a channel block."""
    return lanes_of(sum_type(element))


@dataclass(frozen=True, slots=True)
class _Grid:
    """A grid of vectors in memory: its start, and the bytes between rows and between columns."""

    vectors: Vector
    start: Any
    down: Any
    right: Any
    ahead: Any = None
    """Prefetch distance in bytes, or None."""

    def pitches(self, axis: int) -> tuple[Any, Any]:
        """The byte strides along `axis` and along the other axis."""
        return (self.down, self.right) if axis == ROWS else (self.right, self.down)


@cache
def input_tiles(item: str, element: str, taps: Taps, largest: int, dilated: bool) -> Any:
    """Intrinsic that transforms input tiles of one size and channel block to elements.

    Tiles have up to `largest` outputs along each dimension.  `item`: type of x; `element`: type of
    the elements, a float, or `WHOLE` for codes.  If not `dilated`, columns are adjacent, which
    saves instructions.

    `input_tiles(rows, columns, count, offsets, x, x_row, x_column, v, v_row, v_column)`: rows and
    columns of outputs; offsets: int32 [count], from x to the first pixel that each tile reads;
    x_row, x_column: bytes between rows and columns of pixels; v: the first element of the first
    tile, with the bytes between elements.
    """
    assert element in (*FLOATS, WHOLE), "the matrices have fractions"

    @vector_intrinsic(element, block_lanes(element), 10, apart=True)
    def input_tiles(
        v: Vector, rows, columns, count, offsets, x, x_row, x_column, elements, v_row, v_column
    ):
        items = v.of(item)
        x_column = x_column if dilated else v.word(items.nbytes)
        with v.loop(0, count, 1) as tile:
            pixel = _moved(v, x, offsets, tile.index)
            source = _Grid(items, pixel, x_row, x_column, _ahead(v, columns, x_column))
            place = v.at(v.pointer(elements), v.builder.mul(tile.index, v.word(v.nbytes)))
            target = _Grid(v, place, v_row, v_column)
            _transform_tile(v, taps, largest, (rows, columns), source, target, _forward)

    return input_tiles


@cache
def output_tiles(element: str, taps: Taps, largest: int, dilated: bool, ending: AnyEnding) -> Any:
    """Intrinsic that transforms elements of tiles of one size to outputs of one channel block.

    `ending`: of sums of elements `WHOLE`, which are requantized, or the form of sums of floats of
    at most `NUMBER_BYTES`; None: `element` is the type of all tensors.  `dilated`: as in
    `input_tiles`.

    `output_tiles(rows, columns, count, m, m_row, m_column, offsets, y, y_row, y_column,
    other_offsets, other, other_row, other_column, bias, bounds)`: as in `input_tiles`.  The vector
    at `bias` and the vectors of `other` are added; results are clamped between the two numbers at
    `bounds`.  For codes, `bias` is a record of `CodeResults`, and `bounds` are its bounds.
    """
    codes = isinstance(ending, Ending)
    assert element in FLOATS or (codes and element == WHOLE), "the matrices have fractions"
    check_accumulator(sum_type(element), NUMBER_BYTES)
    form = RealForm(residual=element) if ending is None else ending
    result = form.result or element
    adjacent = not dilated and taps[1] > 1
    has_other = form.residual != ""

    @vector_intrinsic(sum_type(element), block_lanes(element), 16, apart=True)
    def output_tiles(
        v: Vector,
        rows,
        columns,
        count,
        elements,
        m_row,
        m_column,
        offsets,
        y,
        y_row,
        y_column,
        other_offsets,
        other,
        other_row,
        other_column,
        bias,
        bounds,
    ):
        y_column = y_column if dilated else v.word(v.lanes * ITEMSIZE[result])
        division = inverse_and_shift(largest, taps) if codes else (1, 0)
        given = v.pointer(bias), v.pointer(bounds)
        results = output_results(v, *given, form, division, adjacent=adjacent)
        with v.loop(0, count, 1) as tile:
            place = v.at(v.pointer(elements), v.builder.mul(tile.index, v.word(v.nbytes)))
            source = _Grid(v, place, m_row, m_column)
            pixel = _moved(v, y, offsets, tile.index)
            target = _Grid(v, pixel, y_row, y_column, _ahead(v, columns, y_column))
            added = None
            if has_other:
                at = _moved(v, other, other_offsets, tile.index)
                added = _Grid(v, at, other_row, other_column, _ahead(v, columns, other_column))
            last = _Finish(results, added)
            _transform_tile(v, taps, largest, (rows, columns), source, target, _backward, last)

    return output_tiles


_Compute = Callable[[Vector, int, int, int, Sequence[Any]], list[Any]]
"""`compute(v, outputs, taps, largest, xs)`: the transform of a line of vectors."""


@dataclass(frozen=True, slots=True)
class _Finish:
    """Where outputs go, and their residuals, if there are any."""

    results: OutputResults
    other: _Grid | None


def _transform_tile(
    v: Vector,
    taps: Taps,
    largest: int,
    outputs: tuple[Any, Any],
    source: _Grid,
    target: _Grid,
    compute: _Compute,
    finish: _Finish | None = None,
) -> None:
    """Transform a tile of `outputs` rows and columns, along rows first."""
    rows, columns = outputs
    if taps[1] == 1:
        _transform(v, ROWS, taps, largest, rows, columns, source, target, compute, finish)
    elif taps[0] == 1:
        _transform(v, COLUMNS, taps, largest, columns, rows, source, target, compute, finish)
    else:
        between = _local(v, taps, largest)
        read = _plus(v, columns, taps[1] - 1)
        left = _plus(v, rows, taps[0] - 1) if compute is _forward else rows
        _transform(v, ROWS, taps, largest, rows, read, source, between, compute)
        _transform(v, COLUMNS, taps, largest, columns, left, between, target, compute, finish)


def _transform(
    v: Vector,
    axis: int,
    taps: Taps,
    largest: int,
    outputs: Any,
    lines: Any,
    source: _Grid,
    target: _Grid,
    compute: _Compute,
    finish: _Finish | None = None,
) -> None:
    """Transform `lines` lines of vectors along `axis`, with code for each number of outputs."""
    builder = v.builder
    out = builder.append_basic_block("out")
    switch = builder.switch(outputs, out)
    taken = taps[axis]
    for size in range(1, largest + 1):
        block = builder.append_basic_block(f"outputs{size}")
        switch.add_case(ir.Constant(I64, size), block)
        builder.position_at_end(block)
        grids = [source, target, *([finish.other] if finish and finish.other else [])]
        with v.loop(0, lines, 1, [grid.start for grid in grids]) as line:
            steps = [grid.pitches(axis)[0] for grid in grids]
            read = points(size, taken)
            written = read if compute is _forward else size
            places = [
                [_item(v, start, step, i) for i in range(n)]
                for start, step, n in zip(line.values, steps, (read, written, size))
            ]
            for grid, at in zip(grids, places, strict=True):
                if grid.ahead is not None:
                    _fetch(v, at, grid.ahead)
            xs = [convert(source.vectors.load(at), v.dtype) for at in places[0]]
            results = compute(v, size, taken, largest, xs)
            if finish:
                finish.results.store(results, places[1], places[2] if finish.other else [])
            else:
                for value, place in zip(results, places[1], strict=True):
                    value.store(place)
            line.next = [
                v.at(p, grid.pitches(axis)[1]) for p, grid in zip(line.values, grids, strict=True)
            ]
        builder.branch(out)
    builder.position_at_end(out)


def _item(v: Vector, pointer: Any, step: Any, index: int) -> Any:
    return v.at(pointer, v.builder.mul(step, v.word(index))) if index else pointer


def _ahead(v: Vector, columns: Any, column: Any) -> Any:
    """Bytes from a tile to the tile `AHEAD` columns to the right; `column`: between columns."""
    return v.builder.mul(columns, v.builder.mul(column, v.word(AHEAD)))


def _fetch(v: Vector, places: Sequence[Any], ahead: Any) -> None:
    """Prefetch the lines `ahead` of `places` into the L2 cache.

    Lines to be written are prefetched for reading too, because the hint for writing helps less.
    """
    for at in places:
        v.prefetch(at, ahead)


def _plus(v: Vector, value: Any, more: int) -> Any:
    return v.builder.add(value, v.word(more))


def _moved(v: Vector, base: Any, offsets: Any, index: Any) -> Any:
    """`base` advanced by entry `index` of the int32 table `offsets`, in bytes."""
    entry = v.at(v.pointer(offsets), v.builder.mul(index, v.word(4)))
    return v.at(v.pointer(base), v.builder.sext(v.builder.load(entry, typ=I32, align=4), I64))


def _local(v: Vector, taps: Taps, largest: int) -> _Grid:
    """Memory on the stack for a tile that is transformed along one dimension."""
    width = points(largest, max(taps))
    with v.builder.goto_entry_block():
        room = v.builder.alloca(ir.ArrayType(v.type, width * width))
        room.align = 64
    start = v.pointer(v.builder.ptrtoint(room, I64))
    return _Grid(v, start, v.word(width * v.nbytes), v.word(v.nbytes))


# -- along one dimension


def _forward(v: Vector, outputs: int, taps: int, largest: int, xs: Sequence[Any]) -> list[Any]:
    """The product B x.  Rows that differ only in the signs of some columns share two sums."""
    del largest
    matrix = (input_matrix if v.dtype in FLOATS else whole_input_matrix)(outputs, taps)
    results: list[Any] = [None] * len(matrix)
    for i, row in enumerate(matrix):
        if results[i] is not None:
            continue
        j = next((j for j in range(i + 1, len(matrix)) if _same_but_signs(row, matrix[j])), None)
        if j is None:
            results[i] = _sum(v, zip(row, xs))
            continue
        pairs = list(zip(row, matrix[j], xs))
        same = _sum(v, ((p, x) for p, q, x in pairs if p == q))
        opposite = _sum(v, ((p, x) for p, q, x in pairs if p != q))
        results[i] = same + opposite
        results[j] = same - opposite
    return results


def _backward(v: Vector, outputs: int, taps: int, largest: int, xs: Sequence[Any]) -> list[Any]:
    """The product A x.  Items whose columns differ only in signs are added and subtracted first."""
    matrix = output_matrix(outputs, taps)
    if v.dtype not in FLOATS:
        matrix = whole_output_matrix(outputs, taps, largest)
    columns = list(zip(*matrix))
    terms: list[list[tuple[Fraction, Any]]] = [[] for _ in matrix]
    rest = list(range(len(columns)))
    while rest:
        p = rest.pop(0)
        q = next((q for q in rest if _same_but_signs(columns[p], columns[q])), None)
        if q is None:
            for row, c in zip(terms, columns[p]):
                row.append((c, xs[p]))
            continue
        rest.remove(q)
        same, opposite = xs[p] + xs[q], xs[p] - xs[q]
        for row, c, d in zip(terms, columns[p], columns[q]):
            row.append((c, same if c == d else opposite))
    return [_sum(v, row) for row in terms]


def _same_but_signs(x: Sequence[Fraction], y: Sequence[Fraction]) -> bool:
    """Whether some items are equal, and all others opposite."""
    shared = [p == q for p, q in zip(x, y) if p or q]
    return all(abs(p) == abs(q) for p, q in zip(x, y)) and any(shared) and not all(shared)


def _sum(v: Vector, terms: Any) -> Any:
    """The sum of factor * value, by multiply-adds, or additions for factors of 1 and -1."""
    used = [(factor, value) for factor, value in terms if factor]
    used.sort(key=lambda term: (term[0] != 1, abs(term[0]) == 1))  # the cheapest first
    (factor, total), *rest = used
    if factor != 1:
        total = v.constant(float(factor)) * total
    for factor, value in rest:
        if factor == 1:
            total = total + value
        elif factor == -1:
            total = total - value
        else:
            total = fma(v.constant(float(factor)), value, total)
    return total
