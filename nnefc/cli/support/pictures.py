"""The options that say how pictures become inputs: `--mean`, `--std` and `--layout`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from nnefc.cli.support.options import choice, usage
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError

if TYPE_CHECKING:
    from io import BytesIO
    from pathlib import Path

    import numpy as np

    from nnefc.ir import TensorType

Mean = Annotated[
    str | None,
    typer.Option(
        "--mean",
        metavar="M[,M...]",
        help="Subtract from the values 0..1 of pictures: a number, or one for each channel, as in "
        "0.485,0.456,0.406.",
    ),
]
Std = Annotated[
    str | None,
    typer.Option(
        "--std",
        metavar="S[,S...]",
        help="Divide the values of pictures, after --mean: a number, or one for each channel, as "
        "in 0.229,0.224,0.225.",
    ),
]
Layout = Annotated[
    str,
    choice(
        "--layout",
        ["auto", "nchw", "nhwc"],
        "Axes of the inputs that take pictures; auto: nhwc if only the last axis can have the "
        "channels.",
    ),
]


class PictureOptions(NamedTuple):
    """The checked options."""

    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    layout: str = "auto"

    @classmethod
    def of(cls, mean: str | None, std: str | None, layout: str) -> PictureOptions:
        """The options, as they were typed; raises NnefError with all errors."""
        problems: list[Diagnostic] = []
        means = _numbers("--mean", mean, problems)
        divisors = _numbers("--std", std, problems)
        if divisors is not None and 0.0 in divisors:
            problems += usage(f"--std {std}: pictures cannot be divided by 0").errors
        if layout not in ("auto", "nchw", "nhwc"):
            problems += usage(f"--layout {layout}: must be auto, nchw or nhwc").errors
        if problems:
            raise NnefError(problems)
        return cls(means, divisors, layout)

    def check(self, has_pictures: bool) -> None:
        """Raise NnefError if options are given, but no picture."""
        if self == AS_THEY_ARE or has_pictures:
            return
        typed = {"--mean": self.mean, "--std": self.std, "--layout": self.layout}
        given = [option for option, value in typed.items() if value not in (None, "auto")]
        raise usage(
            f"{', '.join(given)}: for pictures, and no --input is one",
            "arrays are passed to the model as they are",
        )

    def read(
        self, source: Path | BytesIO, type_: TensorType, notes: Diagnostics
    ) -> np.ndarray[Any, Any]:
        """A picture as a tensor; `notes` get the losses."""
        from nnefc.formats.image import read_image

        return read_image(
            source,
            type_.dims,
            type_.dtype.numpy,
            mean=self.mean,
            std=self.std,
            layout=self.layout,
            diagnostics=notes,
        )


AS_THEY_ARE: Final = PictureOptions()
"""Pictures with values 0..1 (integers: 0..255)."""


def _numbers(option: str, text: str | None, problems: list[Diagnostic]) -> tuple[float, ...] | None:
    """The numbers of an option; an error in `problems` if they are none."""
    if text is None:
        return None
    try:
        numbers = tuple(map(float, text.split(",")))
    except ValueError:
        numbers = (math.nan,)
    if not all(map(math.isfinite, numbers)):
        problems += usage(f"{option} {text}: expected numbers, as in {option} 0.5,0.5,0.5").errors
    return numbers
