"""`ImportConfig`: how a document becomes a graph, made from the `ImportOptions` of a caller."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict

from nnefc.options.arguments import (
    Dialect,
    Integer,
    Scalar,
    check_dialect,
    check_flags,
    check_import_arguments,
    check_integer,
    check_limits,
    check_scalar,
)
from nnefc.support.errors import Diagnostics

if TYPE_CHECKING:
    from nnefc.support.limits import Limits

Shapes = Mapping[str, Sequence[int]]
Path = str | os.PathLike[str]

_NO_SHAPES: Final[Shapes] = {}
_NO_SYMBOLS: Final[Mapping[str, int]] = {}


class ImportOptions(TypedDict, total=False):
    """How a document becomes a graph; all keys are optional."""

    shapes: Shapes | None
    """Shapes of externals by name, which replace those of the document."""
    symbols: Mapping[str, int] | None
    """Values of symbols in the shapes of a document, by name; extents that they determine are
    fixed."""
    scalar: str
    """Item type of `tensor<scalar>`: "float32" (default) or "float64"."""
    integer: str
    """Item type of `tensor<integer>`: "int32" (default) or "int64"."""
    random_weights: int | None
    """Seed of random values for variables without data; missing data is an error otherwise."""
    quantize: bool
    """Apply `graph.quant` if the model has it; default: True."""
    limits: Limits | None
    """Bounds on hostile input."""
    dialect: str
    """The dialect of the document: "auto", "nnef" or "tract"."""


IMPORT_OPTIONS: Final = tuple(ImportOptions.__annotations__)
"""The names of all import options."""


class ImportConfig(NamedTuple):
    """How a document becomes a graph; `import_config` makes one from a caller's options."""

    shapes: Shapes = _NO_SHAPES
    """Shapes of externals that replace those of the document, by name."""
    symbols: Mapping[str, int] = _NO_SYMBOLS
    """Values of symbols by name, sorted."""
    scalar: Scalar = "float32"
    """Item type of `tensor<scalar>`; documents in tract's dialect name their own."""
    integer: Integer = "int32"
    """Item type of `tensor<integer>`; documents in tract's dialect name their own."""
    random_weights: int | None = None
    """Seed of random values for variables without data; None: missing data is an error."""
    quantize: bool = True
    """Apply the quantization file, if the model has one; it is always checked."""
    chosen_limits: Limits | None = None
    """Bounds on hostile input; None: the default ones."""
    dialect: Dialect = "auto"
    """The dialect of the document; "auto" chooses tract's if the document names one of its
    extensions and `strict` is False."""
    strict: bool = False
    """Accept NNEF 1.0.2 only: warnings are errors."""
    load_data: bool = True
    """Read the data of variables."""
    require_data: bool = True
    """A model without any data is an error; data of only some variables always is."""
    records: bool = True
    """Compute the operators that `nnefc convert` recorded beside the standard ones."""

    @property
    def limits(self) -> Limits:
        """Bounds on hostile input."""
        return self.chosen_limits or _default_limits()

    def diagnostics(self) -> Diagnostics:
        """A new collector of the errors and warnings of an import."""
        return Diagnostics(strict=self.strict, limit=self.limits.errors)


@cache
def _default_limits() -> Limits:
    from nnefc.support.limits import Limits

    return Limits()


DEFAULT: Final = ImportConfig()
"""The configuration of an import without options."""


def import_config(
    source: object,
    options: ImportOptions,
    *,
    strict: bool = False,
    load_data: bool = True,
) -> ImportConfig:
    """The configuration for checked options; the type of `source` is checked, too.

    Raises NnefError `input/...` for wrong values.
    """
    shapes, symbols, seed = check_import_arguments(
        source, options.get("shapes"), options.get("symbols"), options.get("random_weights")
    )
    quantize = options.get("quantize", True)
    check_flags(strict=strict, quantize=quantize, load_data=load_data)
    return ImportConfig(
        shapes=shapes,
        symbols=symbols,
        scalar=check_scalar(options.get("scalar", "float32")),
        integer=check_integer(options.get("integer", "int32")),
        random_weights=seed,
        quantize=bool(quantize),
        chosen_limits=check_limits(options.get("limits")),
        dialect=check_dialect(options.get("dialect", "auto")),
        strict=bool(strict),
        load_data=bool(load_data),
    )
