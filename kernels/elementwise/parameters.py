"""The iteration space of element-wise kernels, and their parameters.

A kernel is generic in shape.  Its iteration space, after neighbouring dimensions are joined, is
seen as

    rows = outer (up to 6 dimensions) x middle,   columns = inner

and cut into tiles of whole or partial rows.  Along a row results are contiguous and an operand
is read in one of the ways of `Access`, which is known when the kernel is generated; from row to
row operands and results have any strides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nnefc.kernels.parameters import Layout
from nnefc.kernels.target import isa
from nnefc.kernels.vector.item_types import BITS
from nnefc.kernels.vector.scalar import Expression

IN_FLIGHT = 4
"""Vectors of columns that are worked on at the same time."""

OUTER = 6
"""Outer dimensions: rank 8 without the middle and the inner one."""

MAX_PERIOD = 64
"""Items of a `PERIODIC` operand."""


class Access(StrEnum):
    """Which item of an operand belongs to column c of a row."""

    CONTIGUOUS = "contiguous"
    """Item c."""
    REPEATED = "repeated"
    """Item 0."""
    STRETCHED = "stretched"
    """Item c // factor: the factor is part of the kernel."""
    PERIODIC = "periodic"
    """Item c % period: the period is a parameter, up to `MAX_PERIOD`."""
    BLOCK = "block"
    """Item c % lanes: a vector that is loaded once a row."""


@dataclass(frozen=True, slots=True)
class Walk:
    """How a kernel goes along a row."""

    access: tuple[Access, ...]
    """Of each input."""
    factor: int = 1
    """Columns that share an item of a `STRETCHED` input."""
    stream: bool = False
    """Whether results go past the caches; for one result and inputs that are contiguous or
    repeated."""


SPACE = "rows columns tile_rows tile_columns column_tiles middle outer period"


def fields(inputs: int, outputs: int) -> str:
    """Parameters of an expression, for `Layout`.

    `x0..`, `y0..`: operands and results.  `rows`, `columns`: the iteration space.  `tile_rows`,
    `tile_columns`: size of a tile.  `column_tiles`: tiles in a row of tiles.  `middle`: rows
    before the outer index moves.  `outer`: number of outer dimensions, `extents`: theirs,
    innermost first.  `period`: of `PERIODIC` inputs.  `strides_x0..`, `strides_y0..`: those of
    the outer dimensions, innermost first, and that of the middle one last; in bytes.
    """
    names = [f"x{i}" for i in range(inputs)] + [f"y{i}" for i in range(outputs)]
    references = [f"{name}:ref" for name in names]
    strides = [f"strides_{name}:{OUTER + 1}" for name in names]
    return " ".join([*references, SPACE, f"extents:{OUTER}", *strides])


def layout(inputs: int, outputs: int) -> Layout:
    """The parameters that `fields` describes."""
    return Layout(fields(inputs, outputs))


def offsets(inputs: int, outputs: int) -> dict[str, int]:
    """Where each of them is, in bytes."""
    names = [field.partition(":")[0] for field in fields(inputs, outputs).split()]
    return dict(zip(names, layout(inputs, outputs).offsets, strict=True))


def lanes(expression: Expression) -> int:
    """Columns of one vector: the widest item fills a register."""
    return isa.host().vector_bits // max(BITS[dtype] for dtype in expression.types)


COPY = Layout("x:ref y:ref nbytes tile")
"""Parameters of `map.copy`: `nbytes` bytes from x to y, `tile` of them a tile."""
