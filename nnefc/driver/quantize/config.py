"""`QuantizeConfig`: how a graph is quantized."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, cast, get_args

from nnefc.options.arguments import check_flags, check_threads
from nnefc.options.import_config import IMPORT_OPTIONS, ImportOptions
from nnefc.support.errors import Diagnostic, NnefError

Activations = Literal["uint8", "int8"]
ObserverName = Literal["min-max", "percentile", "entropy", "mean-square"]

PERCENTILE: Final = 99.99
"""The percentage of items that the observer "percentile" covers by default."""


class QuantizeOptions(ImportOptions, total=False):
    """How a model is quantized, in addition to how it is imported; all keys are optional."""

    activations: Activations
    """The type of the codes of activations: "uint8" (default) or "int8"."""
    observer: ObserverName
    """How the range of an activation is chosen.  "min-max" covers all values, "percentile" leaves
    out the outermost ones, "entropy" keeps the distribution of values by Kullback-Leibler
    divergence, "mean-square" (default) has the least mean square error."""
    percentile: float | None
    """For the observer "percentile": the percentage of values in the range; default: 99.99."""
    keep: Iterable[str]
    """Names of layers that stay reals: the names of their results."""
    signal_to_noise: float | None
    """The least ratio of every output in decibels: the layers that make the most noise stay reals,
    as few as possible.  The model runs on the samples once for each layer."""
    correct_bias: bool
    """Subtract the mean error that rounding makes in each channel of a convolution or linear layer
    from its bias; default: False.  The samples are read twice."""
    equalise: bool
    """Balance the ranges of the channels between layers first, by factors that move from the
    weights of one to those of the next (Nagel et al., 2019); default: False."""
    mean: float | Sequence[float] | None
    """Subtracted from the values 0..1 of pictures: a number, or one for each channel."""
    std: float | Sequence[float] | None
    """Divides the values of pictures after that."""
    layout: Literal["auto", "nchw", "nhwc"]
    """Axes of inputs that take pictures; "auto": "nhwc" if only the last axis can have the
    channels."""


QUANTIZE_OPTIONS: Final = tuple(
    name for name in QuantizeOptions.__annotations__ if name not in IMPORT_OPTIONS
)
"""The names of the options that an import does not have."""


class QuantizeConfig(NamedTuple):
    """How a graph is quantized; `of` checks values from callers."""

    activations: Activations = "uint8"
    """The type of the codes of activations."""
    observer: ObserverName = "mean-square"
    """How the range of an activation is chosen."""
    percentile: float = PERCENTILE
    """For the observer "percentile": the percentage of items in the range."""
    keep: tuple[str, ...] = ()
    """Names of layers that stay as they are."""
    signal_to_noise: float | None = None
    """The least ratio of each output in decibels; None: any."""
    correct_bias: bool = False
    """Biases take back the mean error of each channel."""
    equalise: bool = False
    """Channels between layers are balanced first."""
    threads: int | None = None
    """Threads that a call of the graph may use; None: all usable CPUs."""

    @classmethod
    def of(
        cls,
        activations: object,
        observer: object,
        percentile: object = None,
        *,
        keep: object = (),
        signal_to_noise: object = None,
        correct_bias: object = False,
        equalise: object = False,
        threads: object = None,
    ) -> QuantizeConfig:
        """A checked configuration; raises NnefError `input/argument` with all errors, and
        `input/threads`.
        """
        count = check_threads(threads)
        check_flags(correct_bias=correct_bias, equalise=equalise)
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
        percent = PERCENTILE if percentile is None else _number(percentile)
        if not 0 < percent <= 100:
            message = f"percentile = {percentile!r}: must be above 0 and at most 100"
            problems.append(Diagnostic("input/argument", message))
        if percentile is not None and observer != "percentile":
            message = f"percentile = {percentile!r}: only for the observer 'percentile'"
            problems.append(Diagnostic("input/argument", message))
        names = _names(keep)
        if names is None:
            message = f"keep = {keep!r}: expected names of layers"
            problems.append(Diagnostic("input/argument", message, hint="for example ['conv1']"))
        ratio = None if signal_to_noise is None else _number(signal_to_noise)
        if ratio is not None and not math.isfinite(ratio):
            message = f"signal_to_noise = {signal_to_noise!r}: expected a number of decibels"
            problems.append(Diagnostic("input/argument", message))
        if problems:
            raise NnefError(problems)
        return cls(
            cast("Activations", activations),
            cast("ObserverName", observer),
            percent,
            names or (),
            ratio,
            bool(correct_bias),
            bool(equalise),
            count,
        )


def _number(value: object) -> float:
    """A number of a caller; NaN for other values."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return math.nan


def _names(value: object) -> tuple[str, ...] | None:
    """Names in an iterable of a caller; None for other values."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return None
    names = tuple(cast("Iterable[object]", value))
    return cast("tuple[str, ...]", names) if all(isinstance(n, str) for n in names) else None
