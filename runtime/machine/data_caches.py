"""The caches of this machine's processor, as the system tells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def largest_cache() -> int:
    """Bytes of the largest cache that the system tells about; 0 if it tells nothing."""
    return max(_cache_sizes(), default=0)


def _cache_sizes() -> Iterator[int]:
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            size = re.fullmatch(r"(\d+)([KMG]?)\s*", file.read_text())
        except OSError:
            continue
        if size:
            yield int(size[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[size[2]]
