"""`nnefc quantize --weights` from ONNX to ONNX: other nodes stay, and onnxruntime runs both."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.driver.quantize.block_codes import STORED, WeightFormat, block_codes
from tests.helpers.command_line import Cli
from tests.helpers.onnx.models import model, node, save, tensor, weight
from tests.models.test_block_quantized import decoded

onnx: Any = pytest.importorskip("onnx")
ort: Any = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)
TABLE = RNG.standard_normal((50, 64)).astype(np.float32)
UP = RNG.standard_normal((64, 96)).astype(np.float32)
DOWN = RNG.standard_normal((64, 96)).astype(np.float32)
BIAS = RNG.standard_normal(64).astype(np.float32)


def rounded(items: Array, name: WeightFormat, *, swapped: bool = False) -> Array:
    """The items of a matrix in blocks along its last axis, or (`swapped`) its first, in float64."""
    rows = np.ascontiguousarray(items.T if swapped else items).astype(np.float32)
    made = decoded(block_codes(rows, name), STORED[name]).astype(np.float64).reshape(rows.shape)
    return made.T if swapped else made


def language_model(dtype: Any = np.float32, branch: bool = False) -> Any:
    """Embeddings of ids [B, S] through two products and a bias, to logits by the same table."""
    kind = 1 if dtype is np.float32 else 10
    nodes = [
        node("Gather", ["table", "ids"], ["embedding"]),
        node("MatMul", ["embedding", "up"], ["wide"]),
        node("Reshape", ["wide", "flat"], ["rows"]),
        node("Gemm", ["rows", "down", "bias"], ["narrow"], transB=1),
        node("Transpose", ["table"], ["head"], perm=[1, 0]),
        node("MatMul", ["narrow", "head"], ["logits"]),
    ]
    weights = [
        *(
            weight(name, items.astype(dtype))
            for name, items in {"table": TABLE, "up": UP, "down": DOWN, "bias": BIAS}.items()
        ),
        weight("flat", np.array([-1, 96])),
    ]
    results = [tensor("logits", ["N", 50], kind)]
    if branch:
        body = onnx.helper.make_graph(
            [node("ReduceSum", ["up"], ["inner"], keepdims=0)],
            "body",
            [],
            [tensor("inner", [], kind)],
        )
        flag = weight("flag", np.array(True))
        weights.append(flag)
        nodes.append(node("If", ["flag"], ["sum"], then_branch=body, else_branch=body))
        results.append(tensor("sum", [], kind))
    return model(nodes, [tensor("ids", ["B", "S"], 7)], results, weights)


def logits(ids: Array, name: WeightFormat) -> Array:
    table = rounded(TABLE, name)
    rows = (table[ids] @ rounded(UP, name, swapped=True)).reshape(-1, 96)
    return (rows @ rounded(DOWN, name).T + BIAS) @ table.T


@pytest.mark.parametrize("name", ["q4_0", "q8_0"])
@pytest.mark.parametrize("external", ["", "data.bin"])
def test_nodes_with_weights_are_replaced(
    cli: Cli, tmp_path: Path, name: WeightFormat, external: str
) -> None:
    source, output = (
        save(language_model(), tmp_path / "net.onnx", external=external),
        tmp_path / "q.onnx",
    )
    shown = cli("quantize", source, "--weights", name, "-o", output, "--json")
    assert shown.status == 0, shown.err
    facts = json.loads(shown.out)
    rows = {each["layer"]: each for each in facts["weights"]}
    assert {key: row["shape"] for key, row in rows.items()} == {
        "embedding": [50, 64],
        "wide": [96, 64],
        "narrow": [64, 96],
        "logits": [50, 64],
    }
    error = rounded(UP, name, swapped=True) - UP
    ratio = 10 * np.log10(np.sum(UP.astype(np.float64) ** 2) / np.sum(error**2))
    assert rows["wide"]["signal_to_noise"] == pytest.approx(ratio)
    assert facts["inputs"][0]["shape"] == ["B", "S"]
    made = onnx.load(output)
    onnx.checker.check_model(made)
    kinds = [each.op_type for each in made.graph.node]
    assert kinds == [
        *("GatherBlockQuantized", "Shape", "Concat", "Reshape", "MatMulNBits", "Reshape"),
        *("MatMulNBits", "Add", "MatMulNBits"),
    ]
    names = {each.name for each in made.graph.initializer}
    assert not names & {"table", "up", "down"}, "no matrix is stored as reals"
    assert facts["weight_bytes"] == sum(len(each.raw_data) for each in made.graph.initializer)
    session = ort.InferenceSession(str(output))
    for shape in [(1, 1), (3, 7)]:
        ids = RNG.integers(0, 50, shape)
        expected = logits(ids, name)
        for found, tolerance in (
            (session.run(None, {"ids": ids})[0], 2e-6),
            (nnefc.compile(output, accuracy="strict")(ids), 2e-5),
        ):
            assert np.abs(found - expected).max() < tolerance * np.abs(expected).max()


def test_weights_of_16_bits_have_scales_of_16_bits(cli: Cli, tmp_path: Path) -> None:
    source, output = save(language_model(np.float16), tmp_path / "net.onnx"), tmp_path / "q.onnx"
    shown = cli("quantize", source, "--weights", "q8_0", "-o", output, "--json")
    assert shown.status == 0, shown.err
    assert [each["quantized"] for each in json.loads(shown.out)["weights"]] == [True] * 4
    ids = RNG.integers(0, 50, (2, 3))
    reals = ort.InferenceSession(str(source)).run(None, {"ids": ids})[0].astype(np.float64)
    found = ort.InferenceSession(str(output)).run(None, {"ids": ids})[0]
    assert found.dtype == np.float16
    assert np.linalg.norm(found - reals) < 0.02 * np.linalg.norm(reals)
    found = nnefc.compile(output)(ids)
    assert np.linalg.norm(found - reals) < 0.02 * np.linalg.norm(reals)


def test_tract_computes_weights_of_16_bits(cli: Cli, tmp_path: Path) -> None:
    tract: Any = pytest.importorskip("tract")
    source = save(language_model(np.float16), tmp_path / "net.onnx")
    output = tmp_path / "q.nnef.tgz"
    shown = cli("quantize", source, "--weights", "q4_0", "-o", output, "--json")
    assert shown.status == 0, shown.err
    facts = json.loads(shown.out)
    assert [each["bytes_before"] for each in facts["weights"]] == [6400, 12288, 12288, 6400]
    assert all(each["quantized"] for each in facts["weights"])
    ids = RNG.integers(0, 50, (2, 3))
    loaded = tract.nnef().with_onnx().load(str(output))
    found = loaded.into_runnable().run([ids])[0].to_numpy()
    assert found.dtype == np.float16
    assert cli("quantize", source, "--weights", "q4_0", "-o", tmp_path / "q.onnx").status == 0
    session = ort.InferenceSession(str(tmp_path / "q.onnx"))
    expected = session.run(None, {"ids": ids})[0].astype(np.float64)
    for each in (found, nnefc.compile(output)(ids)):
        assert np.linalg.norm(each - expected) < 2e-3 * np.linalg.norm(expected)


def test_a_matrix_stays_for_those_that_need_its_reals(cli: Cli, tmp_path: Path) -> None:
    """A branch reads one, `--keep` names another one."""
    source = save(language_model(branch=True), tmp_path / "net.onnx")
    output = tmp_path / "q.onnx"
    shown = cli("quantize", source, "--weights", "q4_0", "--keep", "logits", "-o", output)
    assert shown.status == 0, shown.err
    assert shown.out.count("reals: kept") == 1
    made = onnx.load(output)
    assert {"table", "up"} <= {each.name for each in made.graph.initializer}
    assert "down" not in {each.name for each in made.graph.initializer}
    assert "Transpose" in {each.op_type for each in made.graph.node}
    _, total = ort.InferenceSession(str(output)).run(None, {"ids": np.array([[1]])})
    assert total == pytest.approx(UP.astype(np.float64).sum(), rel=1e-4)


def test_shapes_and_symbols_are_fixed_by_a_conversion(cli: Cli, tmp_path: Path) -> None:
    source, output = save(language_model(), tmp_path / "net.onnx"), tmp_path / "q.onnx"
    options = ("--symbol", "S=3", "--json")
    facts = json.loads(cli("quantize", source, "--weights", "q4_0", "-o", output, *options).out)
    assert facts["inputs"][0]["shape"] == ["B", "3"]
    ids = RNG.integers(0, 50, (2, 3))
    expected = logits(ids, "q4_0")
    found = ort.InferenceSession(str(output)).run(None, {"ids": ids})[0]
    assert np.abs(found - expected).max() < 2e-6 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("made", "shape", "reason"),
    [
        (node("MatMul", ["x", "w"], ["y"]), (33, 4), "rows of 33 items are not whole blocks"),
        (node("MatMul", ["w", "x"], ["y"]), (4, 32), "the left matrix of a product"),
        (node("MatMul", ["x", "w"], ["y"]), (2, 32, 4), "not one matrix"),
        (node("Gemm", ["x", "w"], ["y"], alpha=2.0), (32, 4), "a product with factors"),
        (node("Gemm", ["x", "w"], ["y"], transA=1), (32, 4), "a product with factors"),
    ],
)
def test_models_without_such_weights_are_refused(
    cli: Cli, tmp_path: Path, made: Any, shape: tuple[int, ...], reason: str
) -> None:
    extent = shape[-1] if made.input[0] == "w" else shape[-2]
    items = weight("w", np.ones(shape, np.float32))
    ends = [tensor("x", [extent, extent])], [tensor("y", None)]
    source = save(model([made], *ends, [items]), tmp_path / "net.onnx")
    shown = cli("quantize", source, "--weights", "q4_0", "-o", tmp_path / "q.onnx")
    assert shown.status == 1
    assert reason in shown.err
    assert not (tmp_path / "q.onnx").exists()
