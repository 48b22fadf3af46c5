"""Models of files: what is read, what is refused, and by which message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.formats.flatbuffers.schema import Kind
from nnefc.formats.tflite.model import Model
from nnefc.formats.tflite.model_file import read_model_bytes, read_model_file
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.limits import Limits
from tests.helpers.nnef.conformance import needs_tflite, tflite_cases

pytest.importorskip("flatbuffers")

from tests.helpers.tflite.hostile import alterations, mutations, rich_model, rich_tables
from tests.helpers.tflite.write import operator_code, write


def read(content: bytes, limits: Limits | None = None) -> Model:
    return read_model_bytes(memoryview(content), "net.tflite", limits or Limits(), Diagnostics())


def read_tables(change: Callable[[dict[str, Any]], None], limits: Limits | None = None) -> Model:
    """The rich model after a change."""
    tables = rich_tables()
    change(tables)
    return read(write(tables), limits)


def test_rich_model() -> None:
    model = read(rich_model())
    (main,) = model.subgraphs
    assert [each.name for each in main.operators] == [
        "CONV_2D",
        "RESHAPE",
        "FULLY_CONNECTED",
        "SOFTMAX",
    ]
    conv = main.operators[0]
    assert (conv.inputs, conv.outputs, conv.options_table) == ((0, 1, 2), (3,), "Conv2DOptions")
    assert conv.options["stride_w"] == 1
    assert conv.options["dilation_w_factor"] == 1
    assert main.operators[2].inputs == (5, 6, -1)
    x, filter = main.tensors[:2]
    assert (x.name, x.type, x.shape, x.signature) == ("x", "FLOAT32", (1, 5, 5, 2), (-1, 5, 5, 2))
    assert x.data is None
    assert filter.data is not None
    assert len(filter.data) == 4 * 3 * 3 * 2 * 4
    codes = main.tensors[9].quantization
    assert codes is not None
    assert codes.scale == (0.5, 0.25, 1.0)
    assert codes.zero_point == (0, 0, 0)
    names = model.names(0)
    assert names is not None
    assert (dict(names.inputs), dict(names.outputs)) == ({0: "image"}, {8: "scores"})
    assert bytes(model.metadata["labels"]) == bytes([1, 2, 3])


def test_weights_are_mapped(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    tables = rich_tables()
    tables["buffers"] = (*tables["buffers"], {"data": bytes(1 << 17)})
    path.write_bytes(write(tables))
    model = read_model_file(path, Limits(), Diagnostics())
    data = model.subgraphs[0].tensors[1].data
    assert data is not None
    assert type(data.obj).__name__ == "mmap"


def test_operator_codes_of_both_fields() -> None:
    """Older files have the first field only; codes that do not fit a byte have 127 there."""

    def change(tables: dict[str, Any]) -> None:
        old = {"deprecated_builtin_code": 3, "version": 2}
        new = operator_code("BROADCAST_TO")
        assert new["deprecated_builtin_code"] == 127
        tables["operator_codes"] = (old, new, *tables["operator_codes"][2:])

    operators = read_tables(change).subgraphs[0].operators
    assert [each.name for each in operators[:2]] == ["CONV_2D", "BROADCAST_TO"]
    assert operators[0].version == 2


def test_buffers_behind_the_tables() -> None:
    tables = rich_tables()
    data = tables["buffers"][2]["data"]
    tables["buffers"][2].clear()
    tables["buffers"][2].update(offset=1 << 30, size=len(data))
    size = len(write(tables))
    tables["buffers"][2]["offset"] = size
    assert read(write(tables) + data).subgraphs[0].tensors[2].data == data
    with pytest.raises(NnefError, match="tensor 2 'bias': buffer 2 is bytes"):
        read(write(tables) + data[:-1])


def tensor_change(index: int, **values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda tables: tables["subgraphs"][0]["tensors"][index].update(values)


def operator_change(index: int, **values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda tables: tables["subgraphs"][0]["operators"][index].update(values)


def subgraph_change(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda tables: tables["subgraphs"][0].update(values)


def root_change(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda tables: tables.update(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (root_change(version=2), "version 2 of the schema"),
        (root_change(subgraphs=()), "no subgraphs"),
        (tensor_change(1, buffer=9), "tensor 1 'filter': it has buffer 9, but the model has 6"),
        (tensor_change(1, shape=(4, 3, 3, 3)), "tensor 1 'filter': its shape .* but its buffer"),
        (tensor_change(0, shape=(1, -5, 5, 2)), "tensor 0 'x': its shape .* negative extent"),
        (tensor_change(0, shape=(1 << 30, 1 << 30)), "tensor 0 'x': its shape .* takes"),
        (tensor_change(0, shape=(1,) * 9), "tensor 0 'x': its rank is 9"),
        (tensor_change(0, shape_signature=(1,)), "tensor 0 'x': its shape signature"),
        (tensor_change(0, type=99), "tensor 0 'x': there is no item type 99"),
        (
            tensor_change(9, quantization={"scale": (1.0, 2.0), "zero_point": (0, 0)}),
            "tensor 9 'codes': it has 2 scales along dimension 0",
        ),
        (
            tensor_change(9, quantization={"scale": (1.0,), "zero_point": (0, 0)}),
            "it has 1 scales, but 2 zero points",
        ),
        (tensor_change(9, quantization={"scale": (-1.0,)}), "tensor 9 'codes': its scale is -1.0"),
        (operator_change(0, opcode_index=4), "operator 0: it has operator code 4"),
        (
            operator_change(0, inputs=(0, 1, 77)),
            r"operator 0 \(CONV_2D\): its inputs name tensor 77",
        ),
        (operator_change(0, outputs=(-2,)), r"operator 0 \(CONV_2D\): its outputs name tensor -2"),
        (
            operator_change(1, inputs=(7, 4)),
            r"operator 1 \(RESHAPE\): it reads tensor 7 'z', which nothing before it computes",
        ),
        (operator_change(0, outputs=(1,)), "it computes tensor 1 'filter', which is a constant"),
        (operator_change(1, outputs=(3,)), "it computes tensor 3 'y', which has a value already"),
        (subgraph_change(inputs=(11,)), "subgraph 0 'main': its inputs name tensor 11"),
        (subgraph_change(operators=()), "tensor 8 'out': it is an output, but no operator"),
        (root_change(operator_codes=({"builtin_code": 999},) * 4), "no built-in operator 999"),
    ],
)
def test_refusals(change: Callable[[dict[str, Any]], None], message: str) -> None:
    with pytest.raises(NnefError, match=message):
        read_tables(change)


def test_all_errors_at_once() -> None:
    def change(tables: dict[str, Any]) -> None:
        tensor_change(0, shape=(-1, 5, 5, 2))(tables)
        tensor_change(1, shape=(1,))(tables)
        operator_change(1, inputs=(7, 4))(tables)

    with pytest.raises(NnefError) as caught:
        read_tables(change)
    assert len(caught.value.errors) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no TensorFlow Lite model"),
        (b"<html>" + bytes(99), "web page"),
        (b"PK\x03\x04" + bytes(99), "zip archive"),
        (b"\x08\0\0\0TFL3", "the file is damaged"),
    ],
)
def test_other_files(content: bytes, message: str) -> None:
    with pytest.raises(NnefError, match=message):
        read(content)


def refuse_or_read(content: bytes) -> bool:
    """Whether a file is valid; any exception but an NnefError is a failure."""
    try:
        read(content, Limits(tensor_bytes=1 << 24))
    except NnefError as error:
        assert all(each.message and each.place for each in error.errors)
        return False
    return True


def test_truncated_at_every_byte() -> None:
    whole = rich_model()
    assert refuse_or_read(whole)
    valid = [n for n in range(0, len(whole), 3) if refuse_or_read(whole[:n])]
    assert not [n for n in valid if whole[n:].strip(b"\0")]


def test_mutated_bytes() -> None:
    valid = [refuse_or_read(each) for each in mutations(rich_model(), 1, 400)]
    assert 20 < sum(valid) < 380


def test_altered_fields() -> None:
    valid = [refuse_or_read(each) for each in alterations(rich_tables(), 1, 200)]
    assert 10 < sum(valid) < 190


# -- the schema, compared with the accessors that Google generates


def accessor_names(field: str) -> str:
    """`stride_w` as Google's generated code names it."""
    return "".join(word[:1].upper() + word[1:] for word in field.split("_"))


def google_value(table: Any, field: str) -> Any:
    """A field by the generated accessors: a number, text or a list."""
    name = accessor_names(field)
    value = getattr(table, name)
    length = getattr(table, f"{name}Length", None)
    return value() if length is None else [value(i) for i in range(length())]


@needs_tflite
@pytest.mark.parametrize("folder", tflite_cases(), ids=lambda folder: folder.name)
def test_fields_are_those_of_google(folder: Path) -> None:
    google = pytest.importorskip("ai_edge_litert.schema_py_generated")
    content = (folder / "model.tflite").read_bytes()
    ours, theirs = read(content), google.Model.GetRootAs(content, 0)
    assert len(ours.subgraphs) == theirs.SubgraphsLength()
    for graph in ours.subgraphs:
        other = theirs.Subgraphs(graph.index)
        assert list(graph.inputs) == google_value(other, "inputs")
        assert list(graph.outputs) == google_value(other, "outputs")
        for tensor in graph.tensors:
            same = other.Tensors(tensor.index)
            assert tensor.name == (same.Name() or b"").decode()
            assert list(tensor.shape) == google_value(same, "shape")
            assert getattr(google.TensorType, tensor.type) == same.Type()
            assert tensor.is_variable == same.IsVariable()
            data = theirs.Buffers(same.Buffer()).DataAsNumpy()
            if tensor.data is not None:
                np.testing.assert_array_equal(np.frombuffer(tensor.data, np.uint8), data)
            if tensor.quantization is not None:
                codes = same.Quantization()
                assert list(tensor.quantization.scale) == google_value(codes, "scale")
                assert tensor.quantization.axis == codes.QuantizedDimension()
        for node in graph.operators:
            same = other.Operators(node.index)
            assert list(node.inputs) == google_value(same, "inputs")
            assert list(node.outputs) == google_value(same, "outputs")
            code = theirs.OperatorCodes(same.OpcodeIndex())
            assert getattr(google.BuiltinOperator, node.name) == code.BuiltinCode()
            assert node.version == code.Version()
            if node.options_table:
                check_options(google, node.options_table, dict(node.options), same)


def check_options(google: Any, table: str, options: dict[str, Any], node: Any) -> None:
    assert getattr(google.BuiltinOptions, table) == node.BuiltinOptionsType()
    theirs = getattr(google, table)()
    theirs.Init(node.BuiltinOptions().Bytes, node.BuiltinOptions().Pos)
    for name, value in options.items():
        expected = google_value(theirs, name.replace("_factor", "Factor"))
        items: Any = value
        assert (list(items) if isinstance(value, tuple) else value) == expected


def test_tables_have_the_fields_of_google() -> None:
    """Every field of every table is in its place, with its default."""
    google = pytest.importorskip("ai_edge_litert.schema_py_generated")
    from nnefc.formats.tflite.schema import schema

    for name, fields in schema().tables.items():
        generated = getattr(google, name)
        for field in fields:
            add = accessor_names(field.name.replace("_factor", "Factor"))
            adder = getattr(google, f"{name}Add{add}")
            slot, default = _added(adder)
            assert slot == field.slot, (name, field.name)
            assert field.kind is not Kind.SCALAR or default == field.default, (name, field.name)
            assert hasattr(generated, add)


def _added(adder: Any) -> tuple[int, Any]:
    """Number and default of the field that a generated function adds to a builder."""
    added: list[tuple[int, Any]] = []

    class Recorder:
        def __getattr__(self, method: str) -> Any:
            def prepend(slot: int, value: Any, default: Any) -> None:
                added.append((slot, default))

            return prepend

    adder(Recorder(), 0)
    return added[0]


def test_enumerations_are_those_of_google() -> None:
    google = pytest.importorskip("ai_edge_litert.schema_py_generated")
    from nnefc.formats.tflite.enumerations import ITEM_TYPES, OPERATORS
    from nnefc.formats.tflite.schema import schema

    unions = schema().unions
    enums: list[tuple[Sequence[str], Any, int]] = [
        (OPERATORS, google.BuiltinOperator, 0),
        (ITEM_TYPES, google.TensorType, 0),
        (unions["BuiltinOptions"], google.BuiltinOptions, 1),
        (unions["BuiltinOptions2"], google.BuiltinOptions2, 1),
        (unions["QuantizationDetails"], google.QuantizationDetails, 1),
        (unions["SparseIndexVector"], google.SparseIndexVector, 1),
    ]
    for names, enum, first in enums:
        assert {name: getattr(enum, name) for name in names} == {
            name: i for i, name in enumerate(names, first)
        }
