"""Callbacks that report the progress of long work, such as compiling."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""`progress(done, total, label)`: called before each step with its label, and once at the end."""
