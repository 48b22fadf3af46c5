"""The choice between direct and Winograd convolution: limits of Winograd's, and least cost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Expression, Graph, Op, Step, TensorType
from nnefc.ir.convolution_algorithm import ConvolutionAlgorithm, Direct, Winograd
from nnefc.passes.cost import convolution
from nnefc.passes.cost.convolution import algorithms, fastest, nanoseconds, operation_key
from nnefc.symbolic.integers import Trace


def _choice(*convolution: Any, **attributes: Any) -> Winograd | None:
    """The fastest Winograd algorithm for this convolution; None if direct sums are faster."""
    return fastest(_convolution(*convolution, **attributes))


def _convolution(
    inputs: int,
    outputs: int,
    extents: tuple[int, ...],
    taps: tuple[int, ...],
    batch: int = 1,
    groups: int = 1,
    **attributes: Any,
) -> Op:
    """A convolution whose outputs have the extents of its inputs."""
    graph = Graph("g")
    shapes = [(batch, inputs, *extents), (outputs, inputs // groups, *taps), (1, outputs)]
    types = [TensorType(DType.FLOAT32, shape) for shape in shapes]
    values = [graph.add_input(type_, f"x{i}") for i, type_ in enumerate(types)]
    steps = {
        "padding": tuple(((k - 1) // 2, k // 2) for k in taps),
        "stride": (1,) * len(taps),
        "dilation": (1,) * len(taps),
        "groups": groups,
        "border": "constant",
        "expression": Expression((DType.FLOAT32,), (), (0,)),
    }
    result = TensorType(DType.FLOAT32, (batch, outputs, *extents))
    return Op("fused_conv", values, steps | attributes, [result])


@pytest.mark.parametrize("extent", [7, 14, 28, 56, 112])
def test_small_maps_use_small_tiles(extent: int) -> None:
    """In 3x3 layers of ResNet, reading the transformed filter dominates for small maps."""
    channels = 3584 // extent
    chosen = _choice(channels, channels, (extent, extent), (3, 3))
    assert chosen is not None
    assert (chosen == Winograd(2)) == (extent == 7)


def test_a_large_batch_amortises_a_larger_filter() -> None:
    assert _choice(512, 512, (7, 7), (3, 3), batch=64) not in (None, Winograd(2))


@pytest.mark.parametrize(
    ("taps", "extents"),
    [
        ((5, 5), (28, 28)),
        ((1, 7), (17, 17)),
        ((7, 1), (17, 17)),
        ((3,), (400,)),
        ((5,), (400,)),
        ((3, 3, 3), (8, 28, 28)),
        ((1, 3, 3), (8, 28, 28)),
        ((3, 1, 3), (8, 56, 56)),
    ],
)
def test_other_filters(taps: tuple[int, ...], extents: tuple[int, ...]) -> None:
    assert _choice(128, 128, extents, taps) is not None


@pytest.mark.parametrize("dilation", [(1, 2), (2, 2), (4, 4), (12, 12)])
def test_dilated_filters(dilation: tuple[int, int]) -> None:
    padding = tuple((d, d) for d in dilation)
    assert _choice(256, 256, (32, 32), (3, 3), dilation=dilation, padding=padding) is not None


@pytest.mark.parametrize(
    "attributes",
    [
        {"stride": (2, 2)},
        {"stride": (1, 2)},
        {"groups": 2},
        {"taps": (1, 1)},
        {"taps": (9, 9)},
        {"taps": (3, 1, 1), "extents": (8, 56, 56)},
        {"taps": (3, 3, 3), "extents": (8, 56, 56), "stride": (1, 2, 1)},
        {"taps": (1, 3, 3, 3), "extents": (2, 8, 28, 28)},
        {"inputs": 3},
        {"extents": (1, 1)},
    ],
)
def test_unsupported_convolutions_do_not_use_winograd(attributes: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"inputs": 64, "outputs": 64, "extents": (56, 56), "taps": (3, 3)}
    assert _choice(**plain) is not None
    assert _choice(**plain | attributes) is None


@pytest.mark.parametrize("taps", [(1, 1), (3, 3), (9, 9)])
def test_symbolic_extents_exclude_winograd(taps: tuple[int, ...]) -> None:
    """The trace is degraded only if Winograd would have been chosen."""
    trace = Trace()
    extents = (trace.symbol(56), trace.symbol(56))
    assert algorithms(_convolution(64, 64, extents, taps), 8) == (Direct(),)
    assert trace.is_degraded == (_choice(64, 64, (56, 56), taps) is not None)


LARGEST = {
    1: {2: 6, 3: 6, 4: 6, 5: 6, 6: 5, 7: 4, 8: 3, 9: 2},
    2: {2: 6, 3: 6, 4: 5, 5: 4, 6: 3, 7: 2},
}
"""Outputs of a tile along a dimension whose rounding errors are still small, for filters that are
transformed along one dimension or two, by their most taps along one."""


@given(st.data())
def test_tiles_have_existing_sizes(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 2))
    taps, extents = (
        tuple(data.draw(st.integers(1, most)) for _ in range(rank)) for most in (9, 60)
    )
    channels = st.sampled_from((1, 8, 40, 128, 512))
    chosen = _choice(data.draw(channels), data.draw(channels), extents, taps)
    if chosen is not None:
        transformed = [n for n in taps if n > 1]
        assert 2 <= chosen.tile <= LARGEST[len(transformed)][max(transformed)]


def test_the_choice_has_the_least_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Direct convolution is chosen unless another algorithm costs clearly less."""
    op = _convolution(64, 64, (56, 56), (3, 3))
    assert nanoseconds(op, Direct(), warm=True) < nanoseconds(op, Direct())
    every = algorithms(op, 8)
    assert len(every) > 3
    costs: dict[ConvolutionAlgorithm, float] = {}

    def made_up(op: Op, algorithm: ConvolutionAlgorithm, **_: bool) -> float:
        return costs[algorithm]

    monkeypatch.setattr(convolution, "nanoseconds", made_up)
    for cheap in every:
        costs |= dict.fromkeys(every, 900.0) | {Direct(): 1000.0} | {cheap: 10.0}
        assert fastest(op) == (None if cheap == Direct() else cheap)
    costs |= dict.fromkeys(every, 100.0)
    assert fastest(op) is None


def test_keys_distinguish_convolutions_of_different_times() -> None:
    plain: dict[str, Any] = {"inputs": 64, "outputs": 64, "extents": (56, 56), "taps": (3, 3)}
    key = operation_key(_convolution(**plain))
    relu = Expression((DType.FLOAT32,), (Step("relu", (0,), DType.FLOAT32),), (1,))
    others: list[dict[str, Any]] = [
        {"inputs": 32},
        {"outputs": 32},
        {"extents": (56, 57)},
        {"taps": (3, 5)},
        {"batch": 2},
        {"groups": 2},
        {"stride": (2, 1)},
        {"dilation": (1, 2)},
        {"padding": ((0, 2), (1, 1))},
        {"expression": relu},
    ]
    assert len({key, *(operation_key(_convolution(**plain | other)) for other in others)}) == 11
    unwritten: dict[str, Any] = {"padding": (), "stride": (), "dilation": ()}
    assert operation_key(_convolution(**plain | unwritten)) == key


def test_the_choice_is_one_of_the_algorithms() -> None:
    for extent in range(2, 40):
        op = _convolution(64, 64, (extent, extent), (3, 3))
        assert algorithms(op, 8)[0] == Direct()
        assert fastest(op) in (None, *algorithms(op, 8))
