"""The iteration space of element-wise kernels, and their parameters.

A kernel is generic in shape.  After neighbouring dimensions are joined, its iteration space is

    rows = outer (up to 6 dimensions) x middle,   columns = inner

cut into tiles of whole or partial rows.  Along a row, results are contiguous and the `Access` of
each operand is known when the kernel is generated.  From row to row, operands and results have any
strides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nnefc.kernels.parameters import Layout
from nnefc.kernels.target import isa
from nnefc.kernels.vector.expression_argument import Expression
from nnefc.kernels.vector.item_types import BITS

IN_FLIGHT = 4
"""Vectors of columns computed at a time."""

OUTER = 6
"""Most outer dimensions: rank 8 less the middle and the inner dimension."""

MAX_PERIOD = 64
"""Most items of a `PERIODIC` operand."""


class Access(StrEnum):
    """The item of an operand that column c of a row reads."""

    CONTIGUOUS = "contiguous"
    """Item c."""
    REPEATED = "repeated"
    """Item 0."""
    STRETCHED = "stretched"
    """Item c // factor, where the factor is an argument of the kernel."""
    PERIODIC = "periodic"
    """Item c % period, where the period is a parameter of at most `MAX_PERIOD`."""
    BLOCK = "block"
    """Item c % lanes: a vector that is loaded once per row."""


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """How a kernel reads and writes along a row."""

    access: tuple[Access, ...]
    """The access of each input."""
    factor: int = 1
    """Columns that share an item of a `STRETCHED` input."""
    stream: bool = False
    """Whether stores bypass the caches; requires one result and inputs that are contiguous or
    repeated."""
    quick: bool = False
    """Whether `quick_halves` rounds to halves, and computes functions of rounded results."""


SPACE = "rows columns tile_rows tile_columns column_tiles middle outer period"


def fields(inputs: int, outputs: int) -> str:
    """Parameters of an expression, for `Layout`.

    `x0..`, `y0..`: operands and results.  `rows`, `columns`: the iteration space.  `tile_rows`,
    `tile_columns`: size of a tile.  `column_tiles`: tiles in a row of tiles.  `middle`: rows per
    outer index.  `outer`, `extents`: number and extents of the outer dimensions, innermost first.
    `period`: period of `PERIODIC` inputs.  `strides_x0..`, `strides_y0..`: strides in bytes, of the
    outer dimensions, innermost first, then of the middle one.
    """
    names = [f"x{i}" for i in range(inputs)] + [f"y{i}" for i in range(outputs)]
    references = [f"{name}:ref" for name in names]
    strides = [f"strides_{name}:{OUTER + 1}" for name in names]
    return " ".join([*references, SPACE, f"extents:{OUTER}", *strides])


def layout(inputs: int, outputs: int) -> Layout:
    """The parameters that `fields` describes."""
    return Layout(fields(inputs, outputs))


def offsets(inputs: int, outputs: int) -> dict[str, int]:
    """The byte offset of each parameter by name."""
    names = [field.partition(":")[0] for field in fields(inputs, outputs).split()]
    return dict(zip(names, layout(inputs, outputs).offsets, strict=True))


def lanes(expression: Expression) -> int:
    """Columns of one vector, such that the widest item type fills a register."""
    return isa.host().vector_bits // max(BITS[dtype] for dtype in expression.types)


COPY = Layout("x:ref y:ref nbytes tile")
"""Parameters of `map.copy`: copies `nbytes` bytes from x to y; a tile is `tile` bytes."""
