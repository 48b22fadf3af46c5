"""Count the resources that the expansion of a document takes, and check their limits."""

from __future__ import annotations

from collections import Counter

from nnefc.support.errors import Place, Step
from nnefc.support.limits import Limits

STEPS_OF_OPERATION = 10
"""Steps of an operation of the graph; each operand and result is one more."""


class Budget:
    """Counts items, steps and operations of the expansion of a document of `size` characters.

    Methods raise Exhausted when a limit is exceeded.
    """

    def __init__(self, limits: Limits, size: int = 0) -> None:
        self.limits = limits
        self.items = 0
        self.steps = 0
        self.operations = 0
        self.invocations: Counter[str] = Counter()
        """How often each fragment is expanded."""
        # expressions written in the document take steps linear in its size
        self.allowed_steps = limits.steps + 2 * size

    def take_items(self, count: int) -> None:
        """Account for the items of a new array or string before it is built."""
        self.items += count
        if self.items > self.limits.items:
            raise Exhausted("items", f"more than {self.limits.items:,} array items are built")

    def take_steps(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > self.allowed_steps:
            raise Exhausted("steps", f"expansion takes more than {self.allowed_steps:,} steps")

    def take_operation(self, tensors: int) -> None:
        """Account for an operation with this number of operands and results."""
        self.operations += 1
        self.take_steps(STEPS_OF_OPERATION + tensors)
        if self.operations > self.limits.operations:
            message = f"the graph expands to more than {self.limits.operations:,} operations"
            raise Exhausted("operations", message)


class Exhausted(Exception):
    """A limit is exceeded; `limit` is its name in `Limits`.

    `place`: of the current statement; `chain`: of the invocations that led there.
    """

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(message)
        self.limit = limit
        self.message = message
        self.place: Place | None = None
        self.chain: tuple[Step, ...] = ()
