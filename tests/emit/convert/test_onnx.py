"""Graphs as ONNX models: samples of operations by onnxruntime, and imported again."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.emit.convert.onnx.model import onnx_model
from nnefc.frontends.nnef import import_text
from nnefc.frontends.read_model import read_onnx_bytes
from nnefc.ir import Graph
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.sample import Instance, instance
from nnefc.ops.tools.table import declared
from nnefc.options.import_config import DEFAULT
from nnefc.support.errors import NnefError
from tests.helpers.command_line import DIGITS

REFUSED = {
    *("external", "constant", "variable", "update", "append", "bitcast", "dequantize_blocks"),
    *("log2", "logarithmic_quantize", "debox", "argmax_pool", "sample", "desample"),
    *("avg_roi_pool", "max_roi_pool", "roi_resample", "avg_roi_align", "max_roi_align"),
    *("max_pool_with_index", "doubling_high_product", "rounding_shift"),
    *("shift_left", "shift_right", "stepwise_conv", "region_max", "ordered_sum"),
}
"""Operations that no handler writes, and compounds of these; shifts of signed integers."""
NAMES = [name for name in declared() if name not in REFUSED]
UNLIKE = {"cast", "grid_sample"}
"""Operations with samples that onnxruntime computes in another way: reals beyond the range of
integers, and reflected coordinates exactly between two items."""


def imported(content: bytes) -> Graph:
    graph = read_onnx_bytes(content, DEFAULT, DEFAULT.diagnostics(), dynamic=False)
    assert isinstance(graph, Graph)
    return graph


def by_onnxruntime(content: bytes, inputs: dict[str, Any]) -> list[Any]:
    ort: Any = pytest.importorskip("onnxruntime")
    return ort.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, inputs)


def converted(sample: Instance) -> bytes | None:
    """The serialized model; None if an operation is refused by name."""
    try:
        proto = onnx_model(sample.graph).proto
    except NnefError as error:
        assert {each.rule for each in error.errors} == {"onnx/unsupported"}
        return None
    import_module("onnx.checker").check_model(proto)
    return proto.SerializeToString()


@pytest.mark.parametrize("name", NAMES)
def test_samples(name: str) -> None:
    """The file is read as the same function, which onnxruntime computes where it has kernels."""
    spec = declared()[name]
    number, run = 0, 0
    for each in spec.samples:
        sample = instance(spec, each)
        content = converted(sample)
        if content is None:
            continue
        number += 1
        expected = evaluate(sample.graph, sample.inputs).outputs
        again = imported(content)
        found = evaluate(again, sample.inputs).outputs
        assert list(found) == list(expected)
        for key, want in expected.items():
            np.testing.assert_allclose(found[key], want, 1e-5, 1e-5, err_msg=str(each))
            assert found[key].shape == np.shape(want)
        results = None if name in UNLIKE else run_by_onnxruntime(content, sample)
        if results is not None:
            run += 1
            for got, want in zip(results, expected.values(), strict=True):
                np.testing.assert_allclose(got, want, 1e-4, 1e-3, err_msg=str(each))
                assert got.shape == np.shape(want)
    assert number, "every sample is refused"
    assert run or name in UNLIKE, "onnxruntime runs no sample"


def run_by_onnxruntime(content: bytes, sample: Instance) -> list[Any] | None:
    """The results of a sample; None if onnxruntime refuses it, for a rank or a type."""
    inputs = {
        value.name: np.asarray(sample.inputs[value.name]).astype(value.type.dtype.numpy)
        for value in sample.graph.inputs
    }
    try:
        return by_onnxruntime(content, inputs)
    except Exception as error:
        assert type(error).__module__.startswith("onnxruntime."), error
        return None


def test_onnxruntime_computes_the_same() -> None:
    graph = nnefc.import_model(DIGITS)
    content = onnx_model(graph).proto.SerializeToString()
    (value,) = graph.inputs
    x = np.random.default_rng(1).random(value.type.dims, np.float32)
    (found,) = by_onnxruntime(content, {value.name: x})
    expected = evaluate(graph, {value.name: x}).outputs
    np.testing.assert_allclose(found, next(iter(expected.values())), 1e-4, 1e-6)
    again = nnefc.compile(imported(content))(x)
    assert again.tobytes() == nnefc.compile(graph)(x).tobytes()


def test_everything_is_refused_at_once() -> None:
    graph = import_text(
        """version 1.0;
        graph net( x ) -> ( y, x1 )
        {
            x = external(shape = [1, 2, 8, 8]);
            data1 = debox(x, size = [1, 1, 3, 3]);
            b = debox(data1, size = [1, 1, 3, 3]);
            y = log2(b);
            x1 = copy(x);
        }
        """
    )
    with pytest.raises(NnefError) as refused:
        onnx_model(graph)
    assert [each.message for each in refused.value.errors] == [
        "'data1': operation debox is not converted to ONNX (2 times)",
        "'y': operation log2 is not converted to ONNX",
    ]
    assert [each.line for each in refused.value.errors] == [5, 7]


@pytest.mark.parametrize(
    ("begin", "end", "stride"), [(3, 0, -1), (4, 0, -2), (4, -6, -1), (-1, 1, -3), (0, 0, 1)]
)
def test_the_end_of_reversed_slices(begin: int, end: int, stride: int) -> None:
    """0 is the end of the axis for stride 1; for others it is index 0, which is left out."""
    graph = import_text(f"""version 1.0;
        graph g(x) -> (y) {{
            x = external<scalar>(shape = [5, 2]);
            y = slice(x, axes = [0], begin = [{begin}], end = [{end}], stride = [{stride}]);
        }}""")
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    (expected,) = evaluate(graph, {"x": x}).outputs.values()
    (y,) = by_onnxruntime(onnx_model(graph).proto.SerializeToString(), {"x": x})
    np.testing.assert_array_equal(y, expected)
