"""Cache entries of a given age."""

from __future__ import annotations

import os
import time
from pathlib import Path

from nnefc.runtime.cache.lru_folder import LruFolder, kernel_file_name

DAY = 86400
"""Seconds."""


def name(number: int) -> str:
    return f"{number:064x}"


def age_to(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def fill(place: Path, ages: dict[int, float], size: int = 100) -> None:
    """Write entries as another process would, last used `ages[number]` seconds ago."""
    place.mkdir(mode=0o700, exist_ok=True)
    for number, age in ages.items():
        path = place / kernel_file_name(name(number))
        path.write_bytes(bytes(size))
        age_to(path, age)


def left(place: Path) -> list[int]:
    return sorted(int(item.name, 16) for item in LruFolder(place, 0).entries())
