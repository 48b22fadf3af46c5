"""How many pieces of work a launch is cut into."""

from __future__ import annotations

from nnefc.kernels.team_state import MAX_TILES

TILE_COST = 1 << 16
"""Items of work, of about a nanosecond each, below which a tile is not worth its ticket."""
SHORT_TILE = 1 << 12
"""The same where costs are well known, and launches take some microseconds."""
TILES = 256
"""More tiles than this help nobody."""


def block(count: int, cost: float, least: float = TILE_COST) -> int:
    """Units per tile of `least` or more, for `count` units of `cost` items of work each."""
    worthwhile = int(least / max(cost, 1)) or 1
    return max(min(worthwhile, count), -(-count // min(TILES, MAX_TILES)))


def tiles(count: int, size: int) -> int:
    """Tiles of `size` units that `count` units make."""
    return -(-count // size)
