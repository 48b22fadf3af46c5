"""Damaged copies of files."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator


def damaged_copies(
    data: bytes, seed: int, count: int, mutate: Callable[[bytearray, random.Random], None]
) -> Iterator[bytes]:
    """Copies of `data`, each with one, two or four mutations."""
    rng = random.Random(seed)
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            mutate(changed, rng)
        yield bytes(changed)
