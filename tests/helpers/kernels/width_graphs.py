"""Graphs that reach kernels for vectors of any width, and that no NNEF document describes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nnefc.ir import Blocked, DType, Expression, Graph, Op, TensorType, Value
from nnefc.ir.convolution_algorithm import Winograd
from nnefc.ops.tools.build import build
from nnefc.ops.tools.sample import Instance, instance
from nnefc.ops.tools.table import operations

Array = np.ndarray[Any, Any]


def graphs() -> Iterator[tuple[str, Instance]]:
    """Graphs beyond the standard: operations of tract's registries, loops, integers."""
    # imported now, because modules that lower a graph import the function `isa.host` that is set
    from tests.helpers.graphs.loops import halvings

    for name, spec in operations().items():
        if spec.section == "tract" and spec.expand is None:
            for sample in spec.samples:
                yield name, instance(spec, sample)
    left = {"go": np.ones(1, np.bool_), "n": np.zeros(1, np.int64)}
    left |= {"v": np.ones((1, 3), np.float32), "limit": np.full((1, 1), 0.3, np.float32)}
    yield "loop that is left", Instance(halvings(6, 4, stacked=False), left)
    yield "blocked codes", codes()
    yield "depthwise convolution of int16", depthwise_of_int16()
    for dtype in DType:
        if dtype is not DType.STRING:
            yield f"types {dtype}", arithmetic(dtype)
    yield "product of codes", product_of_codes()
    yield "products of computed codes", products_of_computed_codes()
    yield "functions of codes", functions_of_codes()
    yield "softmax of codes", softmax_of_codes()


def functions_of_codes() -> Instance:
    """A table, sums of windows and of planes, and a maximum, of codes in blocks."""
    from nnefc.kernels.vector.lane_builder import lanes_of

    x = np.random.default_rng(5).integers(0, 256, (1, 21, 9, 12)).astype(np.uint8)
    graph = Graph("functions of codes")
    given = graph.add_input(TensorType(DType.UINT8, x.shape), "x")
    layout = Blocked(lanes_of("int32"), ((0, 0), (0, 0)), 1)

    def blocked(
        name: str, value: Value, dtype: DType, extents: Sequence[int], **attributes: Any
    ) -> Value:
        reals = Blocked(layout.block, layout.halo, dtype.itemsize)
        type_ = TensorType(dtype, (1, 21, *extents), reals)
        return graph.insert(Op(name, [value], attributes, [type_])).output

    def result(name: str, value: Value) -> None:
        type_ = TensorType(value.type.dtype, value.type.dims)
        graph.add_output(graph.insert(Op("layout", [value], {}, [type_])).output, name)

    rest: dict[str, Any] = {"border": "ignore", "dilation": (1,) * 4}
    table = tuple((7 * i + 3) % 256 for i in range(256))
    codes = blocked("layout", given, DType.UINT8, (9, 12))
    codes = blocked("code_table", codes, DType.UINT8, (9, 12), table=table)
    result("table", codes)
    for size, stride, extents in ((3, 2, (5, 6)), (5, 1, (9, 12))):
        window: dict[str, Any] = {
            "size": (1, 1, size, size),
            "stride": (1, 1, stride, stride),
            **rest,
        }
        window["padding"] = ((0, 0), (0, 0), (size // 2,) * 2, (size // 2, size // 2 - stride + 1))
        result(f"max {size}", blocked("max_pool", codes, DType.UINT8, extents, **window))
        sums = {**window, "normalize": True, "zero": 9}
        result(f"mean {size}", blocked("code_box", codes, DType.FLOAT32, extents, **sums))
    whole: dict[str, Any] = {"axes": (2, 3), "normalize": True, "zero": 9}
    result("planes", blocked("code_sum_reduce", codes, DType.FLOAT32, (1, 1), **whole))
    up: dict[str, Any] = {"method": "symmetric", "border": "replicate", "zero": 9, "ratio": 0.7}
    for factor, rounding in ((2, "even"), (3, "up")):
        up |= {"factor": (factor, 2), "result_zero": -7, "rounding": rounding}
        extents = (9 * factor, 24)
        name = "code_multilinear_upsample"
        result(f"up {factor}", blocked(name, codes, DType.INT8, extents, **up))
    return Instance(graph, {"x": x})


def codes() -> Instance:
    """Convolutions of codes in blocks: of one group, directly and by Winograd's algorithm, and
    depthwise with a halo of zero points.
    """
    from nnefc.kernels.target.isa import host
    from nnefc.kernels.vector.lane_builder import lanes_of

    lanes, item = lanes_of("int32"), DType(host().codes)
    rng = np.random.default_rng(4)
    x = rng.integers(0, 100, (1, 21, 5, 6)).astype(item.numpy)
    graph = Graph("codes")
    given = graph.add_input(TensorType(item, x.shape), "x")
    blocked = given.type.with_layout(Blocked(lanes, ((1, 1), (0, 2)), 1, fill=7))
    source = graph.insert(Op("layout", [given], {}, [blocked])).output
    for name, outputs, groups in (("y", 3 * lanes + 1, 1), ("z", 21, 21), ("winograd", 9, 1)):
        filter_ = rng.integers(-99, 100, (outputs, 21 // groups, 3, 3)).astype(np.int8)
        bias = rng.integers(-999, 999, (1, outputs)).astype(np.int32)
        tile = 4 if name == "winograd" else 0
        graph.add_output(_convolved(graph, source, filter_, bias, groups, tile), name)
    return Instance(graph, {"x": x})


def depthwise_of_int16() -> Instance:
    """Sums of a depthwise convolution of int16 in blocks, with a border of zero points."""
    from nnefc.kernels.vector.lane_builder import lanes_of

    lanes, rng = lanes_of("int32"), np.random.default_rng(7)
    x = rng.integers(-(1 << 15), 1 << 15, (1, 21, 5, 6)).astype(np.int16)
    filter_ = rng.integers(-99, 100, (21, 1, 3, 3)).astype(np.int8)
    graph = Graph("depthwise convolution of int16")
    given = graph.add_input(TensorType(DType.INT16, x.shape), "x")
    blocked = given.type.with_layout(Blocked(lanes, ((1, 1), (0, 2)), 2, fill=7))
    source = graph.insert(Op("layout", [given], {}, [blocked])).output
    operands = [source, *_known(graph, filter_, np.array(7, np.int16), np.zeros((), np.int8))]
    attributes = {**_WINDOW, "groups": 21, "expression": Expression((DType.INT32,), (), (0,))}
    type_ = TensorType(DType.INT32, x.shape)
    result = type_.with_layout(Blocked(lanes, ((0, 0), (0, 0)), 4))
    y = graph.insert(Op("fused_code_conv", operands, attributes, [result])).output
    graph.add_output(graph.insert(Op("layout", [y], {}, [type_])).output, "y")
    return Instance(graph, {"x": x})


_WINDOW: dict[str, Any] = {
    "border": "constant",
    "padding": ((1, 1), (0, 2)),
    "stride": (1, 1),
    "dilation": (1, 1),
}


def _known(graph: Graph, *arrays: Array) -> Iterator[Value]:
    """Constants."""
    for array in arrays:
        attributes = {"shape": array.shape, "value": array}
        type_ = TensorType(DType(array.dtype.name), array.shape)
        yield graph.insert(Op("constant", [], attributes, [type_])).output


def _convolved(
    graph: Graph, x: Value, filter_: Array, bias: Array, groups: int, tile: int
) -> Value:
    """Requantized sums of 3 x 3 codes of a blocked value, row-major.

    `tile`: most outputs of a tile of Winograd's algorithm along a dimension, or 0.
    """
    from nnefc.ops.internal.requantization import (
        FloatScale,
        Input,
        Requantization,
        requantization_expression,
    )

    zeros = np.array(7, x.type.dtype.numpy), np.zeros((), np.int8)
    operands = [x, *_known(graph, filter_, *zeros, bias)]
    requantization = Requantization(FloatScale(2.0**-10), DType.UINT8, 0, 255, 90, Input(1))
    attributes = {
        **({"algorithm": Winograd(tile)} if tile else {}),
        **_WINDOW,
        "groups": groups,
        "expression": requantization_expression(requantization),
    }
    type_ = TensorType(DType.UINT8, (1, len(filter_), *x.type.dims[2:]))
    layout = x.type.layout
    assert layout is not None
    result = type_.with_layout(Blocked(layout.block, ((0, 0), (0, 0)), 1))
    y = graph.insert(Op("fused_code_conv", operands, attributes, [result])).output
    return graph.insert(Op("layout", [y], {}, [type_])).output


def arithmetic(dtype: DType) -> Instance:
    """Conversions to all types; products, quotients and powers of integers."""
    graph = Graph("arithmetic")
    items = np.arange(9 * 37).reshape(9, 37) * 7 - 90
    inputs = {"x": items.astype(dtype.numpy), "y": items[:, ::-1].copy().astype(dtype.numpy)}
    x, y = (graph.add_input(TensorType(dtype, items.shape), name) for name in inputs)
    for other in DType:
        if other is not DType.STRING:
            graph.add_output(build(graph, "cast", [x], dtype=other).output, f"as {other}")
    for name in ("add", "mul", "div", "pow", "remainder") if dtype.is_integer else ():
        graph.add_output(build(graph, name, [x, y]).output, name)
    if dtype.is_integer:
        product = build(graph, "matmul", [x, y], {"transposeB": True})
        graph.add_output(product.output, "matmul")
    return Instance(graph, inputs)


def product_of_codes() -> Instance:
    """A product for which there is a kernel, with rows that end within a word."""
    graph, random = Graph("codes"), np.random.default_rng(1)
    x = random.integers(0, 256, (21, 37)).astype(np.uint8)
    weights = random.integers(-128, 128, (37, 50)).astype(np.int8)
    operands = [graph.add_input(TensorType(DType.UINT8, x.shape), "x")]
    for items in (weights, np.array(9, np.uint8), np.array(0, np.int8)):
        attributes = {"shape": items.shape, "value": items}
        type_ = TensorType(DType(items.dtype.name), items.shape)
        operands.append(graph.insert(Op("constant", [], attributes, [type_])).output)
    plain = {"transposeA": False, "transposeB": False}
    sums = TensorType(DType.INT32, (21, 50))
    graph.add_output(graph.insert(Op("code_matmul", operands, plain, [sums])).output, "y")
    return Instance(graph, {"x": x})


def products_of_computed_codes() -> Instance:
    """Products whose second matrices are computed, with contiguous rows and columns."""
    graph, random = Graph("codes"), np.random.default_rng(1)
    inputs = {
        "a": random.integers(0, 256, (2, 21, 37)).astype(np.uint8),
        "rows": random.integers(0, 256, (2, 37, 50)).astype(np.uint8),
        "columns": random.integers(-128, 128, (2, 70, 37)).astype(np.int8),
        "zero": np.array(200, np.uint8),
        "small": np.array(-9, np.int8),
    }
    values = {
        name: graph.add_input(TensorType(DType(x.dtype.name), x.shape), name)
        for name, x in inputs.items()
    }
    for name, zero, turned in (("rows", "zero", False), ("columns", "small", True)):
        operands = [values[key] for key in ("a", name, "zero", zero)]
        shape = (2, 21, inputs[name].shape[-2 if turned else -1])
        attributes = {"transposeA": False, "transposeB": turned}
        made = Op("code_matmul", operands, attributes, [TensorType(DType.INT32, shape)])
        graph.add_output(graph.insert(made).output, name)
    return Instance(graph, inputs)


def softmax_of_codes() -> Instance:
    """Rows of whole vectors and a rest, of either type of codes."""
    graph, inputs = Graph("softmax of codes"), dict[str, Array]()
    for dtype in (DType.UINT8, DType.INT8):
        items = np.random.default_rng(6).integers(0, 256, (5, 197)).astype(np.uint8)
        inputs[str(dtype)] = items.view(dtype.numpy)
        x = graph.add_input(TensorType(dtype, items.shape), str(dtype))
        for rounding in ("even", "up"):
            attributes = {
                **{"axes": (1,), "scale": 0.02, "result_scale": 0.0003, "result_zero": 3},
                "rounding": rounding,
            }
            made = Op("code_softmax", [x], attributes, [TensorType(dtype, items.shape)])
            graph.add_output(graph.insert(made).output, f"y {dtype} {rounding}")
    return Instance(graph, inputs)
