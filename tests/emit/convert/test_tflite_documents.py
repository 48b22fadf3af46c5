"""Records in documents of converted models: nnefc computes the bits of LiteRT's kernels."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.emit.convert.nnef_model import NnefModel, read_again
from nnefc.emit.convert.tflite_model import tflite_document
from nnefc.formats.tensor_file import read_tensor, write_tensor
from nnefc.frontends.common.operators.recorded import Group, input_names
from nnefc.frontends.read_model import read_graph
from nnefc.frontends.tflite.read_model import read_tflite
from nnefc.frontends.tflite.source import TfliteSource
from nnefc.ir.verify import verify
from nnefc.ops.tools.reference import evaluate
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.limits import Limits
from tests.helpers.command_line import Cli
from tests.helpers.nnef.conformance import needs_tflite, tflite_cases
from tests.helpers.tflite.networks_of_codes import codes_of_16_bits, requantized, several
from tests.helpers.tflite.one_operator import (
    Constant,
    content_of,
    inputs_of,
    litert_results,
    source_of,
)
from tests.helpers.tflite.operators_on_codes import add, codes, conv, halves, linear, mul

Array = np.ndarray[Any, Any]

RECORDS = "nnefc.tflite.json"


def written(source: TfliteSource, path: Path) -> NnefModel:
    """The document in standard NNEF, which is written to a path."""
    document = tflite_document(source, {}, Diagnostics(), "nnef")
    document.write(path)
    return document


def results_of(
    path: Path, document: NnefModel, inputs: Sequence[Array], diagnostics: Diagnostics
) -> list[Array]:
    """The results of what is at a path, for the reals of codes."""
    graph = read_graph(path, ImportConfig(), diagnostics)
    return evaluated(graph, document, inputs)


def evaluated(graph: nnefc.Graph, document: NnefModel, inputs: Sequence[Array]) -> list[Array]:
    ends = document.converted.inputs
    given = {
        end.written: x if end.codes is None else end.codes.reals(x)
        for x, end in zip(inputs, ends, strict=True)
    }
    results = evaluate(graph, given).outputs.values()
    types = [value.type.dtype.numpy for value in graph.outputs]
    return [y.astype(type_) for y, type_ in zip(results, types, strict=True)]


def reals_of(document: NnefModel, expected: Sequence[Array]) -> list[Array]:
    """The reals of the codes that are results."""
    ends = document.converted.results
    return [
        y if end.codes is None else end.codes.reals(y)
        for y, end in zip(expected, ends, strict=True)
    ]


def assert_equal_bits(
    source: TfliteSource, inputs: Sequence[Array], expected: Sequence[Array], path: Path
) -> NnefModel:
    document, diagnostics = written(source, path), Diagnostics()
    found = results_of(path, document, inputs, diagnostics)
    assert "quantization/record" not in [each.rule for each in diagnostics.warnings]
    for y, want in zip(found, reals_of(document, expected), strict=True):
        np.testing.assert_array_equal(y, want)
    return document


def operators_of(document: NnefModel) -> list[str]:
    """The operators that have records."""
    return [each["operator"] for each in json.loads(document.records or "[]")]


def test_a_record_gives_the_bits_of_the_reference_kernel(tmp_path: Path) -> None:
    """Interpreted, and of the convolution also compiled."""
    for case in (linear(), add(), mul(), conv(), halves()):
        content, path = content_of(case), tmp_path / case.name
        (expected,) = litert_results(content, [inputs_of(case)])
        document = assert_equal_bits(source_of(content), inputs_of(case), expected, path)
        assert operators_of(document) == [case.name]
        if case.name == "CONV_2D":
            (end,) = document.converted.inputs
            assert end.codes is not None
            result = nnefc.compile(path)(end.codes.reals(inputs_of(case)[0]))
            np.testing.assert_array_equal(result, reals_of(document, expected)[0])


def test_several_results_shared_weights_and_parts_of_reals(tmp_path: Path) -> None:
    content, inputs = several(), [codes("int8", 3, 10)]
    (expected,) = litert_results(content, [inputs])
    assert [len(np.unique(each)) > 3 for each in expected] == [True] * 4
    document = assert_equal_bits(source_of(content), inputs, expected, tmp_path / "net")
    layers = ["FULLY_CONNECTED", "FULLY_CONNECTED"]
    assert operators_of(document) == [*layers, "QUANTIZE", "ADD", "MUL"]


def test_codes_that_are_rounded_again(tmp_path: Path) -> None:
    content, inputs = requantized(), [codes("int8", 3, 10)]
    (expected,) = litert_results(content, [inputs])
    document = assert_equal_bits(source_of(content), inputs, expected, tmp_path / "net")
    assert operators_of(document) == ["QUANTIZE", "QUANTIZE", "RELU", "QUANTIZE"]
    assert (document.quantization or "").count("\n") == 5
    plain = read_graph(tmp_path / "net", ImportConfig(records=False))
    (found,) = evaluated(plain, document, inputs)
    difference = found - reals_of(document, expected)[0]
    assert abs(difference).max() <= 0.0801, "a unit of the largest scale"


def test_codes_of_16_bits(tmp_path: Path) -> None:
    content, inputs = codes_of_16_bits(), [codes("int16", 1, 9, 8, 4)]
    (expected,) = litert_results(content, [inputs])
    document = assert_equal_bits(source_of(content), inputs, expected, tmp_path / "net")
    assert operators_of(document) == ["CONV_2D", "ADD", "LOGISTIC"]
    assert "bits = 16, signed = true" in (document.quantization or "")


def edited(path: Path, name: str, old: str, new: str) -> None:
    text = (path / name).read_text()
    assert old in text
    (path / name).write_text(text.replace(old, new))


def another_border(path: Path) -> None:
    """The border is on one side."""
    edited(path, "graph.nnef", "padding = [(1, 1), ", "padding = [(0, 2), ")


def other_scale(path: Path) -> None:
    """The scale of the result."""
    edited(path, "graph.quant", "scale = 0.10000000149011612", "scale = 0.2")


def other_range(path: Path) -> None:
    """The last operation of the group."""
    edited(path, "graph.nnef", "relu(", "tanh(")


def no_record(path: Path) -> None:
    (path / RECORDS).write_text("[1, {")


def no_text(path: Path) -> None:
    (path / RECORDS).write_bytes(b"\xff\xfe\0")


def no_operator(path: Path) -> None:
    edited(path, RECORDS, '"CONV_2D"', '"SQUEEZE"')


def other_type(path: Path) -> None:
    edited(path, RECORDS, '"INT8"', '"UINT8"')


def other_name(path: Path) -> None:
    """The result of the group."""
    for name in ("graph.nnef", "graph.quant"):
        edited(path, name, "t3", "y")


EDITS = [
    *(another_border, other_scale, other_range, other_name),
    *(no_record, no_text, no_operator, other_type),
]


@pytest.mark.parametrize("edit", EDITS)
def test_records_that_do_not_fit_are_ignored(edit: Callable[[Path], None], tmp_path: Path) -> None:
    """An edited document has the results of its operations."""
    case, path = conv(), tmp_path / "net"
    document = written(source_of(content_of(case)), path)
    edit(path)
    diagnostics = Diagnostics()
    found = results_of(path, document, inputs_of(case), diagnostics)
    (warning,) = diagnostics.warnings
    assert (warning.rule, warning.severity) == ("quantization/record", "warning")
    plain = read_graph(path, ImportConfig(records=False))
    (want,) = evaluated(plain, document, inputs_of(case))
    np.testing.assert_array_equal(found[0], want)


def test_edited_weights_and_biases_count(tmp_path: Path) -> None:
    """The records have the names of constants, not their items."""
    case, path = conv(), tmp_path / "net"
    document = written(source_of(content_of(case)), path)
    x, weights, bias = case.inputs
    less = replace(
        case, inputs=[x, Constant(weights.array // 2), Constant(bias.array + np.int32(500))]
    )
    (expected,) = litert_results(content_of(less), [inputs_of(less)])
    stored = written(source_of(content_of(less)), tmp_path / "other").tensors
    assert set(stored) == set(document.tensors)
    for label, array in stored.items():
        write_tensor(path / f"{label}.dat", array)
    diagnostics = Diagnostics()
    found = results_of(path, document, inputs_of(case), diagnostics)
    assert not diagnostics.warnings
    np.testing.assert_array_equal(found[0], reals_of(document, expected)[0])


HOSTILE: tuple[Any, ...] = (
    None,
    True,
    -1,
    3,
    10**20,
    1e308,
    float("nan"),
    "x",
    "INT64",
    "t0",
    [],
    [[]],
    {},
    [1] * 9,
)


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys that lead to each item of JSON."""
    yield path
    if hasattr(value, "keys"):
        for key in value:
            yield from paths_of(value[key], (*path, key))
    elif hasattr(value, "append"):
        for i in range(len(value)):
            yield from paths_of(value[i], (*path, i))


def spoil(records: Any, rng: random.Random) -> None:
    """Replace an item somewhere inside."""
    *path, last = rng.choice(list(paths_of(records))[1:])
    for key in path:
        records = records[key]
    records[last] = rng.choice(HOSTILE)


def test_hostile_records_are_ignored(tmp_path: Path) -> None:
    """Each is a warning, or an NnefError, or does no harm."""
    rng = random.Random(9)
    for case in (conv(), mul()):
        path = tmp_path / case.name
        document = written(source_of(content_of(case)), path)
        assert document.records is not None
        for _ in range(40):
            records = json.loads(document.records)
            spoil(records, rng)
            (path / RECORDS).write_text(json.dumps(records))
            try:
                read_graph(path, ImportConfig(), Diagnostics())
            except NnefError as error:
                assert all(each.rule != "internal/operator" for each in error.errors)


def test_records_may_only_name_what_their_operations_read(tmp_path: Path) -> None:
    """Graphs stay valid, even if somebody computes the digest of other inputs."""
    path, rng = tmp_path / "net", random.Random(4)
    document = written(source_of(several()), path)
    nodes = read_again(document)
    for _ in range(40):
        records = json.loads(document.records or "")
        record = rng.choice(records)
        named = [each for each in record["inputs"] if each is not None and "name" in each]
        rng.choice(named)["name"] = rng.choice(list(nodes.values)) + rng.choice(["", " rounded"])
        with suppress(ValueError):
            record["group"] = Group(nodes, record["output"]["name"], input_names(record)).digest
        (path / RECORDS).write_text(json.dumps(records))
        assert not verify(read_graph(path, ImportConfig(), Diagnostics()))


@needs_tflite
@pytest.mark.parametrize(
    "folder",
    [
        each
        for each in tflite_cases()
        if each.name.startswith(("i8_", "u8_", "net_mini")) and not each.name.endswith("_float")
    ],
    ids=lambda folder: folder.name,
)
def test_cases_have_equal_bits(folder: Path, tmp_path: Path) -> None:
    source = read_tflite(folder / "model.tflite", Limits(), Diagnostics())
    with np.load(folder / "io.npz") as stored:
        inputs, expected = (
            [stored[f"{kind}{i}"] for i in range(len(names))]
            for kind, names in (("in", source.inputs), ("out", source.outputs))
        )
    assert_equal_bits(source, inputs, expected, tmp_path / "net.nnef.tgz")


def test_commands_of_recorded_documents(cli: Cli, tmp_path: Path) -> None:
    """`run` computes the bits; `convert` writes the standard operations without records."""
    case = conv()
    content, (x,) = content_of(case), inputs_of(case)
    (tmp_path / "net.tflite").write_bytes(content)
    document = tflite_document(source_of(content), {}, Diagnostics())
    archive = tmp_path / "net.nnef.tgz"
    assert cli("convert", tmp_path / "net.tflite", "-o", archive).status == 0
    (end,) = document.converted.inputs
    assert end.codes is not None
    np.save(tmp_path / "x.npy", end.codes.reals(x))
    shown = cli("run", archive, "-i", tmp_path / "x.npy", "-o", tmp_path / "results")
    assert shown.status == 0, shown.err
    (expected,) = litert_results(content, [[x]])
    found = read_tensor(tmp_path / "results" / "t3.dat")
    np.testing.assert_array_equal(found, reals_of(document, expected)[0])
    for name in ("net.onnx", "other.nnef.tgz"):
        shown = cli("convert", archive, "-o", tmp_path / name, "--check", "--tolerance", 0.02)
        assert "1 result equal" in shown.out, shown.err + shown.out
