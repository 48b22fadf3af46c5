"""Weights alone in blocks of 32 codes: their rounding, the graph, and what it computes."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc import NnefError
from nnefc.driver.quantize.block_codes import STORED, WeightFormat, block_codes
from nnefc.driver.quantize.weights_in_blocks import WeightsInBlocks, weights_in_blocks
from nnefc.frontends.nnef import import_text
from nnefc.ir import DType, Graph, print_graph
from nnefc.lower import lower
from nnefc.ops.tools.build import build
from nnefc.passes.pipeline import run_pipeline
from tests.helpers.command_line import DIGITS
from tests.helpers.examples import examples
from tests.helpers.graphs.language_model import IDS, language_model, logits, variable
from tests.models.test_block_quantized import decoded

Array = np.ndarray[Any, Any]
FORMATS: tuple[WeightFormat, ...] = ("q4_0", "q8_0")


def rounded(block: Array, name: WeightFormat) -> bytes:
    """A block by the formulas of llama.cpp, item by item, in the order of its struct."""
    if name == "q8_0":
        scale = max(np.abs(block)) / np.float32(127)
        inverse = np.float32(1) / scale if scale else np.float32(0)
        numbers = [float(x * inverse) for x in block]
        codes = [int(math.copysign(math.floor(abs(x) + 0.5), x)) for x in numbers]
        return struct.pack("<e2x32b", scale, *codes)
    largest = np.float32(0)
    for x in block:
        largest = x if abs(x) > abs(largest) else largest
    scale = largest / np.float32(-8)
    inverse = np.float32(1) / scale if scale else np.float32(0)
    codes = [min(15, int(x * inverse + np.float32(8.5))) for x in block]
    return struct.pack("<e16B", scale, *(codes[i] | codes[i + 16] << 4 for i in range(16)))


@examples(0.5)
@given(st.sampled_from(FORMATS), st.integers(0, 999), st.sampled_from([1e-3, 1.0, 100.0, 0.0]))
def test_blocks_are_rounded_as_by_llama_cpp(name: WeightFormat, seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    rows = (rng.standard_normal((3, 96)) * size).astype(np.float32)
    rows[0, :40] = np.round(rows[0, :40])  # ties and blocks of zeros
    rows[1, 32:64] = 0
    expected = b"".join(rounded(block, name) for block in rows.reshape(-1, 32))
    assert block_codes(rows, name).tobytes() == expected


def quantized(name: WeightFormat, **options: Any) -> WeightsInBlocks:
    return weights_in_blocks(language_model(), name, **options)


@pytest.mark.parametrize("name", FORMATS)
def test_results_are_those_of_the_dequantized_weights(name: WeightFormat) -> None:
    """In float64: the codes times the scales, decoded one by one."""
    graph = nnefc.quantize(language_model(), weights=name)

    def matrix(rows: Array) -> Array:
        blocks = block_codes(np.ascontiguousarray(rows), name)
        return decoded(blocks, STORED[name]).astype(np.float64).reshape(rows.shape)

    expected = logits(matrix)
    found = nnefc.compile(graph, accuracy="strict")(IDS)
    assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("name", FORMATS)
def test_blocks_stay_in_memory(name: WeightFormat) -> None:
    """No constant of the program has the bytes of a matrix in float32."""
    graph = quantized(name).graph
    run_pipeline(graph)
    program = lower(graph)
    sizes = [getattr(each, "nbytes", None) or each.source.nbytes for each in program.constants]  # pyright: ignore[reportAttributeAccessIssue]
    assert max(sizes) <= 128 * 96 * 36 // 32
    arguments = [launch.kernel.arguments for launch in program.launches]
    assert sum(STORED[name] in each for each in arguments) >= 4


def test_each_matrix_has_a_row() -> None:
    made = quantized("q4_0", keep=["down"])
    rows = {each.name: each for each in made.weights}
    assert list(rows) == ["embedding", "up", "down", "hidden", "head", "short"]
    assert rows["up"].shape == (128, 96)
    assert (rows["up"].bytes_before, rows["up"].bytes_after) == (128 * 96 * 4, 128 * 96 * 18 // 32)
    assert rows["hidden"].bytes_before == 96 * 96 * 2, "stored in 16 bits"
    assert rows["down"].reason == "kept"
    assert rows["short"].reason == "rows of 50 items are not whole blocks"
    weights = language_model().variables["up"].data
    assert weights is not None
    codes = block_codes(np.ascontiguousarray(weights[0].T), "q4_0")
    errors = decoded(codes, "q4_0").reshape(128, 96).T - weights[0].astype(np.float64)
    noise = rows["up"].noise
    assert noise is not None
    expected = 10 * np.log10(np.sum(weights.astype(np.float64) ** 2) / np.sum(errors**2))
    assert noise.decibels == pytest.approx(expected)


def test_one_matrix_that_two_operations_read_is_stored_once() -> None:
    """The table of embeddings is the last matrix, transposed."""
    graph = quantized("q8_0").graph
    labels = [variable.label for variable in graph.variables.values()]
    assert labels == ["short", "table_q8_0", "up_q8_0", "down_q8_0", "hidden_q8_0"]
    matrices = [op for op in graph.ops if op.name == "dequantize_blocks"]
    assert len(matrices) == 4


def test_the_model_itself_stays() -> None:
    model = language_model()
    before = print_graph(model)
    weights_in_blocks(model, "q4_0")
    assert print_graph(model) == before


def product(matrix: Array, left: bool = False) -> Graph:
    graph = Graph("product")
    w = variable(graph, "w", matrix)
    x = graph.add_input(w.type.with_dtype(DType.FLOAT32), "x")
    operands = [w, x] if left else [x, w]
    graph.add_output(build(graph, "matmul", operands, {"transposeB": True}).output, "y")
    return graph


@pytest.mark.parametrize(
    ("matrix", "left", "message"),
    [
        (np.ones((4, 33), np.float32), False, "'matmul': rows of 33 items are not whole blocks"),
        (np.ones((4, 64), np.float32), True, "the left matrix of a product"),
        (np.ones((2, 4, 32), np.float32), False, "not one matrix"),
        (np.full((4, 32), np.nan, np.float32), False, "weight 'w' has nan among its items"),
    ],
)
def test_graphs_without_such_weights_are_refused(matrix: Array, left: bool, message: str) -> None:
    with pytest.raises(NnefError, match=message):
        weights_in_blocks(product(matrix, left), "q4_0")


def test_scales_beyond_float16_stay_reals() -> None:
    made = weights_in_blocks(product(np.full((4, 32), 1e7, np.float32)), "q4_0")
    assert [each.reason for each in made.weights] == ["a scale exceeds float16"]
    assert [op.name for op in made.graph.ops] == ["variable", "matmul"]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (None, {}, "samples of the inputs are needed"),
        (None, {"weights": "q5_1"}, "weights = 'q5_1': must be one of 'q4_0', 'q8_0'"),
        ([], {"weights": "q4_0"}, "needs no samples, so leave out data"),
        (None, {"weights": "q4_0", "observer": "entropy", "mean": 1}, "leave out observer, mean"),
        (None, {"weights": "q4_0", "signal_to_noise": 30}, "leave out signal_to_noise"),
        (None, {"weights": "q4_0", "keep": "1%"}, "leave out a bound in keep"),
        (None, {"weights": "q4_0", "keep": ["scores", "z"]}, "no layer 'z'"),
    ],
)
def test_options_that_contradict_are_refused(data: Any, options: Any, message: str) -> None:
    with pytest.raises(NnefError, match=message):
        nnefc.quantize(DIGITS, data, **options)


def test_matrices_of_layers_without_names_have_those_of_the_results_behind_them() -> None:
    graph = import_text(
        "version 1.0; extension KHR_enable_operator_expressions; graph net(x) -> (y) {"
        "x = external(shape = [4,32]); w = variable(shape = [32,32], label = 'w');"
        "y = matmul(relu(matmul(x, w)), w); }"
    )
    graph.variables["w"].data = np.ones((32, 32), np.float32)
    first, last = (op for op in graph.ops if op.name == "matmul")
    first.output.name = last.output.name = ""
    (relu,) = (op for op in graph.ops if op.name == "relu")
    relu.output.name = "hidden"
    found = weights_in_blocks(graph, "q8_0").weights
    assert [each.name for each in found] == ["hidden", "matmul"]
