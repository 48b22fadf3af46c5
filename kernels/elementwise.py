"""Element-wise kernels: any expression over broadcast operands, in one loop nest.

The kernel of an expression is generated as Python source and is generic in shape.  Its
iteration space, of rank up to 8 after neighbouring dimensions are joined, is seen as

    rows = outer (up to 6 dimensions) x middle,   columns = inner

and cut into tiles of whole or partial rows.  Outputs are dense.  Along the inner dimension an
input is contiguous or repeats one item, which is known when the kernel is generated, so the
inner loop vectorises; elsewhere inputs have any strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnefc.kernels.template import KernelFunction, Layout, family

StepKey = tuple[str, tuple[int, ...], str, bool | int | float | None]
"""(operation, operands, type of the result, literal value), see `nnefc.ir.expression.Step`."""

CONTIGUOUS, REPEATED = "contiguous", "repeated"

OUTER = 6
"""Outer dimensions: rank 8 without the middle and the inner one."""

COPY = Layout("x:ref y:ref nbytes tile")


def layout(inputs: int, outputs: int) -> Layout:
    """Parameters of an expression.

    `x0..`, `y0..`: operands and results.  `rows`, `columns`: the iteration space.  `tile_rows`,
    `tile_columns`: size of a tile.  `column_tiles`: tiles in a row of tiles.  `middle`: rows
    before the outer index moves.  `outer`: number of outer dimensions, `extents`: theirs,
    innermost first.  `strides`: for each input those of the outer dimensions, innermost first,
    and that of the middle one last; in bytes.
    """
    references = [f"x{i}:ref" for i in range(inputs)] + [f"y{i}:ref" for i in range(outputs)]
    sizes = "rows columns tile_rows tile_columns column_tiles middle outer"
    strides = [f"strides{i}:{OUTER + 1}" for i in range(inputs)]
    return Layout(" ".join([*references, sizes, f"extents:{OUTER}", *strides]))


@family("elementwise.copy")
def copy() -> KernelFunction:
    """`nbytes` bytes, `tile` of them a tile."""
    from nnefc.kernels.memory import READ, WRITE, address, load_word

    load, store = READ["uint8"], WRITE["uint8"]
    x_at, y_at, nbytes_at, tile_at = COPY.offsets

    def kernel(bases: int, params: int, first: int, last: int) -> None:
        x, y = address(bases, params + x_at), address(bases, params + y_at)
        tile = load_word(params + tile_at)
        start = first * tile
        size = min(last * tile, load_word(params + nbytes_at)) - start
        x += start
        y += start
        for i in range(size):
            store(y, i, load(x, i))

    return kernel


@family("elementwise.expression")
def expression(
    inputs: tuple[str, ...],
    access: tuple[str, ...],
    steps: tuple[StepKey, ...],
    results: tuple[int, ...],
) -> KernelFunction:
    """Inputs of these types, read as `access` says; operands are numbered as in the IR."""
    from nnefc.kernels import memory

    text, names = generate(inputs, access, steps, results)
    names |= {"address": memory.address}
    for name in memory.ITEMSIZE:
        names |= {f"load_{name}": memory.READ[name], f"store_{name}": memory.WRITE[name]}
    exec(compile(text, "<element-wise kernel>", "exec"), names)
    return names["kernel"]


def generate(
    inputs: Sequence[str],
    access: Sequence[str],
    steps: Sequence[StepKey],
    results: Sequence[int],
) -> tuple[str, dict[str, Any]]:
    """(source of `kernel`, the names it uses)."""
    from nnefc.kernels.memory import ITEMSIZE
    from nnefc.kernels.scalar import LIBM_BASE, Scope, source

    scope = Scope()
    types = [*inputs, *(dtype for _, _, dtype, _ in steps)]
    names = [f"v{i}" for i in range(len(types))]
    body: list[str] = []
    for i, (op, operands, dtype, value) in enumerate(steps, len(inputs)):
        if op == "literal":
            assert value is not None
            names[i] = scope.constant(value, dtype)
            continue
        given, kinds = [names[o] for o in operands], [types[o] for o in operands]
        body.append(f"{names[i]} = {source(op, given, kinds, dtype, scope)}")
    offsets = layout(len(inputs), len(results)).offsets
    where = iter(offsets)
    x_at, y_at = [next(where) for _ in inputs], [next(where) for _ in results]
    sizes = [next(where) for _ in range(7)]
    extents_at, strides_at = next(where), list(where)
    fields = ["rows", "columns", "tile_rows", "tile_columns", "column_tiles", "middle", "outer"]
    lines = [
        "def kernel(bases, params, first, last):",
        *(f"    {name} = load_word(params + {at})" for name, at in zip(fields, sizes)),
        *(f"    base_x{i} = address(bases, params + {at})" for i, at in enumerate(x_at)),
        *(f"    base_y{i} = address(bases, params + {at})" for i, at in enumerate(y_at)),
        *(
            f"    step_x{i} = load_word(params + {at + 8 * OUTER})"
            for i, at in enumerate(strides_at)
        ),
        *([f"    libm = load_word(bases + {8 * LIBM_BASE})"] if scope.uses_libm else []),
        "    for tile in range(first, last):",
        "        row = tile // column_tiles",
        "        column = (tile - row * column_tiles) * tile_columns",
        "        count = min(tile_columns, columns - column)",
        "        row *= tile_rows",
        "        last_row = min(row + tile_rows, rows)",
        "        while row < last_row:",
        "            index = row // middle",
        "            line = row - index * middle",
        "            lines = min(middle - line, last_row - row)",
        *(f"            x{i} = base_x{i} + line * step_x{i}" for i in range(len(inputs))),
        "            for d in range(outer):",
        f"                extent = load_word(params + {extents_at} + 8 * d)",
        "                above = index // extent",
        "                at = index - above * extent",
        "                index = above",
        *(
            f"                x{i} += at * load_word(params + {at} + 8 * d)"
            for i, at in enumerate(strides_at)
        ),
        "            item = row * columns + column",
        *(
            f"            x{i} += column * {ITEMSIZE[dtype]}"
            for i, dtype in enumerate(inputs)
            if access[i] == CONTIGUOUS
        ),
        *(
            f"            y{i} = base_y{i} + item * {ITEMSIZE[types[r]]}"
            for i, r in enumerate(results)
        ),
        "            for _ in range(lines):",
        *(
            f"                v{i} = load_{dtype}(x{i}, 0)"
            for i, dtype in enumerate(inputs)
            if access[i] == REPEATED
        ),
        "                for i in range(count):",
        *(
            f"                    v{i} = load_{dtype}(x{i}, i)"
            for i, dtype in enumerate(inputs)
            if access[i] == CONTIGUOUS
        ),
        *(f"                    {line}" for line in body),
        *(
            f"                    store_{types[r]}(y{i}, i, {names[r]})"
            for i, r in enumerate(results)
        ),
        *(f"                x{i} += step_x{i}" for i in range(len(inputs))),
        *(f"                y{i} += columns * {ITEMSIZE[types[r]]}" for i, r in enumerate(results)),
        "            row += lines",
    ]
    return "\n".join(lines) + "\n", scope.names
