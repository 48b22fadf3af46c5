"""Traits that operations inherit from one constant: each change of a constant shows here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nnefc.ops.core.traits import Folding, ItemTypes, Sign, Traits
from nnefc.ops.tools.table import operations

CASES: dict[str, tuple[Callable[[Traits], bool], str]] = {
    "convolution": (
        lambda traits: traits.convolution is not None,
        "conv deconv fused_conv fused_deconv",
    ),
    "slices": (lambda traits: traits.slices, "concat slice split stack unstack"),
    "stored items": (
        lambda traits: traits.item_types is ItemTypes.STORED,
        "append constant external scan update variable",
    ),
    "moved items": (
        lambda traits: traits.item_types is ItemTypes.MOVED,
        "concat copy copy_n gather gather_elements gather_nd layout pad reshape scatter_elements "
        "scatter_nd select shuffle_channels slice split squeeze stack tile transpose unsqueeze "
        "unstack",
    ),
    "results are never negative": (
        lambda traits: traits.sign is Sign.NONNEGATIVE,
        "abs exp sigmoid softmax sqr",
    ),
    "results are not negative if no operand is": (
        lambda traits: traits.sign is Sign.KEPT,
        "add box concat copy div layout max max_pool max_reduce min min_reduce mul rcp reshape "
        "shuffle_channels slice split sqrt squeeze stack sum_reduce tile transpose unsqueeze "
        "unstack",
    ),
    "never folded": (lambda traits: traits.folding is Folding.NEVER, "dequantize_blocks"),
    "aliased": (
        lambda traits: traits.aliased is not None,
        "copy_n reshape squeeze unsqueeze update",
    ),
    "several reads": (lambda traits: traits.reads != 1, "fused_matmul matmul"),
    "cheap": (lambda traits: traits.cheap, "abs cast copy neg not relu sqr"),
}


@pytest.mark.parametrize("case", CASES)
def test_operations_with_a_trait(case: str) -> None:
    has, names = CASES[case]
    assert {n for n, spec in operations().items() if has(spec.traits)} == set(names.split())


def test_views_share_the_memory_of_their_only_operand() -> None:
    for spec in operations().values():
        assert not spec.view or spec.traits.aliased == 0, spec.name
