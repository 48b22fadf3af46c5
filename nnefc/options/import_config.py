"""`ImportConfig`: how a document becomes a graph, made from the `ImportOptions` of a caller."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypedDict

from nnefc.ir import DType
from nnefc.options.arguments import (
    Dialect,
    check_dialect,
    check_flags,
    check_import_arguments,
    check_limits,
)
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.limits import Limits

Shapes = Mapping[str, Sequence[int]]
Path = str | os.PathLike[str]

_NO_SHAPES: Final[Shapes] = {}
_SCALARS: Final = (DType.FLOAT32, DType.FLOAT64)
_INTEGERS: Final = (DType.INT32, DType.INT64)


class ImportOptions(TypedDict, total=False):
    """How a document becomes a graph; every one may be left out."""

    shapes: Shapes | None
    """New shapes of externals, by name; they propagate."""
    scalar: str
    """Type that computes `tensor<scalar>`: "float32" (unless given) or "float64"."""
    integer: str
    """Type of `tensor<integer>`: "int32" (unless given) or "int64"."""
    random_weights: int | None
    """Seed; fills variables that have no data, which are otherwise an error."""
    quantize: bool
    """Apply `graph.quant` if there is one, as is done unless this is False."""
    limits: Limits | None
    """Bounds on hostile input."""
    dialect: str
    """How the document is to be understood: "auto", "nnef" or "tract"."""


IMPORT_OPTIONS: Final = tuple(ImportOptions.__annotations__)
"""The names of all import options."""


class ImportConfig(NamedTuple):
    """How a document becomes a graph; `import_config` checks what a caller gave."""

    shapes: Shapes = _NO_SHAPES
    """Shapes of externals that replace those of the document, by name."""
    scalar: DType = DType.FLOAT32
    """Item type of `tensor<scalar>`; documents of tract name their own."""
    integer: DType = DType.INT32
    """Item type of `tensor<integer>`; documents of tract name their own."""
    random_weights: int | None = None
    """Seed of the values of variables that have no data; None: missing data is an error."""
    quantize: bool = True
    """Apply the quantization file, if the model has one; it is checked in any case."""
    limits: Limits = Limits()
    """Bounds on hostile input."""
    dialect: Dialect = "auto"
    """Which language the document is in; "auto" reads it as tract does if it names an extension of
    tract, and `strict` is False."""
    strict: bool = False
    """NNEF 1.0.2 to the letter: warnings are errors."""
    load_data: bool = True
    """Read the data of variables."""
    require_data: bool = True
    """A model without any data is an error; data of only some variables always is."""

    def diagnostics(self) -> Diagnostics:
        """A new collector of the errors and warnings of an import."""
        return Diagnostics(strict=self.strict, limit=self.limits.errors)


DEFAULT: Final = ImportConfig()
"""How documents are imported where nothing else is asked for."""


def import_config(
    source: object,
    options: ImportOptions,
    *,
    strict: bool = False,
    load_data: bool = True,
) -> ImportConfig:
    """The checked options of an import of `source`, whose kind is checked as well.

    Raises NnefError `input/...` for values that are not allowed.
    """
    shapes, seed = check_import_arguments(
        source, options.get("shapes"), options.get("random_weights")
    )
    quantize = options.get("quantize", True)
    check_flags(strict=strict, quantize=quantize, load_data=load_data)
    return ImportConfig(
        shapes=shapes,
        scalar=_dtype("scalar", options.get("scalar", "float32"), _SCALARS),
        integer=_dtype("integer", options.get("integer", "int32"), _INTEGERS),
        random_weights=seed,
        quantize=bool(quantize),
        limits=check_limits(options.get("limits")),
        dialect=check_dialect(options.get("dialect", "auto")),
        strict=bool(strict),
        load_data=bool(load_data),
    )


def _dtype(option: str, name: object, allowed: Sequence[DType]) -> DType:
    for dtype in allowed:
        if dtype.value == name:
            return dtype
    listed = " or ".join(dtype.value for dtype in allowed)
    raise NnefError.of("input/dtype", f"{option} = {name!r}: must be {listed}")
