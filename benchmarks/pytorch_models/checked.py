"""What became of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from benchmarks.difference import TOLERANCE


class Status(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    EXPORT = "no export"
    """`torch.export` fails."""
    REFUSED = "refused"
    """nnefc reports an error, such as an operator that it does not have."""
    FAILED = "failed"
    """Another exception."""
    ENDED = "ended"
    """The process ran out of its time or memory, or crashed."""
    EAGER = "no model"
    """PyTorch itself cannot build or call the model."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a model."""

    name: str
    status: Status
    message: str = ""
    """Why there are no right results."""
    difference: float | None = None
    """The largest difference from eager, relative to the largest item of a result."""
    seconds: float | None = None
    """Seconds to export and compile."""
    parameters: int | None = None

    @staticmethod
    def compared(name: str, difference: float, seconds: float, parameters: int) -> Checked:
        """The result of a model that ran."""
        status = Status.RIGHT if difference <= TOLERANCE else Status.WRONG
        return Checked(name, status, "", difference, seconds, parameters)

    @staticmethod
    def read(facts: Mapping[str, Any]) -> Checked:
        """The result that JSON has as `facts`."""
        values: dict[str, Any] = {**facts, "status": Status(facts["status"])}
        return Checked(**values)
