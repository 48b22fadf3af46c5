"""Lowering of element-wise operations, one by one or fused into an expression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nnefc.ir import Expression, Op, Shape, Step, Value
from nnefc.kernels import elementwise, scalar
from nnefc.kernels.elementwise import CONTIGUOUS, OUTER, REPEATED
from nnefc.kernels.team_state import MAX_TILES
from nnefc.kernels.template import Kernel
from nnefc.lower.context import Lowering, lowering
from nnefc.runtime.program import Ref

TILE_BYTES = 64 << 10
"""What a tile writes, at least: some microseconds of work, and it stays in the L2 cache."""


@lowering("fused")
def fused(lower: Lowering, op: Op) -> None:
    """An `ir.Expression` over broadcast operands."""
    launch(lower, op.attributes["expression"], op.inputs, op.outputs)


@lowering(*scalar.operations())
def single(lower: Lowering, op: Op) -> None:
    """One element-wise operation is an expression of one step."""
    step = Step(op.name, tuple(range(len(op.inputs))), op.output.type.dtype)
    types = tuple(v.type.dtype for v in op.inputs)
    launch(lower, Expression(types, (step,), (len(types),)), op.inputs, op.outputs)


def launch(
    lower: Lowering, expression: Expression, inputs: Sequence[Value], outputs: Sequence[Value]
) -> None:
    """Compute `expression` for every item of `outputs`, which are of one shape."""
    expression, kept = _literals(lower, expression, inputs)
    shape = outputs[0].type.dims
    dims, strides = iteration_space([v.type.dims for v in kept], shape)
    itemsizes = [v.type.dtype.itemsize for v in kept]
    access = tuple(CONTIGUOUS if s[-1] else REPEATED for s in strides)
    kernel = Kernel(
        "elementwise.expression",
        (
            tuple(t.value for t in expression.inputs),
            access,
            tuple((s.op, s.operands, s.dtype.value, s.value) for s in expression.steps),
            expression.results,
        ),
    )
    *outer, middle, columns = dims
    rows = math.prod(outer) * middle
    widest = max([*itemsizes, *(v.type.dtype.itemsize for v in outputs)])
    tile_rows, tile_columns = _tile(rows, columns, max(TILE_BYTES // widest, 1))
    column_tiles = -(-columns // tile_columns)
    references = {f"x{i}": lower.read(v) for i, v in enumerate(kept)}
    same = tuple(
        references[f"x{i}"]
        for i, v in enumerate(kept)
        if len(outputs) == 1 and v.type.nbytes == outputs[0].type.nbytes and v.type.dims == shape
    )
    references |= {f"y{i}": lower.write(v) for i, v in enumerate(outputs)}
    words = elementwise.layout(len(kept), len(outputs)).pack(
        **references,
        rows=rows,
        columns=columns,
        tile_rows=tile_rows,
        tile_columns=tile_columns,
        column_tiles=column_tiles,
        middle=middle,
        outer=len(outer),
        extents=outer[::-1],
        **{
            f"strides{i}": [
                *[s * size for s in reversed(steps[:-2])],
                *[0] * (OUTER - len(outer)),
                steps[-2] * size,
            ]
            for i, (steps, size) in enumerate(zip(strides, itemsizes))
        },
    )
    lower.launch(kernel, words, -(-rows // tile_rows) * column_tiles, in_place=same)


def _literals(
    lower: Lowering, expression: Expression, inputs: Sequence[Value]
) -> tuple[Expression, list[Value]]:
    """The expression with inputs that are one known item, perhaps repeated, made literals."""
    known = {i: item for i, value in enumerate(inputs) if (item := lower.scalar(value)) is not None}
    kept = [i for i in range(len(inputs)) if i not in known]
    place = {old: new for new, old in enumerate(kept)}
    place |= {old: len(kept) + new for new, old in enumerate(known)}
    literals = [Step("literal", (), expression.inputs[i], item) for i, item in known.items()]
    first = len(inputs)
    place |= {first + i: first + i for i in range(len(expression.steps))}
    steps = [
        replace(step, operands=tuple(place[o] for o in step.operands)) for step in expression.steps
    ]
    return (
        Expression(
            tuple(expression.inputs[i] for i in kept),
            (*literals, *steps),
            tuple(place[r] for r in expression.results),
        ),
        [inputs[i] for i in kept],
    )


def iteration_space(
    inputs: Sequence[Shape], output: Shape
) -> tuple[list[int], list[tuple[int, ...]]]:
    """(extents, strides of each input in items): the loops that compute `output`.

    Inputs are dense and broadcast as NNEF does: aligned at dimension 0, singular extents repeat.
    Singular dimensions of the output are left out, and neighbours joined where every input
    allows it; there are at least two dimensions.
    """
    padded = [shape + (1,) * (len(output) - len(shape)) for shape in inputs]
    dims: list[int] = [1, 1]
    repeats: list[tuple[bool, ...]] = [(), ()]
    for axis, extent in enumerate(output):
        if extent == 1:
            continue
        repeated = tuple(shape[axis] == 1 for shape in padded)
        if repeats[-1] == repeated and dims[-1] > 1:
            dims[-1] *= extent
        else:
            dims.append(extent)
            repeats.append(repeated)
    dims = dims[2:] if len(dims) >= 4 else dims[-2:]
    repeats = repeats[2:] if len(repeats) >= 4 else repeats[-2:]
    strides: list[tuple[int, ...]] = []
    for i in range(len(inputs)):
        steps: list[int] = []
        step = 1
        for extent, repeated in zip(reversed(dims), reversed(repeats)):
            # An extent of 1 that only fills up to two dimensions is repeated by nobody.
            if repeated and repeated[i]:
                steps.append(0)
            else:
                steps.append(step)
                step *= extent
        strides.append(tuple(reversed(steps)))
    return dims, strides


def _tile(rows: int, columns: int, items: int) -> tuple[int, int]:
    """(rows, columns) of a tile of about `items` items, not more tiles than there may be."""
    items = max(items, -(-rows * columns // (MAX_TILES // 2)))
    if columns >= 2 * items:
        parts = columns // items
        return 1, -(-columns // parts)
    return min(max(items // columns, 1), rows), columns


def copy_bytes(lower: Lowering, x: Ref, y: Ref, nbytes: int, label: str = "") -> None:
    """Copy memory as it is."""
    tile = max(TILE_BYTES, -(-nbytes // MAX_TILES))
    words = elementwise.COPY.pack(x=x, y=y, nbytes=nbytes, tile=tile)
    lower.launch(Kernel("elementwise.copy"), words, -(-nbytes // tile), label)
