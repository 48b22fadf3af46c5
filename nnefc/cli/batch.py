"""The option `--batch` of the commands that run or compile a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from nnefc.cli.models import read
from nnefc.cli.options import usage

if TYPE_CHECKING:
    from nnefc.frontends.tract.source import Source
    from nnefc.ir import Graph

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
    dialect: str = "auto",
) -> list[str]:
    """`--shape` options that make `batch` the first dimension of the externals of a model.

    Those with a shape of their own in `shapes`, and those without dimensions, keep theirs, as do
    those with symbols behind the first dimension.
    """
    given = list(shapes or ())
    if batch is None:
        return given
    outline = read(model, shapes=shapes, limits=limits, data=False, quiet=True, dialect=dialect)
    own = {option.partition("=")[0] for option in given}
    for name, dims in _shapes(outline).items():
        if dims and name not in own and min(dims[1:], default=1) > 0:
            given.append(f"{name}={','.join(map(str, (batch, *dims[1:])))}")
    if own and len(given) == len(own):
        raise usage(
            f"--batch {batch} changes nothing: --shape names every external",
            "write the batch into the shape, and leave --batch out",
        )
    return given


def _shapes(outline: Graph | Source) -> dict[str, tuple[int, ...]]:
    """Shapes of the externals of a model by name; -1 is an extent that is not known."""
    from nnefc.ir import Graph

    if isinstance(outline, Graph):
        return {value.name: value.type.dims for value in outline.inputs}
    return {name: type_.dims for name, type_ in outline.types().items()}
