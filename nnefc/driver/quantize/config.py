"""`QuantizeConfig`: how a graph is quantized."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, cast, get_args

from nnefc.driver.quantize.agreement import Measure
from nnefc.driver.quantize.block_codes import WeightFormat
from nnefc.options.arguments import check_flags, check_threads
from nnefc.options.import_config import IMPORT_OPTIONS, ImportOptions
from nnefc.support.errors import Diagnostic, NnefError

Activations = Literal["uint8", "int8", "int16"]
ObserverName = Literal["min-max", "percentile", "entropy", "mean-square"]

PERCENTILE: Final = 99.99
"""The percentage of items that the observer "percentile" covers by default."""


class QuantizeOptions(ImportOptions, total=False):
    """How a model is quantized, in addition to how it is imported; all keys are optional."""

    weights: WeightFormat | None
    """Quantize weights alone, in blocks of 32 codes with a scale of 16 bits: "q8_0" with codes of 8
    bits, "q4_0" of 4.  Samples and options for them are then errors, but `keep` takes names."""
    activations: Activations
    """The type of the codes of activations: "uint8" (default), "int8", or "int16", whose zero point
    is 0."""
    observer: ObserverName
    """How the range of an activation is chosen.  "min-max" covers all values, "percentile" leaves
    out the outermost ones, "entropy" keeps the distribution of values by Kullback-Leibler
    divergence, "mean-square" (default) has the least mean square error."""
    percentile: float | None
    """For the observer "percentile": the percentage of values in the range; default: 99.99."""
    keep: str | Iterable[str]
    """Layers that stay reals: names of their results, or a bound such as "0.5%", or both.  With a
    bound, the layers that cost most accuracy stay, so that every output loses at most so much by
    its `measure`.  The model runs on the samples at most three times for each layer."""
    measure: Measure | None
    """What a bound in `keep` limits: "top-1" the part of the samples with another first class,
    "cosine" 1 - cosine, "psnr" the root mean square error as a part of the range.  None (default):
    "top-1" for class scores, "cosine" for embeddings and sequences, "psnr" for pictures."""
    signal_to_noise: float | None
    """The least ratio of every output in decibels: the layers that make the most noise stay
    reals.  The model runs on the samples at most three times for each layer."""
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
    most_loss: float | None = None
    """The largest loss of each output in percent; None: any."""
    measure: Measure | None = None
    """How losses are measured; None: by the kind of output."""
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
        measure: object = None,
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
            "measure": (measure, (None, *get_args(Measure))),
        }
        for name, (value, known) in choices.items():
            if value not in known:
                listed = ", ".join(repr(each) for each in known if each)
                message = f"{name} = {value!r}: must be one of {listed}"
                problems.append(Diagnostic("input/argument", message))
        percent = _checked_percentile(percentile, observer, problems)
        ratio = None if signal_to_noise is None else _number(signal_to_noise)
        if ratio is not None and not math.isfinite(ratio):
            message = f"signal_to_noise = {signal_to_noise!r}: expected a number of decibels"
            problems.append(Diagnostic("input/argument", message))
        names, most_loss = _kept(keep, ratio, problems)
        if problems:
            raise NnefError(problems)
        return cls(
            cast("Activations", activations),
            cast("ObserverName", observer),
            percent,
            names,
            most_loss,
            cast("Measure | None", measure),
            ratio,
            bool(correct_bias),
            bool(equalise),
            count,
        )

    @property
    def chooses_layers(self) -> bool:
        """Whether a bound tells how many layers stay."""
        return self.signal_to_noise is not None or self.most_loss is not None


class WeightsConfig(NamedTuple):
    """How weights alone are quantized; `of` checks values from callers."""

    format: WeightFormat
    keep: tuple[str, ...] = ()
    """Names of results whose weights stay as they are."""

    @classmethod
    def of(cls, weights: object, keep: object, others: Iterable[str] = ()) -> WeightsConfig:
        """A checked configuration; raises NnefError `input/argument` with all errors.

        `others`: further options that the caller gave, which need samples.
        """
        problems: list[Diagnostic] = []
        if weights not in get_args(WeightFormat):
            listed = ", ".join(map(repr, get_args(WeightFormat)))
            message = f"weights = {weights!r}: must be one of {listed}"
            problems.append(Diagnostic("input/argument", message))
        names, most_loss = _kept(keep, None, problems)
        given = [*others, *(["a bound in keep"] if most_loss is not None else [])]
        if given:
            message = f"weights = {weights!r} needs no samples, so leave out {', '.join(given)}"
            hint = "or leave out weights, to quantize activations, too"
            problems.append(Diagnostic("input/argument", message, hint=hint))
        if problems:
            raise NnefError(problems)
        return cls(cast("WeightFormat", weights), names)


def _number(value: object) -> float:
    """A number of a caller; NaN for other values."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return math.nan


def _checked_percentile(percentile: object, observer: object, problems: list[Diagnostic]) -> float:
    """The percentage of values in the range."""
    percent = PERCENTILE if percentile is None else _number(percentile)
    if not 0 < percent <= 100:
        message = f"percentile = {percentile!r}: must be above 0 and at most 100"
        problems.append(Diagnostic("input/argument", message))
    if percentile is not None and observer != "percentile":
        message = f"percentile = {percentile!r}: only for the observer 'percentile'"
        problems.append(Diagnostic("input/argument", message))
    return percent


def _kept(
    keep: object, ratio: float | None, problems: list[Diagnostic]
) -> tuple[tuple[str, ...], float | None]:
    """The names of layers, and the bound in percent."""
    texts = (keep,) if isinstance(keep, str) and keep.endswith("%") else _names(keep)
    if texts is None:
        message, hint = f"keep = {keep!r}: expected names of layers", "for example ['conv1']"
        problems.append(Diagnostic("input/argument", message, hint=f"{hint} or '0.5%'"))
        return (), None
    bounds = [text for text in texts if text.endswith("%")]
    percents = [_percent(text) for text in bounds]
    if not all(0 <= percent < 100 for percent in percents):
        message = f"keep = {keep!r}: a bound must be at least 0% and below 100%"
        problems.append(Diagnostic("input/argument", message))
    if len(bounds) + (ratio is not None) > 1:
        message = f"keep = {keep!r}: only one bound can choose the layers that stay"
        problems.append(Diagnostic("input/argument", message))
    return tuple(text for text in texts if text not in bounds), min(percents, default=None)


def _percent(text: str) -> float:
    """The number before a percent sign; NaN for other texts."""
    try:
        return float(text.removesuffix("%"))
    except ValueError:
        return math.nan


def _names(value: object) -> tuple[str, ...] | None:
    """Names in an iterable of a caller; None for other values."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return None
    names = tuple(cast("Iterable[object]", value))
    return cast("tuple[str, ...]", names) if all(isinstance(n, str) for n in names) else None
