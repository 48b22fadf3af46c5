"""Groups of equal rows of a tensor."""

from __future__ import annotations

from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.nonzero import nonzero_first
from nnefc.frontends.common.operators.sums import running_sum
from nnefc.frontends.common.values import KnownTensor, Operand, operand
from nnefc.ir import DType


def one_index(item: int) -> KnownTensor:
    """An index as a tensor [1]."""
    return KnownTensor(operand(item).array.reshape(1), DType.INT64)  # pyright: ignore


def groups_of_rows(make: OpBuilder, rows: Operand) -> tuple[Operand, Operand, Operand, Operand]:
    """Groups of equal rows in ascending order: index of the first of each, group of each row, size
    of each group, number of groups.  The first and the last but one have room for all rows.
    """
    count = rows.type.dims[0]
    order = _ascending(make, rows)
    ordered = make("gather", rows, order, axis=0)
    starts: Operand = KnownTensor(operand(True).array.reshape(1), DType.BOOL)  # pyright: ignore
    if count > 1:
        lower = slice_in_dim(make, ordered, 0, 0, count - 1)
        upper = slice_in_dim(make, ordered, 0, 1, count)
        differs = make("any_reduce", _differ(make, lower, upper), axes=(1,))
        starts = make("concat", [starts, make.reshape(differs, (count - 1,))], axis=0)
    group = make("sub", running_sum(make, make.cast(starts, DType.INT64), 0), 1)
    inverse = make("scatter_elements", make("mul", group, 0), order, group, axis=0)
    where, number = nonzero_first(make, starts)
    ends: list[Operand] = [one_index(0)]
    if count > 1:
        ends.insert(0, slice_in_dim(make, where, 0, 1, count))
    is_inner = make("lt", make.iota(count), make("sub", number, 1))
    following = ends[0] if len(ends) == 1 else make("concat", ends, axis=0)
    sizes = make("sub", make("select", is_inner, following, count), where)
    return make("gather", order, where, axis=0), inverse, sizes, number


def _differ(make: OpBuilder, x: Operand, y: Operand) -> Operand:
    return make("xor" if x.type.dtype is DType.BOOL else "ne", x, y)


def _ascending(make: OpBuilder, rows: Operand) -> Operand:
    """Indices of rows in lexicographical order; equal rows keep theirs.

    Rows are sorted by each column, from the last to the first (radix sort).
    """
    count, width = rows.type.dims
    if rows.type.dtype is DType.BOOL:
        rows = make.cast(rows, DType.UINT8)
    columns = make.transpose(rows, (1, 0))

    def by_column(
        within: OpBuilder, before: list[Operand], slices: list[Operand], whole: list[Operand]
    ) -> tuple[list[Operand], list[Operand]]:
        del whole
        keys = within("gather", within.reshape(slices[0], (count,)), before[0], axis=0)
        _, positions = within("topk", keys, k=count, axis=0, largest=False)
        return [within("gather", before[0], positions, axis=0)], []

    finals, _ = loop(make, width, [make.iota(count)], [columns], [], by_column, backwards=[True])
    return finals[0]


def groups_by_first(
    make: OpBuilder, first: Operand, inverse: Operand, counts: Operand, number: Operand
) -> tuple[Operand, Operand, Operand]:
    """Groups in the order of their first rows."""
    (count,) = first.type.dims
    index = make.iota(count)
    keys = make("select", make("lt", index, number), first, make.iota(count, count))
    _, order = make("topk", keys, k=count, axis=0, largest=False)
    ranks = make("scatter_elements", make("mul", order, 0), order, index, axis=0)
    first, counts = (make("gather", x, order, axis=0) for x in (first, counts))
    return first, make("gather", ranks, inverse, axis=0), counts
