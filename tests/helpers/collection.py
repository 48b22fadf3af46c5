"""Garbage collection in processes that have run many tests."""

from __future__ import annotations

import gc


def collect_and_freeze() -> None:
    """Collect garbage, and leave out of later collections what lives now.

    After some thousand tests, more than a second of each full collection goes to their objects.
    """
    gc.collect()
    gc.freeze()
