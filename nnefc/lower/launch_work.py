"""Counts operations and bytes of launches, which profiles compare with their times."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from nnefc.ir import Op, Value
from nnefc.ops.tools.cost import flops
from nnefc.program.program import Buffer, Launch, LaunchWork, Ref
from nnefc.symbolic.integers import hint


def count_work(
    op: Op | None, launches: Sequence[Launch], find: Callable[[Value], Ref | None]
) -> None:
    """Set `work` of the launches of `op` (None: of the copies after the last operation).

    Launches that do more than move items share the arithmetic of the operation equally.  The bytes
    of a launch are those of the distinct ranges it names.  A range ends where a tensor of the
    operation ends, at the end of the buffer, or where another range of the same buffer starts.
    """
    arithmetic = hint(flops(op)) if op else 0
    working = [one for one in launches if not one.kernel.moves] or launches
    extents: dict[tuple[Buffer, int], int] = {}
    for value in (*op.inputs, *op.outputs) if op else ():
        if (ref := find(value)) is not None:
            key = ref.buffer, hint(ref.offset)
            extents[key] = max(extents.get(key, 0), hint(value.type.nbytes))
    read = _nbytes(launches, extents, writes=False)
    written = _nbytes(launches, extents, writes=True)
    for i, launch in enumerate(launches):
        share = arithmetic // len(working) if launch in working else 0
        launch.work = LaunchWork(flops=share, read=read[i], written=written[i])


def _nbytes(
    launches: Sequence[Launch], extents: dict[tuple[Buffer, int], int], *, writes: bool
) -> list[int]:
    """Bytes that each launch reads, or writes."""
    named = [
        {(r.buffer, hint(r.offset)) for r in one.refs if r.writes is writes} for one in launches
    ]
    every = {ref for refs in named for ref in refs}
    starts: dict[Buffer, list[int]] = {}
    for buffer, offset in sorted(every, key=lambda ref: ref[1]):
        starts.setdefault(buffer, []).append(offset)

    def extent(buffer: Buffer, offset: int) -> int:
        following = starts[buffer][bisect_right(starts[buffer], offset) :]
        end = following[0] if following else hint(buffer.nbytes)
        return min(extents.get((buffer, offset), end - offset), end - offset)

    return [sum(extent(*ref) for ref in refs) for refs in named]
