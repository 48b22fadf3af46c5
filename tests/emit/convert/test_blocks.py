"""Matrices in blocks in ONNX files and in tract's dialect, run by onnxruntime and tract."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.driver.quantize.block_codes import STORED, WeightFormat, block_codes
from nnefc.driver.quantize.weights_in_blocks import weights_in_blocks
from nnefc.emit.convert.extents import Extents
from nnefc.emit.convert.onnx.model import onnx_model
from nnefc.emit.convert.tract.document import MULTIPLIED
from nnefc.emit.convert.tract_model import document_for, tract_model
from nnefc.formats.tensor_file import read_stored
from nnefc.formats.tensor_writer import Encoding, encode_tensor
from nnefc.ir import DType, Graph, TensorType
from nnefc.ops.tools.build import build
from nnefc.support.block_formats import BLOCK_BYTES, TRACT_FORMATS
from nnefc.support.errors import NnefError
from tests.helpers.graphs.language_model import IDS, language_model, logits, variable
from tests.models.test_block_quantized import decoded, random_blocks

Array = np.ndarray[Any, Any]
FORMATS: tuple[WeightFormat, ...] = ("q4_0", "q8_0")


def blocks_of_model(name: WeightFormat) -> Graph:
    return weights_in_blocks(language_model(), name).graph


def by_formula(name: WeightFormat) -> Array:
    def matrix(rows: Array) -> Array:
        blocks = block_codes(np.ascontiguousarray(rows), name)
        return decoded(blocks, STORED[name]).astype(np.float64).reshape(rows.shape)

    return logits(matrix)


def close(found: Array, expected: Array, tolerance: float) -> None:
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


def by_onnxruntime(path: Path, **inputs: Array) -> Any:
    ort: Any = pytest.importorskip("onnxruntime")
    return ort.InferenceSession(str(path)).run(None, inputs)[0]


def by_tract(path: Path, *inputs: Array) -> Any:
    tract: Any = pytest.importorskip("tract")
    loaded = tract.nnef().with_onnx().load(str(path))
    return loaded.into_runnable().run([*inputs])[0].to_numpy()


@pytest.mark.parametrize("name", FORMATS)
def test_onnxruntime_runs_matrices_in_blocks(name: WeightFormat, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    made = onnx_model(blocks_of_model(name))
    made.write(path)
    kinds = [node.op_type for node in made.proto.graph.node]
    assert kinds == ["GatherBlockQuantized", "Reshape", *["MatMulNBits"] * 4, "MatMul"]
    close(by_onnxruntime(path, ids=IDS), by_formula(name), 1e-6)
    close(nnefc.compile(path, accuracy="strict")(IDS), by_formula(name), 1e-5)
    codes = [each for each in made.proto.graph.initializer if each.name.startswith("table")]
    assert len(codes) == 1, "the first and the last layer share the codes"
    stored = sum(len(each.raw_data) for each in made.proto.graph.initializer)
    scales = 50 * 3 * 4  # those of the table are written in two shapes
    shapes = 3 * 8  # an operand of Reshape
    assert made.converted.weight_bytes == stored - scales - shapes


def test_tract_runs_matrices_in_blocks(tmp_path: Path) -> None:
    path = tmp_path / "net.nnef.tgz"
    model = tract_model(blocks_of_model("q4_0"), Extents(), ())
    model.write(path)
    items = 50 * 96 + 128 * 96 + 96 * 128 + 96 * 96
    assert model.converted.weight_bytes == items // 32 * 18 + 50 * 8 * 4
    close(by_tract(path, IDS), by_formula("q4_0"), 1e-6)
    close(nnefc.compile(path, accuracy="strict")(IDS), by_formula("q4_0"), 1e-5)


def test_tract_gathers_rows_of_q8_1_but_does_not_multiply_them(tmp_path: Path) -> None:
    """If it does, `MULTIPLIED` can have both formats."""
    path = tmp_path / "net"
    tract_model(blocks_of_model("q8_0"), Extents(), (), TRACT_FORMATS).write(path)
    with pytest.raises(Exception, match="EinSumMatMul"):
        by_tract(path, IDS)
    close(nnefc.compile(path, accuracy="strict")(IDS), by_formula("q8_0"), 1e-5)
    graph = Graph("table")
    ids = graph.add_input(TensorType(DType.INT64, (3,)), "ids")
    table = variable(graph, "table", np.arange(256, dtype=np.float32).reshape(4, 64))
    graph.add_output(build(graph, "gather", [table, ids], {"axis": 0}).output, "y")
    made = weights_in_blocks(graph, "q8_0").graph
    tract_model(made, Extents(), (), ("q8_1",)).write(tmp_path / "table")
    ids = np.array([3, 0, 2])
    close(by_tract(tmp_path / "table", ids), nnefc.compile(made)(ids), 0)


def test_a_conversion_keeps_blocks_that_tract_multiplies(tmp_path: Path) -> None:
    assert document_for(blocks_of_model("q8_0"), Extents()).converted.dialect == "NNEF"
    made = document_for(blocks_of_model("q4_0"), Extents(), "tract")
    assert {each.blocks for each in made.encodings.values()} == set(MULTIPLIED)
    made = document_for(blocks_of_model("q8_0"), Extents(), "tract")
    assert not any(each.blocks for each in made.encodings.values())
    made.write(tmp_path / "net")
    close(by_tract(tmp_path / "net", IDS), by_formula("q8_0"), 1e-6)


@pytest.mark.parametrize("name", sorted(BLOCK_BYTES))
@pytest.mark.parametrize("kind", ["linear", "transposed", "both", "gather"])
def test_layers_with_a_bias_and_transposed_operands(name: str, kind: str, tmp_path: Path) -> None:
    """Blocks of other models, in all formats; an operation that needs reals gets them."""
    data = random_blocks(name, 8, 3, 4)
    data[:, 0] &= 0x7F
    graph = Graph("layer")
    w = variable(graph, "w", data)
    w = build(graph, "dequantize_blocks", [w], {"format": name, "shape": (8, 96)}).output
    wide = decoded(data, name).astype(np.float64).reshape(8, 96)
    shape = (5, 96) if kind == "linear" else (96, 5)
    items: Array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    if kind == "gather":
        items = np.array([7, 0, 3])
    x = graph.add_input(TensorType(DType(items.dtype.name), items.shape), "x")
    if kind == "gather":
        y, expected = build(graph, "gather", [w, x], {"axis": 0}).output, np.take(wide, items, 0)
    elif kind == "linear":
        offsets = np.arange(8, dtype=np.float32)[None]
        y = build(graph, "linear", [x, w, variable(graph, "b", offsets)]).output
        expected = items @ wide.T + offsets
    else:
        flags = {"transposeA": True, "transposeB": True}
        y = build(graph, "matmul", [x, w], flags).output
        expected = items.T @ wide.T
    if kind == "both":
        squares = build(graph, "mul", [w, w]).output
        sums = build(graph, "sum_reduce", [squares], {"axes": (0, 1)}).output
        y = build(graph, "add", [y, sums]).output
        expected = expected + np.sum(wide**2)
    graph.add_output(y, "y")
    made = onnx_model(graph)
    kinds = {node.op_type for node in made.proto.graph.node}
    assert ("MatMulNBits" in kinds) == (kind in ("linear", "transposed"))
    assert ("GatherBlockQuantized" in kinds) == (kind == "gather")
    made.write(tmp_path / "net.onnx")
    close(by_onnxruntime(tmp_path / "net.onnx", x=items), expected, 1e-5)
    tract_model(graph, Extents(), ()).write(tmp_path / "net")
    close(by_tract(tmp_path / "net", items), expected, 1e-5)


@pytest.mark.parametrize("name", TRACT_FORMATS)
def test_files_of_blocks_are_read_again(name: str, tmp_path: Path) -> None:
    data = random_blocks(name, 5, 4, 0)
    header, pieces = encode_tensor(data, Encoding(blocks=name), "w.dat")
    (tmp_path / "w.dat").write_bytes(header.pack() + b"".join(pieces))
    stored = read_stored(tmp_path / "w.dat")
    assert (stored.shape, stored.blocks) == ((5, 128), name)
    np.testing.assert_array_equal(stored.array, data)


@pytest.mark.parametrize(
    ("array", "name"),
    [
        (np.zeros((2, 35), np.uint8), "q4_0"),
        (np.zeros((2, 36), np.int8), "q4_0"),
        (np.zeros(36, np.uint8), "q8_1"),
        (np.zeros((2, 36), np.uint8), "q5_0"),
    ],
)
def test_arrays_that_are_no_blocks_are_refused(array: Array, name: str) -> None:
    with pytest.raises(NnefError, match="are no rows of blocks"):
        encode_tensor(array, Encoding(blocks=name), "w.dat")
