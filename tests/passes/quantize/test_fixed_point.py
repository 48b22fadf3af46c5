"""Sums of codes with endings in fixed point: launches, and bits of LiteRT's reference kernels."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.driver.compile import compile_graph
from nnefc.driver.lower_graph import lower_graph
from nnefc.ir import Graph, parse_graph
from nnefc.ir.verify import verify
from nnefc.ops.tools.reference import evaluate
from nnefc.options.compile_config import CompileConfig
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.quantize.float_layers import FloatLayers
from nnefc.passes.quantize.fold_codes import FoldCodes
from tests.helpers.tflite.one_operator import (
    Array,
    Case,
    Constant,
    content_of,
    litert_results,
    reference_results,
    source_of,
)

RNG = np.random.default_rng(31)
ONE = CompileConfig(1)
TYPES = ("INT8", "UINT8")


def codes(type_: str, *shape: int) -> Array:
    limits = np.iinfo(type_.lower())
    return RNG.integers(limits.min, limits.max + 1, shape).astype(type_.lower())


def scaled(scale: float, zero: int) -> dict[str, Any]:
    return {"scale": (scale,), "zero_point": (zero,)}


def layer(
    name: str, type_: str, shape: tuple[int, ...], filter: tuple[int, ...], axis: int, scale: float
) -> Case:
    """A convolution whose results have `scale`: several multipliers with int8, one with uint8."""
    outputs, is_signed = filter[axis], type_ == "INT8"
    scales = tuple(RNG.uniform(0.002, 0.02, outputs if is_signed else 1))
    zero = 0 if is_signed else 120
    weights = {"scale": scales, "zero_point": (zero,) * len(scales), "quantized_dimension": axis}
    values = {"padding": 0, "stride_w": 1, "stride_h": 1, "fused_activation_function": 1}
    if axis:
        values["depth_multiplier"] = 1
    point = -5 if is_signed else 117
    inputs = [codes(type_, *shape), Constant(codes(type_, *filter))]
    inputs.append(Constant(RNG.integers(-3000, 3000, outputs).astype(np.int32)))
    bias = {"scale": tuple(0.03 * each for each in scales), "zero_point": (0,) * len(scales)}
    given = {0: scaled(0.03, point), 1: weights, 2: bias, 3: scaled(scale, point)}
    results = [((*shape[:3], outputs), type_)]
    kind = "DepthwiseConv2DOptions" if axis else "Conv2DOptions"
    return Case(name, inputs, results, kind, values, 3, given)


LAYERS = [
    layer(name, type_, shape, filter, axis, scale)
    for type_ in TYPES
    for name, shape, filter, axis, scale in (
        ("CONV_2D", (1, 9, 8, 3), (20, 3, 3, 3), 0, 0.2),
        ("CONV_2D", (2, 7, 6, 24), (33, 1, 1, 24), 0, 0.3),
        ("CONV_2D", (1, 7, 6, 20), (24, 3, 3, 20), 0, 0.6),
        # factors larger than 1, which are shifted to the left
        ("CONV_2D", (1, 7, 6, 4), (16, 1, 1, 4), 0, 0.0003),
        ("DEPTHWISE_CONV_2D", (2, 9, 8, 20), (1, 3, 3, 20), 3, 0.2),
        # so many weights are stored apart from the graph
        ("CONV_2D", (1, 3, 3, 300), (256, 1, 1, 300), 0, 0.6),
    )
]


def launches(graph: Graph, *left_out: str) -> list[str]:
    """The first kernel of each launch; `left_out`: starts of their names."""
    kernels = [each.kernels[0].family for each in lower_graph(graph, ONE).launches]
    return [k for k in kernels if not k.startswith(left_out)]


def float_layers(graph: Graph) -> int:
    """How many operations on codes compute on reals."""
    hook = FloatLayers()
    lower_graph(graph, ONE, hook=hook)
    return sum(hook.counted().values())


def compare(case: Case, path: Path, calls: list[list[Array]]) -> None:
    """Compare compiled results with the interpreter, and this with LiteRT's reference kernels."""
    content = content_of(case)
    path.write_bytes(content)
    model: Any = nnefc.compile(path, keep=False)
    expected = [reference_results(content, inputs) for inputs in calls]
    if find_spec("ai_edge_litert"):
        for results, others in zip(expected, litert_results(content, calls), strict=True):
            np.testing.assert_array_equal(results[0], others[0])
    for inputs, (want,) in zip(calls, expected, strict=True):
        assert len(np.unique(want)) > 1
        np.testing.assert_array_equal(model(*inputs), want)


@pytest.mark.parametrize("case", LAYERS, ids=str)
def test_convolutions_are_one_launch(case: Case, tmp_path: Path) -> None:
    """Converting int8 to uint8 and back are launches of their own at the border of a graph."""
    graph = source_of(content_of(case)).graph({})
    assert float_layers(graph) == 0
    kernels = launches(graph, "elementwise.", "movement.", "tile.")
    assert len(set(kernels)) == 1  # channels of a last, shorter block may be apart
    assert len(kernels) <= 2
    assert "_codes" in kernels[0]
    compare(case, tmp_path / "net.tflite", [[case.inputs[0]]])


@pytest.mark.parametrize(("value", "pads"), [(-5, 0), (-4, 1)], ids=["zero point", "other"])
def test_borders_of_the_zero_point_are_padding(value: int, pads: int) -> None:
    """A border with channels last, before the transpose to channels first."""
    text = """
graph net(%x: int8[1,7,6,20]) -> (y = %y) {
  %w: int8[24,20,3,3] = constant() {shape = [24, 20, 3, 3], value = [3]}
  %xz: int8[] = constant() {shape = [], value = [-5]}
  %wz: int8[] = constant() {shape = [], value = [0]}
  %m: int32[] = constant() {shape = [], value = [1500000000]}
  %n: int32[] = constant() {shape = [], value = [6]}
  %high: int32[] = constant() {shape = [], value = [127]}
  %low: int32[] = constant() {shape = [], value = [-128]}
  %p: int8[1,9,7,20] = pad(%x)
    {padding = [[0, 0], [1, 1], [0, 1], [0, 0]], border = "constant", value = VALUE}
  %t: int8[1,20,9,7] = transpose(%p) {axes = [0, 3, 1, 2]}
  %s: int32[1,24,4,3] = integer_conv(%t, %w, %xz, %wz)
    {border = "constant", padding = [[0, 0], [0, 0]], stride = [2, 2], dilation = [1, 1],
     groups = 1, wide = false}
  %a: int32[1,24,4,3] = doubling_high_product(%s, %m)
  %b: int32[1,24,4,3] = rounding_shift(%a, %n)
  %c: int32[1,24,4,3] = min(%b, %high)
  %d: int32[1,24,4,3] = max(%c, %low)
  %y: int8[1,24,4,3] = cast(%d) {}
}
""".replace("VALUE", f"{value}.0")
    graph = parse_graph(text)
    assert verify(graph) == []
    kernels = launches(graph)
    assert sum(k.startswith("window.") for k in kernels) == pads
    x = codes("INT8", 1, 7, 6, 20)
    (want,) = evaluate(graph, {"x": x}).outputs.values()
    assert len(np.unique(want)) > 8
    np.testing.assert_array_equal(compile_graph(graph, ONE).run({"x": x})["y"], want)


def test_sums_with_residuals_outside_of_int32() -> None:
    """Sums of reals that are no numbers of int32 become the lowest and the highest code."""
    graph = parse_graph("""
graph net(%x: int8[1,16,7,6], %r: int8[1,16,7,6]) -> (y = %y) {
  %w: int8[16,16,1,1] = constant() {shape = [16, 16, 1, 1], value = [1]}
  %zero: int8[] = constant() {shape = [], value = [0]}
  %m: int32[] = constant() {shape = [], value = [1073741824]}
  %n: int32[] = constant() {shape = [], value = [2]}
  %high: int32[] = constant() {shape = [], value = [127]}
  %low: int32[] = constant() {shape = [], value = [-128]}
  %t: float32[] = constant() {shape = [], value = [1e8]}
  %u: float32[] = constant() {shape = [], value = [7e7]}
  %one: float32[] = constant() {shape = [], value = [1.0]}
  %s: int32[1,16,7,6] = integer_conv(%x, %w, %zero, %zero)
    {border = "constant", padding = [[0, 0], [0, 0]], stride = [1, 1], dilation = [1, 1],
     groups = 1, wide = false}
  %a: int32[1,16,7,6] = doubling_high_product(%s, %m)
  %b: int32[1,16,7,6] = rounding_shift(%a, %n)
  %c: int32[1,16,7,6] = min(%b, %high)
  %d: int32[1,16,7,6] = max(%c, %low)
  %e: int8[1,16,7,6] = cast(%d) {}
  %f: float32[1,16,7,6] = dequantize(%e, %t, %zero)
  %g: float32[1,16,7,6] = dequantize(%r, %u, %zero)
  %h: float32[1,16,7,6] = add(%f, %g)
  %y: int8[1,16,7,6] = quantize(%h, %one, %zero) {rounding = "even"}
}
""")
    assert verify(graph) == []
    assert [k for k in launches(graph) if not k.startswith(("elementwise.", "tile."))]
    random = np.random.default_rng(7)
    given = {name: random.integers(-128, 128, (1, 16, 7, 6)).astype(np.int8) for name in "xr"}
    given["x"] &= -2  # so that the doubling product is exact
    product = given["x"].astype(np.int64).sum(1, keepdims=True) / 8
    first = np.clip(np.trunc(product + np.copysign(0.5, product)), -128, 127)
    want = np.clip(first * 1e8 + given["r"] * 7e7, -128, 127)
    np.testing.assert_array_equal(compile_graph(graph, ONE).run(given)["y"], want)


def test_known_transposed_codes_are_computed() -> None:
    graph = parse_graph("""
graph net(%x: int8[2,3]) -> (z = %z) {
  %w: int8[3,2] = constant() {shape = [3, 2], value = [1, 2, 3, 4, 5, 6]}
  %y: int8[2,3] = transpose(%w) {axes = [1, 0]}
  %z: int8[2,3] = add(%x, %y)
}
""")
    assert FoldCodes().run(graph)
    op = graph.outputs[0].op
    assert op is not None
    items = KnownValues(graph).items(op.inputs[1])
    assert items is not None
    assert items.tolist() == [[1, 3, 5], [2, 4, 6]]
    assert not FoldCodes().run(graph)
