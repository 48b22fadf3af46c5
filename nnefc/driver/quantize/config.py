"""`QuantizeConfig`: how a graph is quantized."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, cast, get_args

from nnefc.options.arguments import check_threads
from nnefc.support.errors import Diagnostic, NnefError

Activations = Literal["uint8", "int8"]
ObserverName = Literal["min-max", "percentile", "entropy", "mean-square"]

PERCENTILE: Final = 99.99
"""The percentage of items that the observer "percentile" covers by default."""


class QuantizeConfig(NamedTuple):
    """How a graph is quantized; `of` checks values from callers."""

    activations: Activations = "uint8"
    """The type of the codes of activations."""
    observer: ObserverName = "mean-square"
    """How the range of an activation is chosen."""
    percentile: float = PERCENTILE
    """For the observer "percentile": the percentage of items in the range."""
    threads: int | None = None
    """Threads that a call of the graph may use; None: all usable CPUs."""

    @classmethod
    def of(
        cls,
        activations: object,
        observer: object,
        percentile: object = None,
        threads: object = None,
    ) -> QuantizeConfig:
        """A checked configuration; raises NnefError `input/argument` with all errors, and
        `input/threads`.
        """
        count = check_threads(threads)
        problems: list[Diagnostic] = []
        choices = {
            "activations": (activations, get_args(Activations)),
            "observer": (observer, get_args(ObserverName)),
        }
        for name, (value, known) in choices.items():
            if value not in known:
                listed = ", ".join(map(repr, known))
                message = f"{name} = {value!r}: must be one of {listed}"
                problems.append(Diagnostic("input/argument", message))
        percent = PERCENTILE if percentile is None else _percentage(percentile)
        if not 0 < percent <= 100:
            message = f"percentile = {percentile!r}: must be above 0 and at most 100"
            problems.append(Diagnostic("input/argument", message))
        if percentile is not None and observer != "percentile":
            message = f"percentile = {percentile!r}: only for the observer 'percentile'"
            problems.append(Diagnostic("input/argument", message))
        if problems:
            raise NnefError(problems)
        return cls(cast("Activations", activations), cast("ObserverName", observer), percent, count)


def _percentage(value: object) -> float:
    """A number of a caller; 0, which is refused, for other values."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return 0.0
