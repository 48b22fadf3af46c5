"""A compared tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from nnefc.cli.compare.deviation import Deviation

Kind = Literal["tensor", "output", "state", "against"]
"""A value of the second compilation; a result or state of the model as usually compiled; or such a
result, compared with that of another engine.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A compared tensor."""

    tensor: str
    operation: str
    """The operation that computes it; "" for results and states."""
    kind: Kind
    shape: tuple[int, ...]
    deviation: Deviation
    result: bool = False
    """Whether a tensor appears again as an output."""
    call: int | None = None
    """The call of a session, from 1; None without a session."""

    def facts(self, tolerance: float) -> dict[str, Any]:
        """The row as a JSON object."""
        return {
            **({} if self.call is None else {"call": self.call}),
            "tensor": self.tensor,
            "operation": self.operation,
            "kind": self.kind,
            "result": self.result,
            "shape": list(self.shape),
            **self.deviation.facts(),
            "agrees": self.deviation.agrees(tolerance),
        }
