"""Models of codes as NNEF with graph.quant and as ONNX in QDQ form: within one unit of LiteRT.

nnefc reads the ONNX models with the bits of LiteRT's reference kernels, and the documents, too
(`test_tflite_documents.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.emit.convert.tflite_model import tflite_document, tflite_onnx_model
from nnefc.frontends.onnx.read_model import read_onnx
from nnefc.frontends.read_model import read_graph
from nnefc.frontends.recorded_operators import evaluate_record
from nnefc.frontends.tflite.read_model import read_tflite
from nnefc.frontends.tflite.source import TfliteSource
from nnefc.ops.tools.reference import evaluate
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.limits import Limits
from tests.helpers.command_line import Cli
from tests.helpers.nnef.conformance import needs_tflite, tflite_cases
from tests.helpers.tflite.one_operator import (
    Case,
    Constant,
    Variable,
    content_of,
    inputs_of,
    litert_results,
    source_of,
)
from tests.helpers.tflite.operators_on_codes import (
    RNG,
    add,
    codes,
    conv,
    halves,
    hybrid,
    linear,
    linear_of_16_bits,
    mul,
    scaled,
)

Array = np.ndarray[Any, Any]
khronos: Any = import_module("nnef")
onnxruntime: Any = import_module("onnxruntime")


def by_onnxruntime(source: TfliteSource, inputs: Sequence[Array]) -> list[Array]:
    content = tflite_onnx_model(source, {}, Diagnostics()).proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    assert names == list(source.inputs)
    assert [each.name for each in session.get_outputs()] == list(source.outputs)
    return session.run(None, dict(zip(names, inputs, strict=True)))


def by_document(source: TfliteSource, inputs: Sequence[Array], path: Path) -> list[Array]:
    """The results of the document by its operations alone, as codes where the model has these."""
    document = tflite_document(source, {}, Diagnostics(), "nnef")
    document.write(path)
    graph = read_graph(path, ImportConfig(strict=True, records=False))
    ends = document.converted
    given = {
        end.written: x
        if end.codes is None
        else (x.astype(np.float64) - end.codes[1]) * end.codes[0]
        for x, end in zip(inputs, ends.inputs, strict=True)
    }
    results = evaluate(graph, {name: x.astype(np.float32) for name, x in given.items()}).outputs
    return [
        y if end.codes is None else y / end.codes[0] + end.codes[1]
        for y, end in zip(results.values(), ends.results, strict=True)
    ]


def assert_near(found: Sequence[Array], expected: Sequence[Array], most: float) -> None:
    for y, want in zip(found, expected, strict=True):
        assert y.shape == want.shape
        np.testing.assert_allclose(y.astype(np.float64), want.astype(np.float64), 0, most + 1e-3)


@pytest.mark.parametrize("case", [conv(), linear(), add(), mul(), linear_of_16_bits()], ids=str)
def test_an_operator_is_within_one_unit(case: Case, tmp_path: Path) -> None:
    content = content_of(case)
    (expected,) = litert_results(content, [inputs_of(case)])
    assert len(np.unique(expected[0])) > 30, "results are spread over the codes"
    source = source_of(content)
    assert_near(by_onnxruntime(source, inputs_of(case)), expected, 1)
    assert_near(by_document(source, inputs_of(case), tmp_path / "net"), expected, 1)


def test_the_quantization_file(tmp_path: Path) -> None:
    document = tflite_document(source_of(content_of(conv())), {}, Diagnostics())
    assert document.converted.dialect == "NNEF 1.0.2 with graph.quant"
    document.write(tmp_path / "net")
    parsed = khronos.load_graph(str(tmp_path / "net"))
    assert (parsed.inputs, parsed.outputs) == (["t0"], ["t3"])
    point = parsed.tensors["t3"].quantization
    assert point["op-name"] == "zero_point_linear_quantize"
    assert (point["zero_point"], point["bits"], point["signed"]) == (11, 8, True)
    assert point["scale"] == np.float32(0.1)
    assert parsed.tensors["t0"].quantization["zero_point"] == -9
    assert document.tensors["t1"].dtype == np.int8


def test_products_read_codes_that_are_stored() -> None:
    """So onnxruntime fuses a layer with its conversions."""
    graph = tflite_onnx_model(source_of(content_of(conv())), {}, Diagnostics()).proto.graph
    maker = {name: node for node in graph.node for name in node.output}
    stored = {each.name for each in graph.initializer}
    (node,) = (each for each in graph.node if each.op_type == "Conv")
    operands = [maker[name] for name in node.input[1:]]
    assert [each.op_type for each in operands] == ["DequantizeLinear"] * 2
    assert [each.input[0] in stored for each in operands] == [True, True]
    assert operands[0].input[0] == "t1"


def test_reals_with_weights_of_codes_are_rounded_as_before() -> None:
    case = hybrid()
    content = content_of(case)
    (expected,) = litert_results(content, [inputs_of(case)])
    found = by_onnxruntime(source_of(content), inputs_of(case))
    np.testing.assert_allclose(found[0], expected[0], 1e-5, 1e-5)


def test_states_are_refused_by_operator_and_tensor() -> None:
    inputs = [
        codes("int8", 2, 5),
        Constant(codes("int8", 8, 5)),
        Constant(RNG.integers(-99, 99, (8, 2)).astype(np.int16)),
        None,
        Variable((2, 16), "INT16"),
    ]
    quantization = {
        0: scaled(0.02),
        1: scaled(0.01),
        2: scaled(0.001),
        3: scaled(0.01),
        4: scaled(0.1),
    }
    outputs = [((2, 8), "INT8")]
    case = Case("SVDF", inputs, outputs, "SVDFOptions", {"rank": 1}, 3, quantization)
    source = source_of(content_of(case))
    for convert in (tflite_onnx_model, tflite_document):
        with pytest.raises(NnefError) as caught:
            convert(source, {}, Diagnostics())
        (error,) = caught.value.errors
        assert error.rule == "flatten/state"
        assert "operator 0 (SVDF)" in error.message
        assert "'t3'" in error.message


def test_the_command_compares_codes_with_their_reals(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(content_of(add()))
    for output in ("net.nnef.tgz", "net.onnx"):
        shown = cli("convert", path, "-o", tmp_path / output, "--check")
        assert shown.status == 0, shown.err + shown.out
        assert "1 result equal bit for bit" in shown.out
    assert cli("pack", path, "-o", tmp_path / "package").status == 0
    shown = cli("convert", tmp_path / "package", "-o", tmp_path / "other", "--to", "nnef")
    assert "with graph.quant" in shown.out, shown.err


def by_nnefc(content: bytes, path: Path, inputs: Sequence[Array]) -> list[Array]:
    """The results of the ONNX model, read again without a warning."""
    path.write_bytes(content)
    graph = nnefc.import_model(path, strict=True)
    assert isinstance(graph, nnefc.Graph)
    names = [each.name for each in graph.inputs]
    return list(evaluate(graph, dict(zip(names, inputs, strict=True))).outputs.values())


def test_a_record_gives_the_bits_of_the_reference_kernel(tmp_path: Path) -> None:
    """Interpreted, and of the convolution also compiled."""
    for case in (linear(), add(), mul(), conv(), halves()):
        content = content_of(case)
        (expected,) = litert_results(content, [inputs_of(case)])
        model = tflite_onnx_model(source_of(content), {}, Diagnostics()).proto
        found = by_nnefc(model.SerializeToString(), tmp_path / "net.onnx", inputs_of(case))
        np.testing.assert_array_equal(found[0], expected[0], str(case))
        if case.name == "CONV_2D":
            result = nnefc.compile(tmp_path / "net.onnx")(*inputs_of(case))
            np.testing.assert_array_equal(result, expected[0])


def another_border(model: Any) -> None:
    """The border is on one side."""
    (node,) = (each for each in model.graph.node if each.op_type == "Conv")
    (pads,) = (each for each in node.attribute if each.name == "pads")
    assert (pads.ints[0], pads.ints[2]) == (1, 1)
    pads.ints[0], pads.ints[2] = 0, 2


def other_scale(model: Any) -> None:
    """The scale of the result, which the last node reads."""
    name = next(n.input[1] for n in model.graph.node if n.op_type == "QuantizeLinear")
    (scale,) = (each for each in model.graph.initializer if each.name == name)
    scale.raw_data = np.float32(0.2).tobytes()


def no_record(model: Any) -> None:
    model.metadata_props[0].value = "[1, {"


def no_operator(model: Any) -> None:
    (entry,) = model.metadata_props
    entry.value = entry.value.replace('"CONV_2D"', '"SQUEEZE"')


def no_list(model: Any) -> None:
    (entry,) = model.metadata_props
    entry.value = entry.value.replace('"inputs":[', '"inputs":[3,')


@pytest.mark.parametrize("edit", [another_border, other_scale, no_record, no_operator, no_list])
def test_records_that_do_not_fit_are_ignored(edit: Any, tmp_path: Path) -> None:
    """An edited model has the results of its nodes."""
    case = conv()
    source, inputs = source_of(content_of(case)), inputs_of(case)
    model = tflite_onnx_model(source, {}, Diagnostics()).proto
    edit(model)
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    diagnostics = Diagnostics()
    read = read_onnx(path, Limits(), diagnostics, evaluate_record=evaluate_record)
    graph = read.graph({}, diagnostics)
    (warning,) = (each for each in diagnostics.warnings if each.rule == "onnx/record")
    assert warning.severity == "warning"
    del model.metadata_props[:]
    (want,) = by_nnefc(model.SerializeToString(), tmp_path / "plain.onnx", inputs)
    (found,) = evaluate(graph, {source.inputs[0]: inputs[0]}).outputs.values()
    np.testing.assert_array_equal(found, want)


@needs_tflite
@pytest.mark.parametrize(
    "folder",
    [each for each in tflite_cases() if each.name.startswith(("i8_", "u8_", "net_mini"))],
    ids=lambda folder: folder.name,
)
def test_cases_by_onnxruntime_and_by_their_records(folder: Path, tmp_path: Path) -> None:
    source = read_tflite(folder / "model.tflite", Limits(), Diagnostics())
    with np.load(folder / "io.npz") as stored:
        inputs, expected = (
            [stored[f"{kind}{i}"] for i in range(len(names))]
            for kind, names in (("in", source.inputs), ("out", source.outputs))
        )
    is_codes = expected[0].dtype.kind in "iu"
    most = 1 if is_codes else 1e-3
    if not folder.name.endswith("_float"):
        content = tflite_onnx_model(source, {}, Diagnostics()).proto.SerializeToString()
        found = by_nnefc(content, tmp_path / "net.onnx", inputs)
        for y, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(y, want, 0 if is_codes else 1e-6, 0)
    if not folder.name.startswith("net_"):
        assert_near(by_onnxruntime(source, inputs), expected, most - 1e-3)
