"""The choice between direct sums of codes and Winograd's algorithm: limits, and least cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.ir import DType, Expression, Graph, Op, TensorType, Value
from nnefc.ir.convolution_algorithm import Winograd
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.cost.code_convolution import CodeRates, exact_algorithms, fastest_of_codes
from nnefc.passes.machine.choose_convolution_algorithms import ChooseConvolutionAlgorithms

Array = np.ndarray[Any, Any]
SLOW, FAST = CodeRates(1, 1, 0.5), CodeRates(8, 1, 0.25)
"""Rates of a machine without dot products of bytes, and with them."""


def _graph(
    inputs: int = 64,
    outputs: int = 64,
    extents: tuple[int, ...] = (28, 28),
    taps: tuple[int, ...] = (3, 3),
    weight: int = 9,
    zero: int = 0,
    name: str = "fused_code_conv",
    **attributes: Any,
) -> Graph:
    """A convolution whose outputs have the extents of its inputs, and whose weights are equal."""
    graph, ones = Graph("g"), (1,) * len(taps)
    x = graph.add_input(TensorType(DType.UINT8, (1, inputs, *extents)), "x")
    filter_ = np.full((outputs, inputs, *taps), weight, np.int8)
    known = [filter_, np.array(3, np.uint8), np.array(zero, np.int8)]
    steps = {
        "padding": tuple((k // 2, k // 2) for k in taps),
        "stride": ones,
        "dilation": ones,
        "groups": 1,
        "border": "constant",
        "expression": Expression((DType.INT32,), (), (0,)),
    }
    result = TensorType(DType.INT32, (1, outputs, *extents))
    operands = [x, *(_constant(graph, items) for items in known)]
    graph.insert(Op(name, operands, steps | attributes, [result]))
    return graph


def _constant(graph: Graph, items: Array) -> Value:
    attributes = {"shape": items.shape, "value": items}
    type_ = TensorType(DType(items.dtype.name), items.shape)
    return graph.insert(Op("constant", [], attributes, [type_])).output


def _choice(rates: CodeRates, graph: Graph) -> Winograd | None:
    return fastest_of_codes(_last(graph), KnownValues(graph), rates)


def _last(graph: Graph) -> Op:
    return list(graph.ops)[-1]


def _exact(graph: Graph) -> list[int]:
    return [each.tile for each in exact_algorithms(_last(graph), KnownValues(graph))]


def test_rows_without_byte_products_transform_windows() -> None:
    assert _choice(SLOW, _graph()) == Winograd(4)
    assert _choice(FAST, _graph()) is None


def test_small_planes_have_small_tiles() -> None:
    """Filters of tiles of 4 outputs would take longer to read than to multiply."""
    assert _choice(SLOW, _graph(512, 512, (7, 7), weight=1)) == Winograd(3)
    assert _choice(SLOW, _graph(256, 256, (14, 14), weight=1)) == Winograd(4)


@pytest.mark.parametrize(
    ("taps", "tile"), [((5, 5), 4), ((1, 7), 5), ((7, 1), 5), ((1, 5), 6), ((5, 3), 4)]
)
def test_long_windows_are_cut_into_pieces(taps: tuple[int, int], tile: int) -> None:
    extents = (3 * tile, 3 * tile)
    assert _choice(SLOW, _graph(128, 128, extents, taps)) == Winograd(tile)
    assert _choice(FAST, _graph(128, 128, extents, taps)) is None


@pytest.mark.parametrize(
    "change",
    [
        {"taps": (1, 1)},
        {"taps": (2, 3)},
        {"stride": (2, 2)},
        {"inputs": 4},
        {"name": "fused_code_deconv", "output_shape": ()},
    ],
)
def test_other_windows_are_summed_directly(change: dict[str, Any]) -> None:
    assert _choice(SLOW, _graph(**change)) is None


def test_sums_are_within_the_bound_of_the_tile() -> None:
    """A sum of sizes of weights of 2^26 / 255 is the first that tiles of 4 outputs cut."""
    assert 229 * 9 * 127 * 255 < 1 << 26 < 231 * 9 * 127 * 255
    assert _exact(_graph(229, 8, weight=127)) == [2, 3, 4]
    assert _exact(_graph(231, 8, weight=-127)) == [2, 3]
    assert _exact(_graph(231, 8, weight=-27, zero=100)) == [2, 3]
    assert _exact(_graph(231, 8, (40,), (3,), weight=127)) == [2, 3, 4, 5, 6]


def test_the_pass_replaces_a_choice() -> None:
    graph = _graph()
    slow = ChooseConvolutionAlgorithms(codes=SLOW)
    fast = ChooseConvolutionAlgorithms(codes=FAST)
    assert slow.run(graph) and not slow.run(graph)
    assert _last(graph).attributes["algorithm"] == Winograd(4)
    assert fast.run(graph) and not fast.run(graph)
    assert "algorithm" not in _last(graph).attributes
