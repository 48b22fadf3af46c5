"""An outline and the mapped data are the original tensors; external data stays in its folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import ModelProto, TensorProto, helper
from onnx.numpy_helper import from_array, to_array

from nnefc.formats.onnx.external_files import external_files
from nnefc.formats.onnx.model_file import OnnxFile, outline
from nnefc.formats.onnx.wire_format import WireError, encoded_bytes
from nnefc.frontends.onnx.tensors import TensorReader
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits
from tests.helpers.examples import examples
from tests.helpers.onnx.models import ROWS, model, node, passing, save, weight

ARRAYS = hnp.arrays(
    st.sampled_from([np.float32, np.float64, np.int8, np.int64, np.uint16, np.bool_, np.float16]),
    hnp.array_shapes(min_dims=0, max_dims=3, max_side=20),
)


def with_tensors(arrays: list[Any]) -> ModelProto:
    """A model with arrays as initializers, in an attribute, in a subgraph, and in a function."""
    protos = [from_array(array, f"w{i}") for i, array in enumerate(arrays)]
    graph = helper.make_graph([], "inner", [], [], protos)
    constants = [node("Constant", [], [f"c{i}"], value=each) for i, each in enumerate(protos)]
    body = node("If", ["w0"], ["y"], then_branch=graph, else_branch=graph)
    function = helper.make_function(
        "own", "f", [], ["c0"], constants, [helper.make_opsetid("", 17)]
    )
    return model([*constants, body], [], [], protos, functions=[function], domains=["own"])


def tensors(made: ModelProto) -> list[TensorProto]:
    found = list(made.graph.initializer)
    for each in [*made.graph.node, *made.functions[0].node]:
        for attribute in each.attribute:
            found += [attribute.t] if attribute.HasField("t") else attribute.g.initializer
    return found


@examples(0.3)
@given(st.lists(ARRAYS, min_size=1, max_size=3))
def test_outline_and_mapped_data_are_the_original(arrays: list[Any]) -> None:
    made = with_tensors(arrays)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(made.SerializeToString())
        file = OnnxFile(path)
        short = ModelProto()
        short.ParseFromString(file.outline())
        reader = TensorReader(file, Limits())
        originals, outlined = tensors(made), tensors(short)
        assert len(originals) == len(outlined) == 5 * len(arrays)
        for original, proto in zip(originals, outlined, strict=True):
            assert (proto.data_location == TensorProto.EXTERNAL) == (
                len(original.raw_data) >= 1 << 10
            )
            constant: Any = reader.constant(proto)
            np.testing.assert_array_equal(constant.array, to_array(original))
            assert proto.name == original.name


@pytest.mark.parametrize(
    ("elem_type", "dtype"), [(1, np.float32), (11, np.float64), (14, np.complex64), (7, np.int64)]
)
@pytest.mark.parametrize("pieces", [1, 2])
def test_items_in_typed_fields(tmp_path: Path, elem_type: int, dtype: Any, pieces: int) -> None:
    """Packed real and complex numbers are mapped; others, and those in pieces, are parsed."""
    items = (np.arange(600).reshape(20, 30) * 3 - 5).astype(dtype)
    whole = helper.make_tensor("w", elem_type, items.shape, items.reshape(-1))
    data = whole.SerializeToString()
    if pieces == 2:  # a message that follows another one is merged into it
        half = TensorProto(data_type=elem_type)
        field = helper.tensor_dtype_to_field(elem_type)
        values = list(getattr(whole, field))
        getattr(half, field).extend(values[:7])
        rest = helper.make_tensor("w", elem_type, items.shape, items.reshape(-1))
        del getattr(rest, field)[:7]
        data = half.SerializeToString() + rest.SerializeToString()
    made = model([], [], [], [])
    graph = made.graph.SerializeToString() + encoded_bytes(5, data)
    path = tmp_path / "net.onnx"
    path.write_bytes(ModelProto(ir_version=8).SerializeToString() + encoded_bytes(7, graph))
    file = OnnxFile(path)
    short = ModelProto()
    short.ParseFromString(file.outline())
    (proto,) = short.graph.initializer
    is_mapped = proto.data_location == TensorProto.EXTERNAL
    assert is_mapped == (pieces == 1 and elem_type != 7)
    constant: Any = TensorReader(file, Limits()).constant(proto)
    parts = constant.parts.array if elem_type == 14 else constant.array
    found = parts.view(dtype).reshape(items.shape) if elem_type == 14 else parts
    np.testing.assert_array_equal(found, items)


def test_the_last_raw_data_counts(tmp_path: Path) -> None:
    """As in the parsers of protocol buffers."""
    large, small = weight("w", ROWS), weight("w", ROWS[:2])
    for first, last in ((large, small), (small, large)):
        raw = encoded_bytes(9, last.raw_data)
        dims = TensorProto(name="w", data_type=1, dims=[len(last.raw_data) // 4])
        data = encoded_bytes(9, first.raw_data) + dims.SerializeToString() + raw
        path = tmp_path / "net.onnx"
        path.write_bytes(encoded_bytes(7, encoded_bytes(5, data)))
        file = OnnxFile(path)
        short = ModelProto()
        short.ParseFromString(file.outline())
        constant: Any = TensorReader(file, Limits()).constant(short.graph.initializer[0])
        np.testing.assert_array_equal(constant.array, to_array(last).reshape(-1))


def test_an_outline_has_no_large_data() -> None:
    whole = passing().SerializeToString()
    assert len(outline(memoryview(whole))) < 400 < len(whole)
    assert outline(memoryview(whole), large=1 << 20) == whole


@pytest.mark.parametrize("levels", [32, 34])
def test_messages_may_be_nested_100_deep(levels: int) -> None:
    data = encoded_bytes(1, encoded_bytes(4, b"location"))
    for _ in range(levels):  # a node, an attribute, a graph
        data = encoded_bytes(1, encoded_bytes(5, encoded_bytes(6, data)))
    data = encoded_bytes(7, data)
    if levels == 32:
        assert outline(memoryview(data)) == data
        assert external_files(data) == []
        return
    with pytest.raises(WireError, match="nested more than 100 deep"):
        outline(memoryview(data))
    with pytest.raises(WireError, match="nested more than 100 deep"):
        external_files(data)


def external(location: str, **more: str) -> TensorProto:
    """A tensor of 1000 x 3 numbers in another file."""
    proto = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1000, 3])
    proto.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        proto.external_data.add(key=key, value=value)
    return proto


def test_external_files_are_those_of_all_tensors() -> None:
    inner = helper.make_graph([], "inner", [], [], [external("c.bin")])
    made = model(
        [
            node("Constant", [], ["a"], value=external("a/b.bin")),
            node("If", ["a"], ["y"], then_branch=inner),
        ],
        [],
        [],
        [external("w.bin"), weight("location", ROWS)],
    )
    assert external_files(made.SerializeToString()) == ["a/b.bin", "c.bin", "w.bin"]
    assert external_files(passing().SerializeToString()) == []


@pytest.mark.parametrize("offset", ["0", "4096"])
def test_external_data_is_mapped(tmp_path: Path, offset: str) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(int(offset)) + ROWS.tobytes() + bytes(1 << 16))
    path = save(passing(), tmp_path / "net.onnx")
    reader = TensorReader(OnnxFile(path), Limits())
    constant: Any = reader.constant(external("w.bin", offset=offset))
    np.testing.assert_array_equal(constant.array, ROWS)
    assert constant.array.base is not None
    assert reader.constant(external("w.bin", offset=offset)) is constant


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("../w.bin", r"leads out of the folder with '..'"),
        ("a/../../w.bin", r"leads out of the folder with '..'"),
        ("/etc/passwd", "is absolute"),
        ("C:\\w.bin", "is absolute"),
        ("link.bin", "a link leads out"),
        ("folder/w.bin", "a link leads out"),
        ("self.bin", "cannot open|Too many"),
        ("missing.bin", "no such file"),
        ("\0", "are wanted"),
        (".", "a folder"),
        ("w\0.bin", "NUL"),
        ("x" * 5000, "too long"),
        ("pipe", "a pipe"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, location: str, reason: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(ROWS.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    (folder / "folder").symlink_to(tmp_path)
    (folder / "self.bin").symlink_to(folder / "self.bin")
    os.mkfifo(folder / "pipe")
    reader = TensorReader(OnnxFile(save(passing(), folder / "net.onnx")), Limits())
    with pytest.raises(NnefError, match=reason) as caught:
        reader.constant(external(location, length="16000"))
    assert caught.value.errors[0].rule == "onnx/external"


@pytest.mark.parametrize(
    ("offset", "length"), [("0", "13000"), ("11996", "12000"), ("99999999999", "12000")]
)
def test_bytes_that_a_file_lacks_are_refused(tmp_path: Path, offset: str, length: str) -> None:
    (tmp_path / "w.bin").write_bytes(ROWS.tobytes())
    reader = TensorReader(OnnxFile(save(passing(), tmp_path / "net.onnx")), Limits())
    with pytest.raises(NnefError, match="has 12,000 bytes, but bytes"):
        reader.constant(external("w.bin", offset=offset, length=length))
