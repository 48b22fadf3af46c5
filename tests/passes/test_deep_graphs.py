"""Deep graphs of codes and products: passes take time linear in the depth without recursion."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

import numpy as np
import pytest

from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ops.tools.build import build
from nnefc.passes.analysis.half_support import HalfKernels
from nnefc.passes.machine.lower_precision import LowerPrecision
from nnefc.passes.pipeline import DEFAULT, for_machine, run_pipeline
from nnefc.passes.quantize.float_layers import FloatLayers
from tests.helpers.event_counts import calls

FRAMES = 60
"""Most nested calls of the passes; a graph is deeper."""
SOME, MANY = 30, 120


@contextmanager
def few_frames() -> Generator[None]:
    """Raise RecursionError in functions that call themselves once a layer."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + FRAMES)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def check(graph_of: Callable[[int], Graph], run: Callable[[Graph], object]) -> None:
    """Run passes over graphs of two depths."""

    def work(depth: int) -> int:
        graph = graph_of(depth)
        with few_frames():
            return calls(lambda: run(graph))

    run(graph_of(2))  # what happens once a process
    assert work(MANY) < 4.2 * work(SOME)


class Codes:
    """A graph of layers between roundings to codes."""

    def __init__(self, *shape: int) -> None:
        self.graph = Graph("layers")
        self.scale = self.constant(np.float32(0.5), DType.FLOAT32)
        self.zero = self.constant(np.uint8(7), DType.UINT8)
        self.none = self.constant(np.float32(0), DType.FLOAT32)
        self.x = self.rounded(self.graph.add_input(TensorType(DType.FLOAT32, shape), "x"))

    def constant(self, items: object, dtype: DType) -> Value:
        array = np.asarray(items)
        attributes, type_ = {"shape": array.shape, "value": array}, TensorType(dtype, array.shape)
        return self.graph.insert(Op("constant", [], attributes, [type_])).output

    def op(self, name: str, *operands: Value, **attributes: object) -> Value:
        return build(self.graph, name, list(operands), attributes).output

    def codes(self, value: Value) -> Value:
        return self.op("quantize", value, self.scale, self.zero, rounding="even")

    def rounded(self, value: Value) -> Value:
        return self.op("dequantize", self.codes(value), self.scale, self.zero)

    def weights(self, *shape: int) -> Value:
        items = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        return self.op("dequantize", self.constant(items, DType.UINT8), self.scale, self.zero)

    def finish(self, value: Value) -> Graph:
        self.graph.add_output(value, "y")
        return self.graph


def residuals(depth: int) -> Graph:
    """Convolutions whose results are added to their inputs."""
    net = Codes(1, 4, 5, 5)
    window = {"border": "constant", "padding": ((1, 1), (1, 1))}
    for _ in range(depth):
        sums = net.op("conv", net.x, net.weights(4, 4, 3, 3), net.none, **window)
        net.x = net.rounded(net.op("add", net.rounded(sums), net.x))
    return net.finish(net.x)


def products(depth: int) -> Graph:
    """Matrix products and functions of codes."""
    net = Codes(4, 8)
    for _ in range(depth):
        net.x = net.rounded(net.op("matmul", net.x, net.weights(8, 8)))
        net.x = net.rounded(net.op("tanh", net.x))
    return net.finish(net.x)


def selections(depth: int) -> Graph:
    """Operations that select and move codes."""
    net = Codes(4, 4)
    for _ in range(depth):
        both = net.op("concat", net.x, net.x, axis=0)
        net.x = net.rounded(net.op("max_reduce", both, axes=(0,)))
        net.x = net.rounded(net.op("concat", *[net.x] * 4, axis=0))
        net.x = net.op("transpose", net.x, axes=(1, 0))
    return net.finish(net.x)


def softmaxes(depth: int) -> Graph:
    net = Codes(4, 8)
    for _ in range(depth):
        net.x = net.rounded(net.op("softmax", net.x, axes=(1,)))
    return net.finish(net.x)


def sums_of_reals(depth: int) -> Graph:
    """Reals of many codes, whose sum is not rounded."""
    net = Codes(4)
    for i in range(depth):
        codes = net.graph.add_input(TensorType(DType.UINT8, (4,)), f"codes{i}")
        other = net.op("dequantize", codes, net.scale, net.zero)
        net.x = net.op("tanh", net.op("add", net.x, other))
    return net.finish(net.x)


CODES = [residuals, products, selections, softmaxes, sums_of_reals]


@pytest.mark.parametrize("graph_of", CODES)
def test_layers_of_codes(graph_of: Callable[[int], Graph]) -> None:
    phases = (*DEFAULT, *for_machine(8))
    check(graph_of, lambda graph: run_pipeline(graph, phases, hook=FloatLayers()))


def moved(depth: int) -> Graph:
    """Many moves between a function and a product."""
    net = Codes(16, 32)
    value = net.op("tanh", net.x)
    for _ in range(depth):
        value = net.op("transpose", net.op("reshape", value, shape=(32, 16)), axes=(1, 0))
    weights = net.constant(np.ones((32, 16), np.float32), DType.FLOAT32)
    return net.finish(net.op("matmul", value, weights))


def read_twice(depth: int) -> Graph:
    """A product for each of many moves; the last moved value is a result."""
    net = Codes(16, 32)
    value = net.op("tanh", net.x)
    weights = net.constant(np.ones((32, 16), np.float32), DType.FLOAT32)
    for i in range(depth):
        value = net.op("transpose", net.op("reshape", value, shape=(32, 16)), axes=(1, 0))
        net.graph.add_output(net.op("matmul", value, weights), f"y{i}")
    return net.finish(value)


@pytest.mark.parametrize("graph_of", [moved, read_twice])
def test_moves_before_products_of_bfloat16(graph_of: Callable[[int], Graph]) -> None:
    check(graph_of, LowerPrecision(HalfKernels()).run)


@pytest.mark.parametrize(("graph_of", "copies"), [(moved, 1), (read_twice, SOME)])
def test_moved_values_are_rounded_once(graph_of: Callable[[int], Graph], copies: int) -> None:
    """If only products read them, by the function before the moves; else by copies."""
    graph = graph_of(SOME)
    LowerPrecision(HalfKernels()).run(graph)
    half = [op.name for op in graph.ops if op.outputs[0].type.dtype is DType.BFLOAT16]
    names = ["fused", *["reshape", "transpose"] * SOME] if copies == 1 else ["cast"] * SOME
    assert half == names
