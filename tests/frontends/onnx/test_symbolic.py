"""Models with symbolic dimensions: a trace serves other sizes, with results of onnxruntime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import nnefc
from nnefc.frontends.common.extents import extent_of
from nnefc.frontends.onnx.read_model import read_onnx
from nnefc.frontends.onnx.source import OnnxSource
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.limits import Limits
from nnefc.symbolic.integers import Trace
from tests.helpers.nnef.conformance import ONNX, needs_onnx
from tests.helpers.onnx.evaluate import source_of

Array = np.ndarray[Any, Any]

SIZES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "densenet": ((3,), (5,)),
    "llama_gqa_kv_cache": ((2, 5, 9, 4), (3, 7, 11, 4)),
    "llama_gqa_kv_cache_ts": ((2, 5, 9, 4), (3, 7, 11, 4)),
    "llama_opset23": ((2, 5, 9, 4), (3, 7, 11, 4)),
    "mamba_scan": ((2, 12), (3, 7)),
    "moe_einsum": ((2, 7), (3, 9)),
    "nested_local_functions": ((2, 5), (3, 7)),
    "stft_conv_frontend": ((2, 700), (3, 900)),
    "t5_decoder": ((2, 6, 11), (3, 9, 7)),
    "unet_dynamic_hw": ((2, 29, 34), (3, 28, 19)),
    "vit_mini_dynamic_batch": ((2,), (5,)),
}
"""Values of the free symbols of a case in a trace, and others for which it must hold."""


def traced(source: OnnxSource, values: tuple[int, ...]) -> Trace:
    """The trace of the graph for values of the free symbols."""
    known = dict(zip(source.free, values, strict=True))
    inputs = source.signature.inputs
    shapes = {each.name: [extent_of(n, known) for n in each.extents] for each in inputs}
    trace = Trace()
    lifted = {name: trace.symbol(value) for name, value in known.items()}
    source.graph(shapes, lifted=lifted)
    return trace


@needs_onnx
@pytest.mark.parametrize("name", SIZES)
def test_the_graph_of_one_size_is_that_of_others(name: str) -> None:
    assert ONNX is not None
    try:
        source = read_onnx(ONNX / name / "model.onnx", Limits(), Diagnostics())
        first, other = SIZES[name]
        holds = traced(source, first).function([])
    except NnefError as error:
        if all(each.rule == "onnx/operator" for each in error.errors):
            pytest.skip(str(error.errors[0]))
        raise
    assert holds(*first) is not None
    assert holds(*other) is not None


@needs_onnx
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "plans"), [("mamba_scan", 2), ("t5_decoder", 2), ("nested_local_functions", 1)]
)
def test_symbolic_plans_give_the_expected_results(name: str, plans: int) -> None:
    """Kernels for few rows differ from others, so that two sizes may need two plans."""
    assert ONNX is not None
    folder = ONNX / name
    model = nnefc.compile(folder / "model.onnx", keep=False)
    tolerance = json.loads((folder / "case.json").read_text())["tolerance"]
    for file in (folder / "io.npz", folder / "io_1.npz"):
        inputs, expected = arrays(file, "in"), arrays(file, "out")
        results: Any = model(*inputs)
        listed: list[Array] = list(results) if isinstance(results, tuple) else [results]  # pyright: ignore
        for y, want in zip(listed, expected, strict=True):
            np.testing.assert_allclose(y, want, **tolerance)
    assert model._plans.symbolic_plans <= plans  # pyright: ignore
    assert model._plans._failed_traces == 0  # pyright: ignore


def arrays(file: Path, prefix: str) -> list[Array]:
    with np.load(file) as stored:
        count = sum(name.startswith(prefix) for name in stored.files)
        return [stored[f"{prefix}{i}"] for i in range(count)]


def test_extents_may_be_computed_in_32_bits() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
      graph (float[N, M] x) => (float[K] y) {
        s = Shape(x)
        i = Cast <to = 6> (s)
        p = ReduceProd <keepdims = 1> (i)
        l = Cast <to = 7> (p)
        y = Reshape(x, l)
      }""")
    source = source_of(model)
    function = traced(source, (3, 4)).function([])
    assert function(5, 7) is not None
    assert source.graph({"x": (5, 7)}).outputs[0].type.dims == (35,)


def test_standard_functions_do_not_specialize_extents() -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 20]>
      graph (float[N, M] x) => (float[N, M] y) { y = Gelu <approximate = "tanh"> (x) }""")
    assert traced(source_of(model), (3, 4)).function([])(5, 7) is not None


def test_a_number_that_is_no_real_behind_one_that_is() -> None:
    """The variance over one axis, then over both: float32 may not hold the product of extents."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
    variances (float[A, B] x) => (float[A] one, float all) <int64[1] axis = {1}, float unit = {1}> {
      m = ReduceMean <axes = [1], keepdims = 1> (x)
      d = Sub(x, m)
      q = Mul(d, d)
      v = ReduceMean <axes = [1], keepdims = 0> (q)
      n = Shape(x)
      b = Gather(n, axis)
      width = ReduceProd <keepdims = 0> (b)
      count = Cast <to = 1> (width)
      s = Mul(v, count)
      free = Sub(count, unit)
      one = Div(s, free)
      size = ReduceProd <keepdims = 0> (n)
      total = Cast <to = 1> (size)
      w = ReduceMean <keepdims = 0> (q)
      all = Mul(w, total)
    }""")
    holds = traced(source_of(model), (4, 6)).function([])
    assert holds(5, 7) is not None
