"""Networks whose tensors stay in bfloat16 between layers of all kinds.

They are compared with float64 formulas that round where the graph stores bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnefc.driver.compile import compile_graph
from nnefc.driver.precision import half_kernels
from nnefc.driver.small_graph_builder import Sketch
from nnefc.ir import DType, Graph, Value
from nnefc.kernels.target.isa import host
from nnefc.ops.tools import reference
from nnefc.ops.tools.build import build
from nnefc.ops.tools.cost import is_data
from nnefc.options.compile_config import CompileConfig
from nnefc.passes.machine.lower_precision import LowerPrecision
from tests.helpers.kernels.one_op import normal
from tests.passes.machine.test_half_convolutions import round_weights, rounded, types

Array = np.ndarray[Any, Any]

HALVES = CompileConfig(1, precision="bfloat16")
pytestmark = pytest.mark.skipif(
    half_kernels(HALVES) is None or bool(host().matrix_dot),
    reason="the processor multiplies no bfloat16 in vectors",
)


def relu6(s: Sketch, x: Value) -> Value:
    return s.op("clamp", x, 0.0, 6.0)


def silu(s: Sketch, x: Value) -> Value:
    return s.op("mul", x, s.op("sigmoid", x))


def small(s: Sketch, x: Value) -> Value:
    """Numbers of about 1 again."""
    return s.op("mul", x, 0.03)


def depthwise(s: Sketch) -> None:
    """Depthwise and grouped convolutions and deconvolutions, with partial blocks and residuals."""
    x = relu6(s, s.conv(s.input(2, 3, 23, 21), 20, 3, 3, stride=2))
    y = relu6(s, s.conv(x, 20, 3, 3, groups=20))
    x = s.op("add", s.conv(y, 20, 1, 1), x)
    x = relu6(s, s.conv(x, 20, 5, 5, groups=20, stride=2))
    x = s.op("add", s.conv(x, 20, 3, 3, groups=20), x)
    x = s.op("relu", s.conv(x, 40, 3, 3, groups=20))
    x = s.op("relu", s.conv(x, 32, 1, 1))
    x = small(s, s.conv(x, 32, 3, 3, groups=8))
    x = s.op("relu", s.conv(x, 32, 3, 3, groups=32, stride=2, operation="deconv"))
    s.conv(x, 16, 1, 1)


def excitation(s: Sketch) -> None:
    """Activations in registers, and blocks that scale channels by functions of their means."""
    x = silu(s, small(s, s.conv(s.input(1, 3, 20, 20), 32, 3, 3, stride=2)))
    for squeezed in (4, 32):
        y = silu(s, small(s, s.conv(x, 32, 3, 3, groups=32)))
        z = s.op("mean_reduce", y, axes=(2, 3))
        z = silu(s, s.conv(z, squeezed, 1, 1))
        z = s.op("sigmoid", s.conv(z, 32, 1, 1))
        x = s.op("add", small(s, s.conv(s.op("mul", y, z), 32, 1, 1)), x)
    x = s.op("add", x, silu(s, small(s, s.conv(x, 32, 3, 3))))
    x = s.op("add", x, silu(s, small(s, s.conv(x, 32, 3, 3, groups=32))))
    # these functions of zero are not zero, and the last block of the first is partial
    x = s.op("sigmoid", small(s, s.conv(x, 20, 3, 3)))
    x = s.op("sigmoid", small(s, s.conv(s.conv(x, 32, 1, 1), 32, 3, 3, groups=32)))
    s.conv(x, 16, 1, 1)


def branches(s: Sketch) -> None:
    """Concatenations of partial blocks, means, maxima, slices, and halves of channels."""
    x = s.op("relu", s.conv(s.input(1, 3, 18, 18), 20, 3, 3))
    a, b = s.conv(x, 32, 1, 1), s.op("relu", s.conv(x, 7, 3, 3))
    c = s.pool(x, "avg_pool", 3, stride=1, before=1, after=1)
    c = s.conv(c, 33, 1, 1)
    d = s.pool(x, "max_pool", 3, stride=1, before=1, after=1)
    x = concat(s, a, b, c, d)
    x = s.pool(x, "avg_pool", 5, stride=2, before=2, after=1)
    low = s.op("slice", x, axes=(1,), begin=(3,), end=(51,))
    x = s.op("relu", s.conv(low, 32, 3, 3))
    x = s.shuffle(x, 4)
    x = concat(s, s.conv(x, 16, 1, 1), s.op("relu", s.op("mul", x, 0.5)))
    s.conv(x, 16, 1, 1)


def concat(s: Sketch, *values: Value) -> Value:
    """Along the channels."""
    return build(s.graph, "concat", list(values), {"axis": 1}).output


def pyramid(s: Sketch) -> None:
    """Winograd's algorithm with and without residual, and planes that grow."""
    x = s.op("relu", s.conv(s.input(1, 3, 32, 32), 64, 3, 3))
    x = small(s, s.conv(x, 64, 3, 3))
    low = s.pool(x, "max_pool", 2, stride=2, before=0, after=0)
    low = s.op("add", small(s, s.conv(low, 64, 3, 3)), low)
    low = s.op("add", silu(s, small(s, s.conv(low, 64, 3, 3))), low)
    parts = [s.op("relu", s.conv(low, 32, 2, 2, stride=2, operation="deconv"))]
    parts.append(s.op("nearest_upsample", low, factor=(2, 2)))
    parts.append(s.op("multilinear_upsample", low, factor=(2, 2), border="replicate"))
    y = s.op("relu", s.conv(concat(s, *(small(s, part) for part in parts), x), 64, 3, 3))
    s.conv(y, 2, 1, 1)


def expected(graph: Graph, x: Array, monkeypatch: pytest.MonkeyPatch) -> tuple[Graph, Any]:
    """(the graph with its roundings, its results in float64)"""
    lowered: list[Graph] = []

    def record(graph: Graph, ran: Any) -> None:
        if ran.name == LowerPrecision.name:
            lowered.append(graph.clone())

    compile_graph(graph, HALVES, hook=record)
    wrap = reference.wrap

    def rounding(items: Array, dtype: DType) -> Array:
        items = wrap(items, dtype)
        return rounded(items).astype(np.float64) if dtype is DType.BFLOAT16 else items

    with monkeypatch.context() as patch:
        patch.setattr(reference, "wrap", rounding)
        return lowered[0], reference.evaluate(lowered[0], {"x0": x}).outputs


def is_wide(graph: Graph, value: Value) -> bool:
    """Whether `value` is a computed plane of float32 between two operations."""
    assert value.op is not None
    type_, between = value.type, not graph.is_output(value)
    planes = type_.rank == 4 and type_.dims[2] > 1 and type_.dtype is DType.FLOAT32
    return planes and between and not is_data(value.op)


@pytest.mark.parametrize("network", [depthwise, excitation, branches, pyramid])
def test_networks_stay_in_bfloat16(
    network: Callable[[Sketch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tensors between layers but the results, and small means whose users are float32."""
    s = Sketch(network.__name__)
    network(s)
    graph = s.finish()
    round_weights(graph)
    (input_,) = graph.inputs
    x = rounded(normal(1, *input_.type.dims))
    lowered, want = expected(graph, x, monkeypatch)
    assert not [op for op in lowered.ops for v in op.outputs if is_wide(lowered, v)]
    got = compile_graph(graph, HALVES).run({"x0": x})
    again = compile_graph(graph, HALVES._replace(threads=2)).run({"x0": x})
    for name, y in want.items():
        errors = np.abs(got[name] - y) / np.abs(y).max()
        print(network.__name__, errors.max(), errors.mean())
        # sums in float32 round a few items to the neighbouring bfloat16
        assert errors.max() < 2**-8
        assert errors.mean() < 2**-12
        np.testing.assert_array_equal(got[name], again[name])


def test_graphs_without_convolutions_pool_float32() -> None:
    """Bodies of loops are such graphs, whose tensors have no blocks."""
    s = Sketch("pool")
    x = s.op("tanh", s.input(1, 16, 8, 8))
    x = s.pool(x, "max_pool", 3, stride=2, before=1, after=1)
    s.op("matmul", s.op("reshape", x, shape=(16, 16)), s.weight(16, 32))
    found = types(s.finish(), ["max_pool", "fused_matmul"])
    assert found == {"max_pool": [DType.FLOAT32], "fused_matmul": [DType.FLOAT32]}
