"""`GuardWatch`: whether a step of a computation depended on symbols."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from nnefc.symbolic.integers import Trace


class GuardWatch:
    """Tells whether a trace was asked for guards since the current step began.

    A step within `conditional` may only run for some values of the symbols, which any guard before
    may have decided.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._before = trace.asked
        self._depth = 0

    def begin(self) -> None:
        """Begin a step."""
        self._before = self._trace.asked

    @contextmanager
    def conditional(self) -> Generator[None]:
        """Steps in the block may not run for all values of the symbols."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def has_asked(self, *, may_run: bool) -> bool:
        """Whether what the step does depends on guards; `may_run`: or whether it runs at all."""
        return self._trace.asked != (0 if may_run and self._depth else self._before)
