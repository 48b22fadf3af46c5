"""Extents of -1 in shape signatures are symbols: one model serves many shapes, as LiteRT does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from nnefc.dynamic.dynamic_model import DynamicModel
from tests.helpers.tflite.write import model, operator, operator_code, subgraph, tensor, write

RNG = np.random.default_rng(7)
FILTER = RNG.standard_normal((3, 3, 3, 2)).astype(np.float32)
BIAS = RNG.standard_normal(3).astype(np.float32)
WEIGHTS = RNG.standard_normal((5, 48)).astype(np.float32)


def network(*, fixed: bool) -> bytes:
    """A convolution, and a product of its flattened results.

    `fixed`: the reshape is to [1, 48]; otherwise to the batch and 48, as converters write it.
    """
    tensors = [
        tensor((1, 4, 4, 2), name="x", shape_signature=(-1, 4, 4, 2)),
        tensor(FILTER.shape, name="filter", buffer=1),
        tensor((1, 4, 4, 3), name="pixels"),
        tensor((4,), "INT32", "shape"),
        tensor((1,), "INT32", "begin", buffer=3),
        tensor((1,), "INT32", "end", buffer=4),
        tensor((), "INT32", "batch"),
        tensor((), "INT32", "items", buffer=5),
        tensor((2,), "INT32", "flat", buffer=6 if fixed else 0),
        tensor((1, 48), name="row"),
        tensor(WEIGHTS.shape, name="weights", buffer=2),
        tensor((1, 5), name="y"),
        tensor((3,), name="bias", buffer=7),
    ]
    extents = [
        operator(2, (2,), (3,), "ShapeOptions", out_type=2),
        operator(3, (3, 4, 5, 5), (6,), "StridedSliceOptions", shrink_axis_mask=1),
        operator(4, (6, 7), (8,), "PackOptions", values_count=2),
    ]
    operators = [
        operator(0, (0, 1, 12), (2,), "Conv2DOptions", stride_w=1, stride_h=1),
        *(extents if not fixed else []),
        operator(1, (2, 8), (9,), "ReshapeOptions"),
        operator(5, (9, 10, -1), (11,), "FullyConnectedOptions"),
    ]
    names = ("CONV_2D", "RESHAPE", "SHAPE", "STRIDED_SLICE", "PACK", "FULLY_CONNECTED")
    numbers = [np.array(each, np.int32) for each in ([0], [1], 48, [1, 48])]
    buffers = [each.tobytes() for each in (FILTER, WEIGHTS, *numbers, BIAS)]
    graph = subgraph(tensors, operators, (0,), (11,))
    return write(model([operator_code(name) for name in names], [graph], buffers))


def image_network() -> bytes:
    """Convolutions with a stride of 2, SAME and VALID, of images of any size, and a mean."""
    tensors = [
        tensor((1, 1, 1, 2), name="x", shape_signature=(-1, -1, -1, 2)),
        tensor(FILTER.shape, name="filter", buffer=1),
        tensor((3,), name="bias", buffer=2),
        tensor((1, 1, 1, 3), name="pixels"),
        tensor((1, 1, 1, 3), name="fewer"),
        tensor((2,), "INT32", "axes", buffer=3),
        tensor((1, 3), name="y"),
    ]
    convolution = {"stride_w": 2, "stride_h": 2, "fused_activation_function": 1}
    pooling = {**convolution, "filter_width": 2, "filter_height": 2, "padding": 1}
    operators = [
        operator(0, (0, 1, 2), (3,), "Conv2DOptions", **convolution),
        operator(1, (3,), (4,), "Pool2DOptions", **pooling),
        operator(2, (4, 5), (6,), "ReducerOptions"),
    ]
    buffers = [FILTER.tobytes(), BIAS.tobytes(), np.array([1, 2], np.int32).tobytes()]
    graph = subgraph(tensors, operators, (0,), (6,))
    codes = [operator_code(name) for name in ("CONV_2D", "MAX_POOL_2D", "MEAN")]
    return write(model(codes, [graph], buffers))


def sums_of_codes(name: str, scales: tuple[float, float]) -> bytes:
    """A sum or mean of int8 over rows and columns of images of any size."""
    codes = [
        {"scale": (each,), "zero_point": (zero,)}
        for each, zero in zip(scales, (-5, 7), strict=True)
    ]
    tensors = [
        tensor((1, 1, 1, 8), "INT8", "x", shape_signature=(-1, -1, -1, 8), quantization=codes[0]),
        tensor((2,), "INT32", "axes", buffer=1),
        tensor((1, 8), "INT8", "y", quantization=codes[1]),
    ]
    graph = subgraph(tensors, [operator(0, (0, 1), (2,), "ReducerOptions")], (0,), (2,))
    axes = np.array([1, 2], np.int32).tobytes()
    return write(model([operator_code(name)], [graph], [axes]))


def addition() -> bytes:
    """a + b, with any number of rows each."""
    tensors = [
        tensor((1, 6), name="a", shape_signature=(-1, 6)),
        tensor((1, 6), name="b", shape_signature=(-1, 6)),
        tensor((1, 6), name="sum"),
    ]
    graph = subgraph(tensors, [operator(0, (0, 1), (2,), "AddOptions")], (0, 1), (2,))
    return write(model([operator_code("ADD")], [graph]))


def litert(content: bytes, *inputs: Any, reference: bool = False) -> Any:
    """LiteRT's result for inputs of other shapes; None if it refuses them.

    `reference`: by its reference kernels.
    """
    package = pytest.importorskip("ai_edge_litert.interpreter")
    kinds = package.OpResolverType
    kind = kinds.BUILTIN_REF if reference else kinds.AUTO
    interpreter = package.Interpreter(model_content=content, experimental_op_resolver_type=kind)
    details = interpreter.get_input_details()
    for each, x in zip(details, inputs, strict=True):
        interpreter.resize_tensor_input(each["index"], x.shape)
    try:
        interpreter.allocate_tensors()
    except RuntimeError:
        return None
    for each, x in zip(details, inputs, strict=True):
        interpreter.set_tensor(each["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def compiled(folder: Path, content: bytes, **options: Any) -> Any:
    path = folder / "model.tflite"
    path.write_bytes(content)
    return nnefc.compile(path, threads=1, **options)


def images(batch: int) -> Any:
    return np.random.default_rng(batch).standard_normal((batch, 4, 4, 2), np.float32)


def test_one_plan_serves_many_batches(tmp_path: Path) -> None:
    content = network(fixed=False)
    found = compiled(tmp_path, content)
    assert isinstance(found, DynamicModel)
    (shape,) = found.output_shapes
    assert shape.extents == ("x_0", "5")
    for batch in (12, 9, 10, 11, 14, 13, 1):
        np.testing.assert_allclose(
            found(images(batch)), litert(content, images(batch)), rtol=1e-4, atol=1e-4
        )
    assert found._plans.symbolic_plans <= 3  # pyright: ignore[reportPrivateUsage]


def test_one_plan_serves_images_of_one_remainder(tmp_path: Path) -> None:
    """Padding of SAME is known for extents that have one remainder by the stride."""
    content = image_network()
    found: Any = compiled(tmp_path, content)
    for rows, columns, plans in ((20, 32, 1), (24, 36, 1), (32, 28, 1), (21, 33, 2), (25, 29, 2)):
        x = np.random.default_rng(rows).standard_normal((2, rows, columns, 2), np.float32)
        np.testing.assert_allclose(found(x), litert(content, x), rtol=1e-4, atol=1e-4)
        assert found._plans.symbolic_plans == plans


@pytest.mark.parametrize("scales", [(0.05, 0.02), (0.02, 0.05), (0.3, 0.01), (0.01, 0.3)])
def test_one_plan_divides_sums_of_codes_by_any_number(
    scales: tuple[float, float], tmp_path: Path
) -> None:
    """The multiplier depends on the number of items, as LiteRT computes it for each shape."""
    content = sums_of_codes("MEAN", scales)
    found: Any = compiled(tmp_path, content)
    for rows, columns in ((6, 9), (7, 7), (20, 13), (5, 31), (8, 8), (3, 11), (1, 1), (40, 40)):
        rng = np.random.default_rng(rows)
        x = rng.integers(-128, 128, (2, rows, columns, 8)).astype(np.int8) // 4
        x = np.clip(x + rng.integers(-90, 90), -128, 127).astype(np.int8)
        expected = litert(content, x, reference=True)
        np.testing.assert_array_equal(found(x), expected)
    assert found._plans.symbolic_plans <= 3
    # the sum has another factor, but its zero point depends on the number of items, too
    content = sums_of_codes("SUM", scales)
    found = compiled(tmp_path, content)
    for rows, columns in ((6, 9), (20, 13), (8, 8)):
        x = np.random.default_rng(rows).integers(-128, 128, (2, rows, columns, 8)).astype(np.int8)
        fixed = compiled(tmp_path, content, shapes={"x": x.shape})
        np.testing.assert_array_equal(found(x), fixed(x))
    assert found._plans.symbolic_plans <= 2


def test_shapes_and_symbols_fix_extents(tmp_path: Path) -> None:
    content = network(fixed=False)
    expected = litert(content, images(3))
    for options in ({"shapes": {"x": (3, 4, 4, 2)}}, {"symbols": {"x_0": 3}}):
        found = compiled(tmp_path, content, **options)
        assert not isinstance(found, DynamicModel)
        assert found.inputs[0].shape == (3, 4, 4, 2)
        np.testing.assert_allclose(found(images(3)), expected, rtol=1e-4, atol=1e-4)


def test_constant_shapes_of_a_file_fit_their_batch_only(tmp_path: Path) -> None:
    content = network(fixed=True)
    found = compiled(tmp_path, content)
    expected = litert(content, images(1))
    np.testing.assert_allclose(found(images(1)), expected, rtol=1e-4, atol=1e-4)
    assert litert(content, images(2)) is None
    with pytest.raises(NnefError, match="48"):
        found(images(2))


def test_extents_of_several_inputs_are_independent(tmp_path: Path) -> None:
    content = addition()
    found = compiled(tmp_path, content)
    rows = np.arange(24, dtype=np.float32).reshape(4, 6)
    for pair in ((rows, -rows), (rows, rows[:1]), (rows[:1], rows[:3]), (rows[:2], rows[2:])):
        np.testing.assert_array_equal(found(*pair), litert(content, *pair))
    assert litert(content, rows[:2], rows[:3]) is None
    with pytest.raises(NnefError):
        found(rows[:2], rows[:3])
