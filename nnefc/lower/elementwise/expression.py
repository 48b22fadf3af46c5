"""Lowering of element-wise operations, single or fused into an expression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnefc.ir import DType, Expression, Op, Shape, Step, Value
from nnefc.ir.expression import expression_of
from nnefc.kernels.elementwise import map as elementwise
from nnefc.kernels.elementwise import parameters
from nnefc.kernels.elementwise.parameters import MAX_PERIOD, OUTER, Access, AccessPattern
from nnefc.kernels.executor.team_state import MAX_TILES
from nnefc.kernels.vector.instructions import INSTRUCTIONS
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.elementwise.canonical_operands import canonical_operands
from nnefc.lower.elementwise.kernel_expression import kernel_expression
from nnefc.lower.product.pack import Array
from nnefc.program.program import Ref
from nnefc.symbolic.integers import hint, is_symbolic, largest, smallest, statically_equal

TILE_BYTES = 64 << 10
"""Minimum bytes that a tile writes: some microseconds, and the result stays in the L2 cache."""
STREAM_BYTES = 6 << 20
"""Minimum size of results that bypass the caches, if half of the last cache is not larger."""
COLUMN_STEP = 256
"""Tiles narrower than a row have a multiple of this many columns: unrolled whole vectors."""


@dataclass(frozen=True, slots=True)
class Strided:
    """A tensor in memory, with its strides in the iteration space of a kernel."""

    ref: Ref
    dtype: DType
    strides: tuple[int, ...]
    """Strides along the dimensions of the iteration space, in items; 0 where it is broadcast.

    The last stride is 0 or 1.
    """


@lowering("fused", *INSTRUCTIONS)
def elementwise_operation(lower: Lowering, op: Op) -> None:
    """One element-wise operation, or an `ir.Expression`, over broadcast operands."""
    if op.name == "cast" and (known := _deferred_conversion(lower, op)) is not None:
        lower.set_data(op.output, known)
        return
    launch(lower, expression_of(op), op.inputs, op.outputs)


@lowering("fused_views")
def fused_views(lower: Lowering, op: Op) -> None:
    """An expression over strided views of tensors, into views of one tensor."""
    a, y = op.attributes, lower.write(op.output)

    def strided(at: Ref, value: Value, where: tuple[int, ...]) -> Strided:
        first, *along = where
        dtype, extents = value.type.dtype, a["extents"]
        steps = tuple(s if n > 1 else 0 for s, n in zip(along, extents, strict=True))
        return Strided(replace(at, offset=at.offset + first * dtype.itemsize), dtype, steps)

    inputs = [
        strided(lower.read(x), x, where) for x, where in zip(op.inputs, a["inputs"], strict=True)
    ]
    outputs = [strided(y, op.output, where) for where in a["outputs"]]
    launch_strided(lower, a["expression"], inputs, outputs, a["extents"])


def _deferred_conversion(lower: Lowering, op: Op) -> Array | None:
    """The unconverted items if `op` widens known floats, else None.

    Weights are converted while they are packed, so that only one form is in memory.
    """
    stored, dtype = lower.stored_data(op.inputs[0]), op.output.type.dtype
    wider = dtype.is_float and op.inputs[0].type.dtype.is_float
    if stored is None or not wider or stored.dtype.itemsize >= dtype.itemsize:
        return None
    return stored


def launch(
    lower: Lowering, expression: Expression, inputs: Sequence[Value], outputs: Sequence[Value]
) -> None:
    """Launch `expression` over all items of `outputs`, which have one shape."""
    expression, values = fold_literals(lower, expression, inputs)
    shape = outputs[0].type.dims
    sources = [Strided(lower.read(v), v.type.dtype, strides(v.type.dims, shape)) for v in values]
    result = outputs[0].type
    in_place = tuple(
        source.ref
        for source, v in zip(sources, values)
        if len(outputs) == 1
        and v.type.dtype.itemsize == result.dtype.itemsize
        and v.type.rank == result.rank
        and all(map(statically_equal, v.type.dims, shape))
    )
    targets = [Strided(lower.write(v), v.type.dtype, strides(shape, shape)) for v in outputs]
    launch_strided(lower, expression, sources, targets, shape, in_place=in_place)


def launch_strided(
    lower: Lowering,
    expression: Expression,
    inputs: Sequence[Strided],
    outputs: Sequence[Strided],
    shape: Shape,
    *,
    in_place: tuple[Ref, ...] = (),
) -> None:
    """Launch `expression` over an iteration space of any shape, for tensors of any strides."""
    expression, inputs = canonical_inputs(lower, expression, inputs, len(shape))
    operands = [*inputs, *outputs]
    dims, steps = coalesce(shape, [operand.strides for operand in operands])
    key = kernel_expression(expression)
    period = dims[-1]
    flat = flatten_rows(dims, steps, len(inputs), parameters.lanes(key))
    if flat is None:
        pattern = AccessPattern(
            tuple(Access.CONTIGUOUS if s[-1] else Access.REPEATED for s in steps[: len(inputs)])
        )
    else:
        pattern = flat
        dims = [1, *dims[:-2], dims[-2] * dims[-1]]
        steps = [(0, *s[:-2], 1) for s in steps]
    pattern = replace(
        pattern,
        stream=_bypasses_caches(pattern, outputs, math.prod(shape), in_place, lower.cache_bytes),
        quick=lower.halves is not None and any(s.dtype is lower.halves for s in expression.steps),
    )
    *outer, middle, columns = dims
    rows = math.prod(outer) * middle
    widest = max(operand.dtype.itemsize for operand in operands)
    tile_rows, tile_columns = tile_extents(
        rows, columns, max(TILE_BYTES // widest, 1), COLUMN_STEP * pattern.factor
    )
    column_tiles = -(-columns // tile_columns)
    names = [f"x{i}" for i in range(len(inputs))] + [f"y{i}" for i in range(len(outputs))]
    words = parameters.layout(len(inputs), len(outputs)).pack(
        **{name: operand.ref for name, operand in zip(names, operands)},
        rows=rows,
        columns=columns,
        tile_rows=tile_rows,
        tile_columns=tile_columns,
        column_tiles=column_tiles,
        middle=middle,
        outer=len(outer),
        period=period,
        extents=outer[::-1],
        **{
            f"strides_{name}": [
                *[s * operand.dtype.itemsize for s in reversed(along[:-2])],
                *[0] * (OUTER - len(outer)),
                along[-2] * operand.dtype.itemsize,
            ]
            for name, operand, along in zip(names, operands, steps)
        },
    )
    kernel = elementwise.expression(key, pattern)
    lower.launch(kernel, words, -(-rows // tile_rows) * column_tiles, in_place=in_place)


def canonical_inputs(
    lower: Lowering, expression: Expression, inputs: Sequence[Strided], rank: int, *, fixed: int = 0
) -> tuple[Expression, list[Strided]]:
    """`canonical_operands` for tensors in memory; a number is an operand without strides."""
    return canonical_operands(
        expression,
        inputs,
        lambda x: Strided(lower.table(x), DType(x.dtype.name), (0,) * rank),
        fixed=fixed,
        kind=lambda x: not any(x.strides),
    )


def fold_literals(
    lower: Lowering, expression: Expression, inputs: Sequence[Value]
) -> tuple[Expression, list[Value]]:
    """(expression, remaining inputs): inputs that are one known item, perhaps broadcast, become
    literals.
    """
    known = {i: item for i, value in enumerate(inputs) if (item := lower.scalar(value)) is not None}
    remaining = [i for i in range(len(inputs)) if i not in known]
    index = {old: new for new, old in enumerate(remaining)}
    index |= {old: len(remaining) + new for new, old in enumerate(known)}
    literals = [Step("literal", (), expression.inputs[i], item) for i, item in known.items()]
    first = len(inputs)
    index |= {first + i: first + i for i in range(len(expression.steps))}
    steps = [
        replace(step, operands=tuple(index[o] for o in step.operands)) for step in expression.steps
    ]
    return (
        Expression(
            tuple(expression.inputs[i] for i in remaining),
            (*literals, *steps),
            tuple(index[r] for r in expression.results),
        ),
        [inputs[i] for i in remaining],
    )


def strides(shape: Shape, space: Shape) -> tuple[int, ...]:
    """Strides of a dense tensor that is broadcast as in NNEF, aligned at dimension 0; in items."""
    steps: list[int] = []
    step = 1
    for extent in reversed(shape + (1,) * (len(space) - len(shape))):
        steps.append(step if extent > 1 else 0)
        step *= extent
    return tuple(reversed(steps))


def coalesce(
    shape: Shape, strides: Sequence[tuple[int, ...]]
) -> tuple[list[int], list[tuple[int, ...]]]:
    """(extents, strides) of the same iteration space in as few dimensions as possible.

    Drops dimensions of extent 1, and merges neighbours if all strides allow it.  Returns at least
    two dimensions.
    """
    dims: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        inner = [s[axis] for s in strides]
        if dims and all(
            statically_equal(along[-1], step * extent) for along, step in zip(steps, inner)
        ):
            dims[-1] *= extent
            for along, step in zip(steps, inner):
                along[-1] = step
            continue
        dims.append(extent)
        for along, step in zip(steps, inner):
            along.append(step)
    missing = max(2 - len(dims), 0)
    # Dimensions added for the minimum of two have extent 1; the last one must be contiguous.
    fill = ([0, 1] if missing == 2 else [0])[:missing]
    return [1] * missing + dims, [(*fill, *along) for along in steps]


def flatten_rows(
    dims: Sequence[int], strides: Sequence[tuple[int, ...]], inputs: int, lanes: int
) -> AccessPattern | None:
    """The access pattern with the two innermost dimensions as one row; None to keep both.

    Flattening pays if the innermost dimension is short, or if it is one vector that all rows share.
    A symbolic extent stays, since other values could need another kernel.
    """
    outer, inner = dims[-2:]
    if is_symbolic([inner]) or outer == 1 or inner > MAX_PERIOD:
        return None
    access: list[Access] = []
    for i, (*_, step, last) in enumerate(strides):
        if last == 1 and statically_equal(step, inner):
            access.append(Access.CONTIGUOUS)
        elif i >= inputs:
            return None
        elif last == 0 and step == 0:
            access.append(Access.REPEATED)
        elif last == 0 and step == 1:
            access.append(Access.STRETCHED)
        elif last == 1 and step == 0:
            access.append(Access.BLOCK if inner == lanes else Access.PERIODIC)
        else:
            return None
    factor = inner if Access.STRETCHED in access else 1
    if factor > 8 and factor != lanes:
        return None
    return AccessPattern(tuple(access[:inputs]), factor)


def _bypasses_caches(
    pattern: AccessPattern,
    outputs: Sequence[Strided],
    items: int,
    in_place: tuple[Ref, ...],
    cache_bytes: int,
) -> bool:
    """Whether results should bypass the caches: they are too large to stay there until read.

    Results that overwrite an operand in the arena are in the cache anyway.
    """
    nbytes = items * sum(output.dtype.itemsize for output in outputs)
    return (
        nbytes >= max(STREAM_BYTES, cache_bytes // 2)
        and len(outputs) == 1
        and set(pattern.access) <= {Access.CONTIGUOUS, Access.REPEATED}
        and all(ref.buffer.space != "arena" for ref in in_place)
    )


def tile_extents(rows: int, columns: int, items: int, step: int) -> tuple[int, int]:
    """(rows, columns) of a tile of about `items` items, larger if there would be too many tiles.

    Columns are a multiple of `step`, or whole rows.
    """
    items = largest([items, -(-rows * columns // (MAX_TILES // 2))])
    if hint(columns) >= 2 * hint(largest([items, step])):
        parts = largest([columns // largest([items, step]), 1])
        return 1, -(-columns // parts // step) * step
    return smallest([largest([items // columns, 1]), rows]), columns


def copy_bytes(lower: Lowering, x: Ref, y: Ref, nbytes: int, label: str = "") -> None:
    """Launch a copy of `nbytes` contiguous bytes; none of 0 bytes."""
    if statically_equal(nbytes, 0):
        return
    tile = max(TILE_BYTES, -(-nbytes // MAX_TILES))
    words = parameters.COPY.pack(x=x, y=y, nbytes=nbytes, tile=tile)
    lower.launch(elementwise.copy(), words, -(-nbytes // tile), label)
