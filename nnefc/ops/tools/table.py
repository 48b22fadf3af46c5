"""The table of all operations."""

from __future__ import annotations

import importlib
from functools import cache

from nnefc.ops.core.spec import OpSpec, SpecTable

MODULES = (
    "standard.introduce",
    "standard.unary",
    "standard.elementwise",
    "standard.convolution",
    "standard.window",
    "standard.sampling",
    "standard.reduce",
    "standard.shape",
    "standard.splitting",
    "standard.slicing",
    "standard.roi",
    "standard.matmul",
    "standard.activation",
    "standard.pooling",
    "standard.normalization",
    "standard.quantization",
    "standard.misc",
    "extended.arithmetic",
    "extended.indexing",
    "extended.ordering",
    "extended.resampling",
    "extended.grid",
    "extended.fourier",
    "extended.block_quantized",
    "extended.iota",
    "extended.append",
    "internal.fused",
    "internal.mean_variance",
    "internal.attention",
    "internal.fused_views",
    "internal.layout",
    "internal.scan",
)
"""Modules of `nnefc.ops` that have `SPECS`, in the order of the specification."""

BEYOND_ATTRIBUTES = frozenset({("elu", "alpha"), ("slice", "stride")})
"""Attributes that 1.0.2 does not have of operations that it has."""


@cache
def operations() -> SpecTable:
    """All operations of the IR by name, internal ones included."""
    table = SpecTable()
    for module in MODULES:
        specs: tuple[OpSpec, ...] = importlib.import_module(f"nnefc.ops.{module}").SPECS
        for entry in specs:
            table.register(entry)
    return table


@cache
def declared() -> SpecTable:
    """Operations that have a declaration: all that are not internal."""
    table = SpecTable()
    for entry in operations().values():
        if not entry.is_internal:
            table.register(entry)
    return table


@cache
def standard() -> SpecTable:
    """What documents may use without declaring it: NNEF's operations and those beyond 1.0.2.

    Those of tract's registries are operations of the IR alone, which another front end makes.
    """
    table = SpecTable()
    for entry in declared().values():
        if entry.section != "tract":
            table.register(entry)
    return table


def spec(name: str) -> OpSpec:
    """The operation of that name; raises KeyError if there is none."""
    return operations()[name]


def beyond(name: str, attribute: str | None = None) -> bool:
    """Whether an operation, or an attribute of it, is one that NNEF 1.0.2 does not have."""
    if attribute is not None and (name, attribute) in BEYOND_ATTRIBUTES:
        return True
    return spec(name).section == "beyond"
