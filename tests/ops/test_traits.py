"""Traits that operations inherit from one constant: each change of a constant shows here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnefc.ops.core.traits import Folding, ItemTypes, Sign, Slices, Traits
from nnefc.ops.tools.table import operations

CASES: dict[str, tuple[Callable[[Traits], bool], str]] = {
    "convolution": (
        lambda traits: traits.convolution is not None,
        "conv deconv fused_conv fused_deconv",
    ),
    "preferably blocked": (lambda traits: traits.prefers_blocked, "box code_box max_pool"),
    "views": (lambda traits: traits.view, "reshape squeeze unsqueeze"),
    "joins slices": (lambda traits: traits.slices is Slices.OPERANDS, "concat stack"),
    "cuts slices": (lambda traits: traits.slices is Slices.RESULTS, "split unstack"),
    "slices ranges": (lambda traits: traits.slices is Slices.RANGES, "slice"),
    "strided": (
        lambda traits: traits.strided is not None,
        "reshape slice split squeeze tile transpose unsqueeze",
    ),
    "follows dimensions": (
        lambda traits: traits.strided is not None and traits.strided.axis is not None,
        "reshape squeeze tile transpose unsqueeze",
    ),
    "attributes depend on the batch": (
        lambda traits: traits.resized is not None,
        "attention code_resize debox deconv desample fused_code_deconv fused_deconv fused_views "
        "reshape resize",
    ),
    "data": (lambda traits: traits.data, "constant variable"),
    "affine": (lambda traits: traits.affine is not None, "add div mul neg sub"),
    "stored items": (
        lambda traits: traits.item_types is ItemTypes.STORED,
        "append constant external if scan update variable",
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
    "never folded": (
        lambda traits: traits.folding is Folding.NEVER,
        "dequantize dequantize_blocks quantize",
    ),
    "aliased": (
        lambda traits: traits.aliased is not None,
        "copy_n reshape squeeze unsqueeze update",
    ),
    "several reads": (lambda traits: traits.reads != 1, "fused_matmul matmul"),
    "cheap": (lambda traits: traits.cheap, "abs bitcast cast copy neg not relu sqr"),
}


@pytest.mark.parametrize("case", CASES)
def test_operations_with_a_trait(case: str) -> None:
    has, names = CASES[case]
    assert {n for n, spec in operations().items() if has(spec.traits)} == set(names.split())


def test_views_share_the_memory_of_their_only_operand() -> None:
    for spec in operations().values():
        assert not spec.traits.view or spec.traits.aliased == 0, spec.name


def test_sums_that_take_an_epilogue_have_an_entry_with_an_expression() -> None:
    entries = operations()
    fused = {name: spec.traits.with_expression for name, spec in entries.items()}
    plain = {name for name, other in fused.items() if other is not None}
    assert plain == {"code_matmul", "conv", "deconv", "matmul", "mean_variance_normalization"}
    for name, spec in entries.items():
        is_plain_sum = spec.traits.accumulator is not None and spec.expression is None
        assert is_plain_sum == (name in plain), name
    for other in filter(None, fused.values()):
        assert entries[other].expression is not None, other


@pytest.mark.parametrize(
    "name", [name for name, spec in operations().items() if spec.traits.affine is not None]
)
@pytest.mark.parametrize("position", [0, 1])
def test_affine_rules_agree_with_the_reference(name: str, position: int) -> None:
    spec = operations()[name]
    rule, reference = spec.traits.affine, spec.reference
    assert rule is not None and reference is not None
    x, known = np.array([-2.0, 0.5, 3.0]), np.array([4.0, -0.25, 8.0])
    is_binary = len(spec.declaration.parameters) == 2
    map_ = rule(position, known if is_binary else np.zeros(0))
    if map_ is None:
        assert (name, position) == ("div", 1)
        return
    operands = [x, known][:: 1 - 2 * position] if is_binary else [x]
    np.testing.assert_allclose(map_[0] * x + map_[1], reference(*operands))
