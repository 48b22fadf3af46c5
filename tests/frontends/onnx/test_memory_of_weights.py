"""A process that has compiled a model has its weights in memory once, wherever their file is."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.compile_memory import FILES, measure

MEGABYTES = 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "batch", "cache"),
    [
        ("in the message", 4, False),
        ("in the message", 4, True),
        ("in the message", "N", False),
        ("external data", 4, False),
    ],
)
def test_weights_are_in_memory_once(
    tmp_path: Path, where: str, batch: int | str, cache: bool
) -> None:
    """The numbers include modules that are imported meanwhile, some 20 MB."""
    memory = measure(tmp_path, MEGABYTES, FILES[where], batch, cache=cache)
    ratios = [each / (MEGABYTES * 1e6) for each in memory]
    peak, compiled, called, saved = ratios
    assert peak < 1.15, ratios
    assert compiled < (0.4 if cache else 1.15), ratios
    assert 0.9 < called < (1.4 if cache else 1.15), ratios
    assert saved < 1.6, ratios
