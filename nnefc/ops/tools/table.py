"""The table of all operations."""

from __future__ import annotations

import importlib
from functools import cache

from nnefc.ir import Op
from nnefc.ops.core.spec import OpSpec, SpecTable
from nnefc.ops.core.traits import COMPOUND, Traits

MODULES = (
    "standard.external_constant_variable",
    "standard.unary",
    "standard.elementwise",
    "standard.convolution",
    "standard.box_and_sample",
    "standard.sampling",
    "standard.reduce",
    "standard.reshape_transpose",
    "standard.split_concat",
    "standard.slice_pad_tile_gather",
    "standard.roi",
    "standard.matmul",
    "standard.activation",
    "standard.pooling",
    "standard.normalization",
    "standard.quantization",
    "standard.copies_and_moments",
    "extended.arithmetic",
    "extended.fixed_point",
    "extended.gather_scatter",
    "extended.topk",
    "extended.suppression",
    "extended.weighted_gather",
    "extended.resize",
    "extended.grid_sample",
    "extended.fourier",
    "extended.block_quantized",
    "extended.quantized",
    "extended.integer_products",
    "extended.stepwise_conv",
    "extended.region_max",
    "extended.ordered_sum",
    "extended.iota",
    "extended.append",
    "internal.code_matmul",
    "internal.code_resize",
    "internal.code_softmax",
    "internal.code_sums",
    "internal.code_table",
    "internal.fused",
    "internal.mean_variance",
    "internal.attention",
    "internal.fused_views",
    "internal.layout",
    "internal.scan",
    "internal.branches",
)
"""Modules of `nnefc.ops` with a tuple `SPECS`, in the order of the specification."""


@cache
def operations() -> SpecTable:
    """All operations of the IR by name, including internal ones."""
    table = SpecTable()
    for module in MODULES:
        specs: tuple[OpSpec, ...] = importlib.import_module(f"nnefc.ops.{module}").SPECS
        for entry in specs:
            table.register(entry)
    return table


@cache
def declared() -> SpecTable:
    """Operations with a declaration: all but internal ones."""
    table = SpecTable()
    for entry in operations().values():
        if not entry.is_internal:
            table.register(entry)
    return table


@cache
def standard() -> SpecTable:
    """Operations that documents may use without declaring them: NNEF's, and those beyond 1.0.2.

    Operations of tract's registries are left out; only the tract front end builds them.
    """
    table = SpecTable()
    for entry in declared().values():
        if entry.section != "tract":
            table.register(entry)
    return table


def traits_of(op: Op) -> Traits:
    """The traits of an operation; `COMPOUND` for custom ones, which are not in the table."""
    entry = operations().get(op.name)
    return COMPOUND if entry is None else entry.traits


def spec(name: str) -> OpSpec:
    """The operation called `name`; raises KeyError if it does not exist."""
    return operations()[name]


def is_beyond_standard(name: str, attribute: str | None = None) -> bool:
    """Whether NNEF 1.0.2 lacks an operation, or one of its attributes."""
    entry = spec(name)
    return entry.section == "beyond" or attribute in entry.beyond
