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
from functools import cache
from typing import Any

from nnefc.kernels.abi import BASE_LIBM
from nnefc.kernels.template import KernelFunction, Layout, family

StepKey = tuple[str, tuple[int, ...], str, bool | int | float | None]
"""(operation, operands, type of the result, literal value), see `nnefc.ir.expression.Step`."""

CONTIGUOUS, REPEATED = "contiguous", "repeated"

OUTER = 6
"""Outer dimensions: rank 8 without the middle and the inner one."""

COPY = Layout("x:ref y:ref nbytes tile")


SPACE = "rows columns tile_rows tile_columns column_tiles middle outer"
_ROWS, _COLUMNS, _TILE_ROWS, _TILE_COLUMNS, _COLUMN_TILES, _MIDDLE, _OUTER, _EXTENTS = Layout(
    f"{SPACE} extents:{OUTER}"
).offsets
"""Offsets from the start of the iteration space, which follows the references."""


def layout(inputs: int, outputs: int) -> Layout:
    """Parameters of an expression.

    `x0..`, `y0..`: operands and results.  `rows`, `columns`: the iteration space.  `tile_rows`,
    `tile_columns`: size of a tile.  `column_tiles`: tiles in a row of tiles.  `middle`: rows
    before the outer index moves.  `outer`: number of outer dimensions, `extents`: theirs,
    innermost first.  `strides`: for each input those of the outer dimensions, innermost first,
    and that of the middle one last; in bytes.
    """
    references = [f"x{i}:ref" for i in range(inputs)] + [f"y{i}:ref" for i in range(outputs)]
    strides = [f"strides{i}:{OUTER + 1}" for i in range(inputs)]
    return Layout(" ".join([*references, SPACE, f"extents:{OUTER}", *strides]))


@cache
def _walk() -> dict[str, Any]:
    """Helpers that walk the iteration space at address `space`; compiled once for all kernels."""
    from nnefc.kernels.memory import helper, load_word

    @helper
    def first_row(space: int, tile: int) -> Any:
        return tile // load_word(space + _COLUMN_TILES) * load_word(space + _TILE_ROWS)

    @helper
    def end_row(space: int, row: int) -> Any:
        return min(row + load_word(space + _TILE_ROWS), load_word(space + _ROWS))

    @helper
    def first_column(space: int, tile: int) -> Any:
        return tile % load_word(space + _COLUMN_TILES) * load_word(space + _TILE_COLUMNS)

    @helper
    def column_count(space: int, column: int) -> Any:
        return min(load_word(space + _TILE_COLUMNS), load_word(space + _COLUMNS) - column)

    @helper
    def line_count(space: int, row: int, end: int) -> Any:
        """Rows from `row` on that differ in the middle index only."""
        middle = load_word(space + _MIDDLE)
        return min(middle - row % middle, end - row)

    @helper
    def row_offset(space: int, strides: int, row: int) -> Any:
        """Byte offset of an input's row."""
        middle = load_word(space + _MIDDLE)
        index = row // middle
        offset = (row - index * middle) * load_word(strides + 8 * OUTER)
        for d in range(load_word(space + _OUTER)):
            extent = load_word(space + _EXTENTS + 8 * d)
            above = index // extent
            offset += (index - above * extent) * load_word(strides + 8 * d)
            index = above
        return offset

    return {
        function.__name__: function
        for function in (first_row, end_row, first_column, column_count, line_count, row_offset)
    }


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
    names |= {"address": memory.address, **_walk()}
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
    from nnefc.kernels.scalar import Scope, source

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
    where = iter(layout(len(inputs), len(results)).offsets)
    x_at, y_at, space_at = (
        [next(where) for _ in inputs],
        [next(where) for _ in results],
        next(where),
    )
    strides_at = list(where)[-len(inputs) :]
    columns = range(len(inputs))
    fast = [i for i in columns if access[i] == CONTIGUOUS]
    fixed = [i for i in columns if access[i] == REPEATED]
    sizes = [ITEMSIZE[types[r]] for r in results]
    lines = [
        "def kernel(bases, params, first, last):",
        f"    space = params + {space_at}",
        f"    columns = load_word(space + {_COLUMNS})",
        *([f"    libm = load_word(bases + {8 * BASE_LIBM})"] if scope.uses_libm else []),
        *(f"    base_x{i} = address(bases, params + {at})" for i, at in enumerate(x_at)),
        *(f"    base_y{i} = address(bases, params + {at})" for i, at in enumerate(y_at)),
        "    for tile in range(first, last):",
        "        row, column = first_row(space, tile), first_column(space, tile)",
        "        end, count = end_row(space, row), column_count(space, column)",
        "        while row < end:",
        *(
            f"            x{i} = base_x{i} + row_offset(space, params + {strides_at[i]}, row)"
            for i in columns
        ),
        *(f"            x{i} += column * {ITEMSIZE[inputs[i]]}" for i in fast),
        "            item = row * columns + column",
        *(f"            y{i} = base_y{i} + item * {size}" for i, size in enumerate(sizes)),
        "            lines = line_count(space, row, end)",
        "            row += lines",
        "            for _ in range(lines):",
        *(f"                v{i} = load_{inputs[i]}(x{i}, 0)" for i in fixed),
        "                for i in range(count):",
        *(f"                    v{i} = load_{inputs[i]}(x{i}, i)" for i in fast),
        *(f"                    {line}" for line in body),
        *(
            f"                    store_{types[r]}(y{i}, i, {names[r]})"
            for i, r in enumerate(results)
        ),
        *(
            f"                x{i} += load_word(params + {strides_at[i] + 8 * OUTER})"
            for i in columns
        ),
        *(f"                y{i} += columns * {size}" for i, size in enumerate(sizes)),
    ]
    return "\n".join(lines) + "\n", scope.names
