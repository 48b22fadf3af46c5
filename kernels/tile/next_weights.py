"""Prefetching the weights of the next panel while the tiles of a panel are computed."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (llvmlite is untyped)

from __future__ import annotations

from typing import Any, Final

from nnefc.kernels.vector.vector_builder import Vector
from nnefc.support.alignment import CACHE_LINE

PREFETCH: Final = 4
"""Tiles of a strip that share the prefetch of the next weights, which are usually in the last cache
or in main memory."""
_AHEAD: Final = 4 << 10
"""Bytes that `prefetch_own` prefetches ahead."""


def prefetch_own(v: Vector, at: Any, nbytes: int, number: Any) -> None:
    """Prefetch the weights behind an entry of `nbytes` in the first tile of a strip.

    A thread that takes panels from the back to the front finds no weights in its cache, as no
    panel prefetches the one before.
    """
    with v.builder.if_then(v.builder.icmp_signed("==", number, v.word(0))):
        v.prefetch_lines(at, nbytes, _AHEAD)


def prefetch_next(v: Vector, at: Any, depth: Any, nbytes: int, number: Any, tiles: Any) -> None:
    """Prefetch a share of the weights one panel of `depth` entries ahead of an entry of `nbytes`.

    `number`: of the tile among `tiles`.  If pixels read only some entries, some of these weights
    are in the cache already.
    """
    builder = v.builder
    ahead = v.at(at, builder.mul(depth, v.word(nbytes)))
    share = -(-nbytes // PREFETCH // CACHE_LINE) * CACHE_LINE
    turn = builder.and_(number, v.word(PREFETCH - 1))
    mine = v.at(ahead, builder.mul(turn, v.word(share)))
    v.prefetch_lines(mine, share)
    few = builder.icmp_signed("<", tiles, v.word(PREFETCH))
    with builder.if_then(few):
        v.prefetch_lines(ahead, nbytes)
