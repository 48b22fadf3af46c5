"""Sparse constants, compared with LiteRT; damaged ones are errors."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nnefc.support.errors import NnefError
from tests.frontends.tflite.test_operators import real, reals
from tests.helpers.tflite.one_operator import (
    Array,
    Case,
    Constant,
    content_of,
    inputs_of,
    litert_results,
    reference_results,
    source_of,
)

RNG = np.random.default_rng(3)


def sparse(
    dense: Array, order: tuple[int, ...], compressed: set[int], blocks: dict[int, int]
) -> Constant:
    """A tensor stored in `order`, of which the levels `compressed` have positions.

    `blocks`: sizes by dimension, in the order of their numbers.
    """
    rank = dense.ndim
    split = list(blocks)
    extents = [dense.shape[i] // blocks.get(i, 1) for i in range(rank)]
    extents += [blocks[axis] for axis in split]
    shaped = dense.reshape(
        [n for i in range(rank) for n in (extents[i], *((blocks[i],) if i in blocks else ()))]
    )
    names = [
        name
        for i in range(rank)
        for name in (i, *((rank + split.index(i),) if i in blocks else ()))
    ]
    turned = shaped.transpose([names.index(number) for number in order])
    levels: list[dict[str, Any]] = []
    groups: list[tuple[int, ...]] = [()]
    for depth, extent in enumerate(turned.shape):
        if depth not in compressed:
            levels.append({"format": 0, "dense_size": extent})
            groups = [(*each, i) for each in groups for i in range(extent)]
            continue
        segments, indices, found = [0], list[int](), list[tuple[int, ...]]()
        for each in groups:
            kept = [i for i in range(extent) if np.any(turned[(*each, i)])]
            indices += kept
            found += [(*each, i) for i in kept]
            segments.append(len(indices))
        groups = found
        kind = "Uint8Vector" if depth % 2 else "Int32Vector"
        levels.append(
            {
                "format": 1,
                "array_segments": (kind, {"values": tuple(segments)}),
                "array_indices": (kind, {"values": tuple(indices)}),
            }
        )
    stored = np.array([turned[each] for each in groups], dense.dtype)
    sparsity = {
        "traversal_order": order,
        "block_map": tuple(split),
        "dim_metadata": tuple(levels),
    }
    return Constant(dense, sparsity=sparsity, stored=stored)


def mostly_zeros(*shape: int, dtype: Any = np.float32) -> Array:
    items = RNG.integers(-100, 100, shape)
    return np.where(RNG.uniform(size=shape) < 0.3, items, 0).astype(dtype)


def densify(constant: Constant, type_: str = "FLOAT32") -> Case:
    return Case("DENSIFY", [constant], [(constant.array.shape, type_)], "DensifyOptions")


def fully_connected(constant: Constant) -> Case:
    inputs = [reals(3, 8), constant, None]
    name, options = "FULLY_CONNECTED", "FullyConnectedOptions"
    return Case(name, inputs, [real(3, 12)], options, {}, 8)


CASES = [
    *(
        densify(sparse(mostly_zeros(4, 6), order, {1}, {}))
        for order in itertools.permutations(range(2))
    ),
    densify(sparse(mostly_zeros(3, 4, 5), (2, 0, 1), {1, 2}, {})),
    densify(sparse(mostly_zeros(4, 8), (0, 1, 2, 3), {1}, {0: 2, 1: 4})),
    densify(sparse(mostly_zeros(4, 8), (1, 0, 3, 2), {1}, {0: 2, 1: 4})),
    densify(sparse(mostly_zeros(4, 6, dtype=np.int8), (0, 1), {1}, {}), "INT8"),
    fully_connected(sparse(mostly_zeros(12, 8), (0, 1), {1}, {})),
    fully_connected(sparse(mostly_zeros(12, 8), (0, 1, 2), {1}, {1: 4})),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sparse_constants_are_those_of_litert(case: Case) -> None:
    content = content_of(case)
    ((expected,),) = litert_results(content, [inputs_of(case)])
    (actual,) = reference_results(content, inputs_of(case))
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-4)
    if case.name == "DENSIFY":
        np.testing.assert_array_equal(actual, case.inputs[0].array)


GOOD = sparse(mostly_zeros(4, 6) + np.eye(4, 6, dtype=np.float32), (0, 1), {1}, {})


def damaged(**changes: Any) -> Constant:
    assert GOOD.sparsity is not None
    return replace(GOOD, sparsity={**GOOD.sparsity, **changes})


def positions(
    segments: tuple[int, ...], indices: tuple[int, ...], vector: str = "Int32Vector"
) -> dict[str, Any]:
    compressed = {
        "format": 1,
        "array_segments": (vector, {"values": segments}),
        "array_indices": ("Int32Vector", {"values": indices}),
    }
    return {"dim_metadata": ({"format": 0, "dense_size": 4}, compressed)}


@pytest.mark.parametrize(
    ("constant", "message"),
    [
        (damaged(traversal_order=(0, 0)), "its order"),
        (damaged(block_map=(7,)), "its order"),
        (damaged(**positions((0, 1, 2, 3), (0, 1, 2, 3))), "4 segments for more groups"),
        (damaged(**positions((0, 1, 2, 3, 9), (0, 1, 2, 3))), "segments end behind 4 positions"),
        (damaged(**positions((), (0,), "Uint8Vector")), "0 segments for more groups"),
        (damaged(**positions((0, 3, 2, 3, 4), (0, 1, 2, 3))), "its segments do not ascend"),
        (damaged(**positions((0, 1, 2, 3, 4), (0, 1, 2, 6))), "a position is outside of 6 items"),
        (damaged(**positions((0, 1, 2, 3, 4), (0, 1, 2, 3))), "but positions of 4"),
        (damaged(dim_metadata=({"format": 0, "dense_size": 9},) * 2), "a dimension has 9 items"),
    ],
)
def test_damaged_positions_are_errors(constant: Constant, message: str) -> None:
    with pytest.raises(NnefError, match="tensor 0 't0'") as caught:
        source_of(content_of(densify(constant))).graph({})
    assert message in str(caught.value)
    assert caught.value.errors[0].rule == "tflite/model"
