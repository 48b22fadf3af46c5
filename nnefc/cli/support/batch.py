"""The option `--batch` of the commands that run or compile a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from nnefc.cli.support.models import read
from nnefc.cli.support.options import parse_import, parse_shapes, usage

if TYPE_CHECKING:
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.ir import Graph, Shape

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

    Those with a shape of their own in `shapes`, and those without dimensions, keep theirs.
    """
    given = list(shapes or ())
    if batch is None:
        return given
    config = parse_import(shapes=shapes, limits=limits, data=False, dialect=dialect)
    outline = read(model, config, quiet=True)
    own = parse_shapes(given) or {}
    for name, extents in _shapes(outline, own).items():
        if not extents or name in own:
            continue
        wanted = [str(batch), *extents[1:]]
        if symbols := [extent for extent in wanted if not extent.isdecimal()]:
            raise usage(
                f"--batch {batch} is one extent of {name}: [{','.join(extents)}]",
                f"give them all, as --shape {name}={','.join(wanted)} with numbers for "
                f"{', '.join(symbols)}",
            )
        given.append(f"{name}={','.join(wanted)}")
    if own and len(given) == len(own):
        raise usage(
            f"--batch {batch} changes nothing: --shape names every external",
            "write the batch into the shape, and leave --batch out",
        )
    return given


def _shapes(outline: Graph | GraphSource, own: Mapping[str, Shape]) -> dict[str, Sequence[str]]:
    """Shapes of the externals of a model by name; extents may be symbols."""
    from nnefc.ir import Graph

    if isinstance(outline, Graph):
        return {value.name: [*map(str, value.type.dims)] for value in outline.inputs}
    return {each.name: each.extents for each in outline.shapes(outline.symbol_values(own))}
