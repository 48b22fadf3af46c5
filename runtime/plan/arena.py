"""Arena planning: offsets of buffers in one block of memory.

A buffer is live from the first launch that names it to the last.  Buffers whose lifetimes do not
overlap may share bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from nnefc.program.program import Buffer, Launch
from nnefc.support.alignment import ALIGNMENT
from nnefc.symbolic.integers import hint, is_symbolic, largest


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A buffer of `nbytes` (a multiple of the alignment), live from launch `first` to `last`."""

    first: int
    last: int
    nbytes: int

    def overlaps(self, other: Lifetime) -> bool:
        """Whether both are live at some launch."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Arena:
    """Offsets of buffers.

    `lower_bound`: the least size of any arena, at the example lengths (hints) of the symbols.
    """

    offsets: dict[Buffer, int]
    nbytes: int
    lower_bound: int


def arrange(launches: Sequence[Launch]) -> Arena:
    """Offsets for the arena buffers of distinct `launches`.

    A launch that runs several times uses the same buffers each time: `nnefc.lower.batch_stages`.
    """
    lifetimes = dict(_lifetimes(launches))
    owner = _merge(launches, lifetimes)
    groups = [b for b in lifetimes if owner.get(b, b) is b]
    spans = [lifetimes[b] for b in groups]
    hinted = [replace(span, nbytes=hint(span.nbytes)) for span in spans]
    offsets = assign_offsets(hinted)
    if is_symbolic(span.nbytes for span in spans):
        offsets = _symbolic_offsets(spans, offsets)
    offset_of = dict(zip(groups, offsets))
    return Arena(
        {b: offset_of[owner.get(b, b)] for b in lifetimes},
        largest([0, *(o + s.nbytes for o, s in zip(offsets, spans))]),
        _lower_bound(hinted, len(launches)),
    )


def _symbolic_offsets(spans: Sequence[Lifetime], offsets: Sequence[int]) -> list[int]:
    """Offsets for symbolic sizes: each buffer follows the buffers below it in `offsets`."""
    symbolic = list(offsets)
    below: list[set[int]] = [set() for _ in spans]
    placed: list[int] = []
    for i in sorted(range(len(spans)), key=lambda i: offsets[i]):
        touching: list[int] = []
        for k in reversed(placed):
            if k not in below[i] and spans[k].overlaps(spans[i]):
                touching.append(k)
                below[i] |= {k} | below[k]
        symbolic[i] = largest([0, *(symbolic[k] + spans[k].nbytes for k in touching)])
        placed.append(i)
    return symbolic


def _lifetimes(launches: Sequence[Launch]) -> Iterator[tuple[Buffer, Lifetime]]:
    spans: dict[Buffer, list[int]] = {}
    for i, launch in enumerate(launches):
        for ref in launch.refs:
            if ref.buffer.space == "arena":
                spans.setdefault(ref.buffer, [i, i])[1] = i
    for buffer, (first, last) in spans.items():
        yield buffer, Lifetime(first, last, -(-max(buffer.nbytes, 1) // ALIGNMENT) * ALIGNMENT)


def _merge(launches: Sequence[Launch], lifetimes: dict[Buffer, Lifetime]) -> dict[Buffer, Buffer]:
    """Outputs that reuse the memory of a dying input, where the launch allows it: output -> owner.

    Extends the lifetimes of the owners in `lifetimes`.
    """
    owner: dict[Buffer, Buffer] = {}
    ends = {b: span.last for b, span in lifetimes.items()}
    for i, launch in enumerate(launches):
        refs = launch.refs
        if not launch.in_place or is_symbolic(ref.offset for ref in (*refs, *launch.in_place)):
            continue
        written = {(r.buffer, r.offset) for r in refs if r.writes}
        allowed = {r.buffer for r in launch.in_place if r.offset == 0}
        # Another operand may read the same buffer, even from the same offset (a slice), and would
        # see overwritten items.
        reads = Counter(r for r in refs if not r.writes)
        reads.subtract(launch.in_place)
        allowed -= {r.buffer for r, others in reads.items() if others}
        if len(written) != 1:
            continue
        ((y, offset),) = written
        if offset or y.space != "arena" or lifetimes[y].first != i:
            continue
        for x in allowed:
            if x.space == "arena" and x.nbytes == y.nbytes and ends[x] == i and x is not y:
                root = owner.get(x, x)
                owner[y] = root
                span = lifetimes[root]
                lifetimes[root] = Lifetime(span.first, lifetimes[y].last, span.nbytes)
                break
    return owner


@dataclass(frozen=True, slots=True)
class _Placement:
    """Offsets of spans placed in an order; the spans `top` end at the last byte, `nbytes`."""

    order: list[int]
    offsets: list[int]
    nbytes: int
    top: set[int]


def assign_offsets(spans: Sequence[Lifetime]) -> list[int]:
    """Offsets such that spans that overlap in time do not overlap in memory.

    No order of placing is best for every program, but some order usually leaves no gaps.
    """
    launches = max((span.last + 1 for span in spans), default=0)
    least = _lower_bound(spans, launches)
    best = _Placement([], [], 0, set())
    for order in _orders(spans, launches):
        placed = _place_in(order, spans)
        if not best.order or placed.nbytes < best.nbytes:
            best = placed
        if best.nbytes == least or len(spans) > _MAX_SEARCHED:
            return best.offsets
    placed = best
    for _ in range(_REPAIR_ROUNDS):
        # Place the topmost spans first.
        top = placed.top
        placed = _place_in(sorted(placed.order, key=lambda i: i not in top), spans)
        best = min(best, placed, key=lambda each: each.nbytes)
        if best.nbytes == least:
            break
    return best.offsets


_REPAIR_ROUNDS: Final = 8
"""Attempts to improve the best order."""
_MAX_SEARCHED: Final = 2000
"""More buffers are placed in one order only, as placing takes quadratic time."""


def _orders(spans: Sequence[Lifetime], launches: int) -> Iterator[list[int]]:
    """Orders in which to place spans, the most promising first.

    By size, and by the memory in use during a span: Pisarchyk & Lee, "Efficient Memory Management
    for Deep Neural Net Inference", 2020.
    """
    import numpy as np

    size = np.array([span.nbytes for span in spans], np.int64)
    first = np.array([span.first for span in spans], np.int64)
    duration = np.array([span.last for span in spans], np.int64) + 1 - first
    yield np.lexsort((first, -size)).tolist()
    yield np.lexsort((first, -size * duration)).tolist()
    used = np.array(_live_bytes(spans, launches), np.int64)
    peak = np.array([used[span.first : span.last + 1].max() for span in spans], np.int64)
    yield np.lexsort((-size, -duration, -peak)).tolist()
    yield np.lexsort((first, -size, -peak)).tolist()
    yield np.lexsort((-size, -duration)).tolist()
    yield np.lexsort((-size, first)).tolist()


def _place_in(order: list[int], spans: Sequence[Lifetime]) -> _Placement:
    """Place spans in this order, each in the lowest gap that fits."""
    import numpy as np

    offsets = [0] * len(spans)
    # Rows: first and last launch, start and end; columns: placed spans, by start.  Vectorised, as
    # there may be many thousands.
    placed = np.zeros((4, len(spans)), np.int64)
    for count, i in enumerate(order):
        span = spans[i]
        first, last, start, end = placed[:, :count]
        together = (first <= span.last) & (last >= span.first)
        # the end of all spans below, at each neighbour and after the last
        free = np.maximum.accumulate(np.concatenate(([0], end[together])))
        gaps = np.flatnonzero(start[together] - free[:-1] >= span.nbytes)
        at = int(free[gaps[0] if gaps.size else -1])
        where = int(np.searchsorted(start, at))
        placed[:, where + 1 : count + 1] = placed[:, where:count]
        placed[:, where] = span.first, span.last, at, at + span.nbytes
        offsets[i] = at
    ends = [offset + span.nbytes for offset, span in zip(offsets, spans)]
    nbytes = max(ends, default=0)
    return _Placement(order, offsets, nbytes, {i for i, end in enumerate(ends) if end == nbytes})


def _lower_bound(spans: Sequence[Lifetime], launches: int) -> int:
    """The most bytes live at one launch."""
    return max(_live_bytes(spans, launches), default=0)


def _live_bytes(spans: Sequence[Lifetime], launches: int) -> list[int]:
    """[launches]: bytes live at each launch."""
    change = [0] * (launches + 1)
    for span in spans:
        change[span.first] += span.nbytes
        change[span.last + 1] -= span.nbytes
    return list(accumulate(change[:-1]))
