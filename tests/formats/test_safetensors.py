"""`*.safetensors` files: tensors of a document, and refusal of invalid files."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (arrays of any type, and a package without types)

from __future__ import annotations

import json
import struct
import tarfile
import tracemalloc
from pathlib import Path
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.formats.container import open_container
from nnefc.formats.safetensors import Safetensors
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits
from tests.helpers.examples import examples
from tests.helpers.nnef.hostile import mutate, tensor_file

DTYPES = {
    **{f"F{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    **{
        f"{k}{b}": np.dtype(f"{n}{b}")
        for k, n in (("I", "int"), ("U", "uint"))
        for b in (8, 16, 32, 64)
    },
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "BOOL": np.dtype(bool),
}
GRAPH = """\
version 1.0;
extension tract_registry tract_core;
graph net( x ) -> ( y )
{
    x = tract_core_external(shape = [1, 4], datum_type = 'f32');
    w = variable(label = 'fc.weight', shape = [2, 4]);
    y = matmul(x, w, transposeB = true);
}
"""
W = np.arange(8, dtype=np.float32).reshape(2, 4)
X = np.array([[1, 2, 3, 4]], np.float32)


def file(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A file whose header may be anything."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype: str, shape: list[Any], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def read(content: bytes, limits: Limits | None = None) -> dict[str, np.ndarray[Any, Any]]:
    opened = Safetensors(content, "m.safetensors", limits or Limits())
    return {name: opened.read(name).array for name in opened.tensors}


def rules(content: bytes, **limits: int) -> set[str]:
    with pytest.raises(NnefError) as caught:
        read(content, Limits(**limits))
    for error in caught.value.errors:
        assert error.file == "m.safetensors"
    return {error.rule for error in caught.value.errors}


@examples(0.6)
@given(
    kinds=st.lists(
        st.tuples(st.sampled_from(sorted(DTYPES)), st.lists(st.integers(0, 4), max_size=4)),
        max_size=6,
    ),
    seed=st.integers(0, 1 << 30),
)
def test_files_of_the_package(kinds: list[tuple[str, list[int]]], seed: int) -> None:
    random = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for number, (code, shape) in enumerate(kinds):
        dtype = DTYPES[code]
        data = random.integers(0, 2 if code == "BOOL" else 256, (*shape, dtype.itemsize), np.uint8)
        arrays[f"t.{number}"] = data.view(dtype).reshape(shape)
    found = read(safetensors.numpy.save(arrays, metadata={"format": "np"}))
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()
        assert found[name].flags.aligned


@pytest.mark.parametrize("code", sorted(DTYPES))
def test_unaligned_tensors_are_copied(code: str) -> None:
    """The format does not require aligned items."""
    dtype = DTYPES[code]
    data = np.random.default_rng(2).integers(0, 2, 6 * dtype.itemsize, np.uint8)
    end = 1 + data.size
    content = file(
        {"a": entry("U8", [1], 0, 1), "b": entry(code, [2, 3], 1, end)}, b"\7" + data.tobytes()
    )
    array = read(content)["b"]
    assert array.flags.aligned and array.dtype == dtype
    assert array.tobytes() == data.tobytes()


def test_logicals_are_0_or_1() -> None:
    array = read(file({"b": entry("BOOL", [3], 0, 3)}, b"\0\2\xff"))["b"]
    assert array.tobytes() == b"\0\1\1"


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "data/truncated"),
        (b"\0" * 7, "data/truncated"),
        (file({}, length=3), "data/truncated"),
        (file({}, length=(1 << 64) - 1), "data/truncated"),
        (struct.pack("<Q", 0), "data/header"),
        (file(b"{"), "data/header"),
        (file(b"[]"), "data/header"),
        (file(b" {}"), "data/header"),
        (file(b"\xff\xfe{\0}\0"), "data/header"),
        (file(b"[" * 100_000), "data/header"),
        (file(b'{"a":' * 100_000), "data/header"),
        (file(b'{"a":' + b"9" * 10_000 + b"}"), "data/header"),
        (file(b'{"a":{},"a":{}}'), "data/header"),
        (file(b'{"a":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,0]}}'), "data/header"),
        (file({"a": None}), "data/header"),
        (file({"a": {"dtype": "U8", "shape": [1]}}), "data/header"),
        (file({"a": {"dtype": "U8", "shape": "11", "data_offsets": [0, 1]}}, b"\0"), "data/header"),
        (file({"a": entry("U8", [-1], 0, 1)}, b"\0"), "data/header"),
        (file({"a": entry("U8", [True], 0, 1)}, b"\0"), "data/header"),
        (file({"a": entry("U8", [1.0], 0, 1)}, b"\0"), "data/header"),
        (file({"a": entry("U8", [1 << 63, 0], 0, 0)}), "data/header"),
        (file({"a": {**entry("U8", [1], 0, 1), "data_offsets": [0]}}, b"\0"), "data/header"),
        (file({"a": entry("U8", [1], 1, 0)}, b"\0"), "data/header"),
        (file({"a": entry("X9", [1], 1, 0)}, b"\0"), "data/header"),
        (file({"a": entry("U8", [1] * 33, 0, 1)}, b"\0"), "data/rank"),
        (file({"a": entry("U8", [1 << 62] * 9, 0, 1)}, b"\0"), "data/length"),
        (file({"a": entry("U8", [1 << 62] * 100_000, 0, 1)}, b"\0"), "data/rank"),
        (file({"a": entry("F32", [2], 0, 7)}, bytes(7)), "data/length"),
        (file({"a": entry("F32", [2], 0, 8)}, bytes(7)), "data/size"),
        (file({"a": entry("F32", [2], 0, 8)}, bytes(9)), "data/size"),
        (file({}, bytes(1)), "data/size"),
        (file({"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 1, 3)}, bytes(3)), "data/header"),
        (file({"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 0, 2)}, bytes(2)), "data/header"),
        (file({"a": entry("U8", [2], 1, 3)}, bytes(3)), "data/header"),
        (file({"a": entry("F8_E4M3", [2], 0, 2)}, bytes(2)), "data/code"),
        (file({"a": entry("C64", [1], 0, 8)}, bytes(8)), "data/code"),
        (file({"a": entry("U8", [1] * 9, 0, 1)}, b"\0"), "limit/rank"),
    ],
)  # fmt: skip
def test_invalid_files_are_refused(content: bytes, rule: str) -> None:
    assert rules(content) == {rule}


def test_all_errors_are_reported() -> None:
    header = {"a": 1, "b": entry("F32", [2], 0, 7), "c": entry("U8", [1], 3, 2)}
    assert rules(file(header)) == {"data/header", "data/length"}


def test_sizes_beyond_the_limits_are_refused() -> None:
    content = file({"a": entry("U8", [100], 0, 100)}, bytes(100))
    assert rules(content, tensor_bytes=99) == {"limit/tensor"}


def test_extents_of_0() -> None:
    content = file({"a": entry("F16", [2, 0], 0, 0), "b": entry("BOOL", [0], 0, 0)})
    found = {name: (x.shape, str(x.dtype)) for name, x in read(content).items()}
    assert found == {"a": ((2, 0), "float16"), "b": ((0,), "bool")}
    assert rules(file({"a": entry("F16", [1 << 62, 1 << 62, 0], 0, 0)})) == {"limit/tensor"}
    assert rules(content, document_bytes=10) == {"limit/size"}


def test_damaged_files_are_read_or_refused() -> None:
    arrays = {"a": np.arange(5, dtype=np.float32), "b.weight": np.ones((2, 3), np.int8)}
    content = safetensors.numpy.save(arrays)
    random = Random(5)
    refused = 0
    for _ in range(2000):
        try:
            read(mutate(content, random))
        except NnefError:
            refused += 1
    assert refused > 500


# -- beside a document


def write(folder: Path, **files: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "graph.nnef").write_text(GRAPH)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    return folder


def weights(scale: float = 1.0, dtype: Any = np.float32, **more: Any) -> bytes:
    return safetensors.numpy.save({"fc.weight": (W * scale).astype(dtype), **more})


def y_of(path: Path) -> Any:
    return nnefc.compile(path, keep=False)(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("form", ["folder", "tar", "tgz", "top"])
def test_weights_of_a_document(tmp_path: Path, form: str, dtype: Any) -> None:
    path = folder = write(tmp_path / "net", model__safetensors=weights(dtype=dtype))
    text = GRAPH.replace("w, trans", "tract_core_cast(w, to = 'f32'), trans")
    (folder / "graph.nnef").write_text(text)
    if form != "folder":
        path = tmp_path / f"net.{form}"
        with tarfile.open(path, "w:gz" if form == "tgz" else "w") as archive:
            archive.add(folder, "./net" if form == "top" else ".")
    np.testing.assert_array_equal(y_of(path), X @ W.T)


def test_tensor_files_come_first_and_labels_ignore_case(tmp_path: Path) -> None:
    other = safetensors.numpy.save({"FC.Weight": W * 2})
    folder = write(tmp_path, a__safetensors=other, B__SafeTensors=weights(more=W))
    np.testing.assert_array_equal(y_of(folder), X @ W.T)  # the very name
    (folder / "B.SafeTensors").unlink()
    np.testing.assert_array_equal(y_of(folder), X @ W.T * 2)
    nnefc.write_tensor(folder / "fc.weight.dat", W * 3)
    np.testing.assert_array_equal(y_of(folder), X @ W.T * 3)


def test_shards_and_duplicate_names(tmp_path: Path) -> None:
    folder = write(tmp_path, a__safetensors=weights(), b__safetensors=weights(2, more=W))
    with pytest.raises(NnefError) as caught:
        y_of(folder)
    (error,) = caught.value.errors
    assert error.rule == "container/ambiguous"
    assert "a.safetensors" in error.message and "b.safetensors" in error.message
    (folder / "a.safetensors").write_bytes(safetensors.numpy.save({"other": W}))
    np.testing.assert_array_equal(y_of(folder), X @ W.T * 2)
    with open_container(folder) as container:
        assert container.stored_names() == ["fc.weight", "more", "other"]
        assert container.tensor("fc.weight") is None  # the standard has tensor files alone


def test_a_leading_slash_of_a_label_and_hidden_files(tmp_path: Path) -> None:
    folder = write(tmp_path, model__safetensors=weights())
    (folder / "._model.safetensors").write_bytes(b"what macOS leaves behind")
    (folder / "graph.nnef").write_text(GRAPH.replace("'fc.weight'", "'/fc.weight'"))
    np.testing.assert_array_equal(y_of(folder), X @ W.T)


def test_invalid_files_and_missing_tensors_are_reported(tmp_path: Path) -> None:
    folder = write(tmp_path, model__safetensors=b"\xff" * 100)
    with pytest.raises(NnefError) as caught:
        nnefc.import_model(folder)
    (error,) = caught.value.errors
    assert error.rule == "data/truncated" and str(folder / "model.safetensors") in error.message
    assert error.line == 6
    (folder / "model.safetensors").write_bytes(safetensors.numpy.save({"fc.bias": W}))
    with pytest.raises(NnefError) as caught:
        nnefc.import_model(folder)
    (error,) = caught.value.errors
    assert error.rule == "data/missing" and "safetensors" in error.hint
    (folder / "model.safetensors").write_bytes(
        safetensors.numpy.save({"fc.weight": W.T.copy()[:3]})
    )
    with pytest.raises(NnefError) as caught:
        nnefc.import_model(folder)
    assert caught.value.errors[0].rule == "data/shape"


def test_nested_models_have_their_own_files(tmp_path: Path) -> None:
    outer = GRAPH.replace("w = variable(label = 'fc.weight', shape = [2, 4]);", "").replace(
        "matmul(x, w, transposeB = true)", "tract_core_submodel([x], label = 'inner')"
    )
    write(tmp_path / "inner", model__safetensors=weights(2))
    (tmp_path / "graph.nnef").write_text(outer)
    (tmp_path / "model.safetensors").write_bytes(weights(5))
    np.testing.assert_array_equal(y_of(tmp_path), X @ W.T * 2)
    path = tmp_path / "net.tgz"
    inner = tmp_path / "inner.nnef.tgz"
    with tarfile.open(inner, "w:gz") as archive:
        archive.add(tmp_path / "inner", ".")
    with tarfile.open(path, "w:gz") as archive:
        for name in ("graph.nnef", "model.safetensors", "inner.nnef.tgz"):
            archive.add(tmp_path / name, name)
    np.testing.assert_array_equal(y_of(path), X @ W.T * 2)


def test_items_are_not_read_before_they_are_needed(tmp_path: Path) -> None:
    big = np.ones((1 << 20, 8), np.float32)
    folder = write(
        tmp_path, model__safetensors=weights(big=big, half=big.astype(ml_dtypes.bfloat16))
    )
    with open_container(folder) as container:
        tracemalloc.start()
        try:
            stored = container.stored("big"), container.stored("half")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 1 << 20
    for each in stored:
        assert each is not None and not each.array.flags.owndata and not each.array.flags.writeable
        assert each.shape == big.shape and each.array[-1, -1] == 1


def test_changes_are_noticed(tmp_path: Path) -> None:
    """The model cache distinguishes models by the weights in these files."""
    folder = write(tmp_path / "net", model__safetensors=weights())
    first = nnefc.compile(folder)(X)
    (folder / "model.safetensors").write_bytes(weights(2))
    np.testing.assert_array_equal(nnefc.compile(folder)(X), 2 * np.asarray(first))


def test_damaged_files_that_are_not_needed_are_not_read(tmp_path: Path) -> None:
    folder = write(tmp_path, broken__safetensors=b"", fc__weight__dat=tensor_file((2, 4)))
    assert not np.any(y_of(folder))
