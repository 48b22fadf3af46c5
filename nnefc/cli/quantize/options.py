"""The options of `nnefc quantize` that choose codes, layers, and how pictures are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated

import typer

from nnefc.cli.support.options import choice
from nnefc.cli.support.pictures import Layout, Mean, PictureOptions, Std

if TYPE_CHECKING:
    from nnefc.driver.quantize.config import QuantizeConfig, WeightsConfig
    from nnefc.driver.quantize.samples import Pictures

Weights = Annotated[
    str | None,
    choice(
        "--weights",
        ["q8_0", "q4_0"],
        "Quantize weights of products alone, in blocks of 32 codes of 8 or 4 bits with a scale, as "
        "llama.cpp does; for language models. Takes no samples.",
    ),
]
Activations = Annotated[
    str,
    choice(
        "--activations",
        ["uint8", "int8", "int16"],
        "Type of the codes of activations; 16 stands for int16.",
    ),
]
Observer = Annotated[
    str,
    choice(
        "--observer",
        ["min-max", "percentile", "entropy", "mean-square"],
        "How the range of an activation is chosen: all values, all but the outermost ones, the "
        "least divergence of distributions, or the least mean square error.",
    ),
]
Percentile = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        help="For --observer percentile: the percentage of values in the range (default: 99.99).",
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LAYER|P%",
        help="Leave a layer of the table as it is; repeatable. With a percentage such as 0.5%, "
        "leave the layers that cost most accuracy, so that each output loses at most so much by "
        "its measure. That runs the model up to three times for each layer.",
    ),
]
MeasureName = Annotated[
    str | None,
    choice(
        "--measure",
        ["top-1", "cosine", "psnr"],
        "How each output is compared with that of the model of reals: the part with the same first "
        "class, the cosine, or the root mean square error as a part of the range (default: by the "
        "kind of output).",
    ),
]
SignalToNoise = Annotated[
    float | None,
    typer.Option(
        metavar="DB",
        help="Leave the layers that make the most noise as they are, so that each output has at "
        "least this ratio. This runs the model up to three times for each layer.",
    ),
]
CorrectBias = Annotated[
    bool,
    typer.Option(
        "--correct-bias",
        help="Subtract the mean error that rounding makes in each channel of a convolution or "
        "linear layer from its bias.",
    ),
]
Equalise = Annotated[
    bool,
    typer.Option(
        "--equalise",
        help="Balance the ranges of the channels between layers first, by factors that move from "
        "the weights of one to those of the next.",
    ),
]


@dataclass(frozen=True, slots=True)
class ChoiceOptions:
    """How codes and layers are chosen, as typed."""

    weights: Weights = None
    activations: Activations = "uint8"
    observer: Observer = "mean-square"
    percentile: Percentile = None
    keep: Keep = None
    measure: MeasureName = None
    signal_to_noise: SignalToNoise = None
    correct_bias: CorrectBias = False
    equalise: Equalise = False

    def config(self, threads: int | None) -> QuantizeConfig:
        """The checked options; raises NnefError with all errors."""
        from nnefc.driver.quantize.config import QuantizeConfig

        return QuantizeConfig.of(
            "int16" if self.activations == "16" else self.activations,
            self.observer,
            self.percentile,
            keep=self.keep or (),
            measure=self.measure,
            signal_to_noise=self.signal_to_noise,
            correct_bias=self.correct_bias,
            equalise=self.equalise,
            threads=threads,
        )

    def weights_config(self, others: Mapping[str, object]) -> WeightsConfig:
        """The checked options for weights alone; raises NnefError with all errors.

        `others`: options about samples, as typed; None is not given.
        """
        from nnefc.driver.quantize.config import WeightsConfig

        given = [name for name, value in others.items() if value is not None]
        for each in fields(self):
            if each.name not in ("weights", "keep") and getattr(self, each.name) != each.default:
                given.append(f"--{each.name.replace('_', '-')}")
        return WeightsConfig.of(self.weights, self.keep or (), given)


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """How pictures become samples, as typed."""

    mean: Mean = None
    std: Std = None
    layout: Layout = "auto"

    def given(self) -> dict[str, object]:
        """The options by name; None for those that were not typed."""
        layout = None if self.layout == "auto" else self.layout
        return {"--mean": self.mean, "--std": self.std, "--layout": layout}

    def pictures(self) -> Pictures:
        """The checked options; raises NnefError with all errors."""
        from nnefc.driver.quantize.samples import Pictures

        return Pictures(*PictureOptions.of(self.mean, self.std, self.layout))
