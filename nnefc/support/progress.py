"""The type of callbacks that report the progress of compiling and other long tasks."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""`progress(done, total, label)`: called before each step with its label, and once at the end."""
