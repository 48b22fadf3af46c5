"""The option `--batch` of the commands that run or compile a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from nnefc.cli.models import load
from nnefc.cli.options import usage

Batch = Annotated[
    int | None,
    typer.Option(
        "--batch",
        "-b",
        metavar="N",
        min=1,
        help="Replace the first dimension of every external that --shape does not name.",
    ),
]


def batch_shapes(
    model: str,
    batch: int | None,
    shapes: Sequence[str] | None,
    limits: Sequence[str] | None = None,
) -> list[str]:
    """`--shape` options that make `batch` the first dimension of the externals of a model.

    Those with a shape of their own in `shapes`, and those without dimensions, keep theirs.
    """
    given = list(shapes or ())
    if batch is None:
        return given
    outline = load(model, shapes=shapes, limits=limits, data=False, quiet=True)
    own = {option.partition("=")[0] for option in given}
    for value in outline.inputs:
        if value.type.dims and value.name not in own:
            extents = (batch, *value.type.dims[1:])
            given.append(f"{value.name}={','.join(map(str, extents))}")
    if own and len(given) == len(own):
        raise usage(
            f"--batch {batch} changes nothing: --shape names every external",
            "write the batch into the shape, and leave --batch out",
        )
    return given
