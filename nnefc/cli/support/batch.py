"""Shapes for `--batch`: the option of the commands that run or compile a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nnefc.cli.support.import_and_compile import read
from nnefc.cli.support.options import parse_import, parse_shapes, usage

if TYPE_CHECKING:
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.ir import Graph, Shape


def batch_shapes(
    model: str,
    batch: int | None,
    shapes: Sequence[str] | None,
    symbols: Sequence[str] | None = None,
    limits: Sequence[str] | None = None,
    dialect: str = "auto",
) -> list[str]:
    """`--shape` options that make `batch` the first dimension of the externals of a model.

    Externals that `shapes` names, and those of rank 0, keep their shapes.  Raises NnefError if
    another extent of an external is a symbol without a value, or if `shapes` names them all.
    """
    options = list(shapes or ())
    if batch is None:
        return options
    config = parse_import(
        shapes=shapes, symbols=symbols, limits=limits, data=False, dialect=dialect
    )
    outline = read(model, config, quiet=True)
    typed = parse_shapes(options) or {}
    for name, extents in _shapes(outline, typed).items():
        if not extents or name in typed:
            continue
        shape = [str(batch), *extents[1:]]
        if unknown := [extent for extent in shape if not extent.isdecimal()]:
            raise usage(
                f"--batch {batch} is one extent of {name}: [{','.join(extents)}]",
                f"name them all, as in --shape {name}={','.join(shape)} with numbers for "
                f"{', '.join(unknown)}, or give the symbols with --symbol",
            )
        options.append(f"{name}={','.join(shape)}")
    if typed and len(options) == len(typed):
        raise usage(
            f"--batch {batch} changes nothing: --shape names every external",
            "write the batch into the shape, and leave --batch out",
        )
    return options


def _shapes(outline: Graph | GraphSource, typed: Mapping[str, Shape]) -> dict[str, Sequence[str]]:
    """Shapes of the externals of a model by name; extents may be symbols.

    `typed`: shapes from `--shape`, which give symbols their values.
    """
    from nnefc.ir import Graph

    if isinstance(outline, Graph):
        return {value.name: [*map(str, value.type.dims)] for value in outline.inputs}
    return {each.name: each.extents for each in outline.shapes(outline.symbol_values(typed))}
