"""Rules of `canonicalise` for comparisons of row and column indices, as in causal masks."""

from __future__ import annotations

from typing import NamedTuple

from nnefc.ir import Op, Value
from nnefc.passes.canonicalise.rules import NewOp, Result, rule
from nnefc.passes.op_queries import is_view


class _Line(NamedTuple):
    """A value start, start + 1, ... along one axis; axis None: a single number."""

    axis: int | None
    start: int


def _line(value: Value) -> _Line | None:
    """`value` as a `_Line` if it is a reshaped `iota` of step 1."""
    dims, op = value.type.dims, value.op
    while op is not None and is_view(op):
        op = op.inputs[0].op
    if op is None or op.name != "iota" or op.attributes["step"] != 1:
        return None
    axes = [axis for axis, extent in enumerate(dims) if extent != 1]
    if len(axes) > 1:  # the reshape split the numbers into rows
        return None
    return _Line(axes[0] if axes else None, op.attributes["start"])


@rule("le", "lt", "ge", "gt")
def _triangle(op: Op) -> Result:
    """Replace a comparison of column and row indices by `tri`."""
    rank = op.output.type.rank
    x, y = map(_line, op.inputs)
    if x is None or y is None or rank < 2 or any(n != 1 for n in op.output.type.dims[:-2]):
        return None
    if op.name in ("ge", "gt"):
        x, y = y, x
    # x <= y, or x < y
    row, column = rank - 2, rank - 1
    strict = int(op.name in ("lt", "gt"))
    if x.axis in (column, None) and y.axis in (row, None):
        k, above = y.start - x.start - strict, False
    elif x.axis in (row, None) and y.axis in (column, None):
        k, above = x.start - y.start - 1 + strict, True
    else:
        return None
    return NewOp("tri", [], {"shape": op.output.type.dims, "k": k, "above": above})
