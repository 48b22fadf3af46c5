"""Tensor files of tract: items of all widths, blocks and strings; refusal of invalid files."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

import io
import struct
import warnings
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.formats.container import open_container
from nnefc.formats.tensor_file import decode_stored, decode_tensor, read_stored, read_tensor
from nnefc.support.block_formats import BLOCK_BYTES
from nnefc.support.errors import NnefError, NnefWarning
from tests.helpers.examples import examples
from tests.helpers.nnef.hostile import GRAPH, mutate, tar, tensor_file

TRACT, NO_WIDTH = 0x5452, 0xFFFFFFFF
CODES = {"q4_0": 0x3040, "q4_0_legacy": 0x2040, "q8_1": 0x3080}
PLAIN: list[tuple[int, str]] = [
    *((0, f"float{bits}") for bits in (16, 32, 64)),
    *((code, f"uint{bits}") for code in (1, 2) for bits in (8, 16, 32, 64)),
    *((code, f"int{bits}") for code in (3, 4) for bits in (8, 16, 32, 64)),
]
"""(item code, type of the items) as tract and its exporter write them."""


def blocks_file(
    shape: tuple[int, ...], data: bytes, code: int = CODES["q4_0"], **options: Any
) -> bytes:
    return tensor_file(shape, NO_WIDTH, code, vendor=TRACT, data=data, **options)


def strings_file(shape: tuple[int, ...], *texts: bytes) -> bytes:
    data = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    return tensor_file(shape, NO_WIDTH, 0x1000, vendor=TRACT, data=data)


def rules(content: bytes) -> set[str]:
    with pytest.raises(NnefError) as caught:
        decode_stored(content, "w.dat")
    return {error.rule for error in caught.value.errors}


@pytest.mark.parametrize(("code", "dtype"), PLAIN)
def test_items_keep_their_type(code: int, dtype: str) -> None:
    kind = np.dtype(dtype)
    array = np.random.default_rng(0).integers(0, 256, 6 * kind.itemsize, np.uint8).view(kind)
    content = tensor_file((2, 3), 8 * kind.itemsize, code, data=array.tobytes())
    stored = decode_stored(content, "w")
    assert (stored.shape, stored.blocks, stored.array.dtype) == ((2, 3), None, kind)
    assert stored.array.tobytes() == array.tobytes()


@pytest.mark.parametrize("bits", [1, 8])
def test_logicals_may_have_one_bit_or_eight(bits: int) -> None:
    items = np.array([1, 0, 0, 1, 1, 0, 1, 0, 1, 1], np.uint8)
    data = np.packbits(items) if bits == 1 else items
    stored = decode_stored(tensor_file((10,), bits, 5, data=data.tobytes()), "b")
    assert stored.array.dtype == bool
    np.testing.assert_array_equal(stored.array, items)


@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize("shape", [(3, 64), (2, 4, 16), (5, 2, 2, 8)])
def test_blocks_stay_quantized(name: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    row = int(np.prod(shape[1:])) // 32 * BLOCK_BYTES[name]
    data = np.random.default_rng(1).integers(0, 256, (shape[0], row), np.uint8)
    content = blocks_file(shape, data.tobytes(), CODES[name])
    path = tmp_path / "w.dat"
    path.write_bytes(content)
    for stored in (
        decode_stored(content, "w"),
        read_stored(path),
        read_stored(io.BytesIO(content)),
    ):
        assert (stored.shape, stored.blocks) == (shape, name)
        np.testing.assert_array_equal(stored.array, data)
    # the standard has no such items
    with pytest.raises(NnefError, match="vendor"):
        read_tensor(path)


def test_q8_1_has_two_codes() -> None:
    data = bytes(2 * 36)
    for code in (0x3080, 0x3081):
        assert decode_stored(blocks_file((2, 32), data, code), "w").blocks == "q8_1"


def test_strings_are_decoded() -> None:
    stored = decode_stored(strings_file((2, 2), b"one", b"", "dreißig".encode(), b"x"), "s")
    assert stored.array.tolist() == [["one", ""], ["dreißig", "x"]]
    assert decode_stored(strings_file((), b"alone"), "s").array.tolist() == "alone"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int16", "int32", "int64"])
def test_complex_items_have_a_last_dimension_of_two(dtype: str) -> None:
    parts = np.arange(12).astype(dtype).reshape(2, 3, 2)
    code, bits = (0 if dtype.startswith("f") else 4), 16 * parts.itemsize
    content = tensor_file((2, 3), bits, code, vendor=TRACT, data=parts.tobytes())
    stored = decode_stored(content, "w")
    assert (stored.shape, stored.is_complex, stored.array.dtype) == ((2, 3), True, parts.dtype)
    assert stored.array.tolist() == parts.tolist()
    assert decode_stored(content[:-1] + b"\0", "w").array.flags.aligned
    alone = tensor_file((), bits, code, vendor=TRACT, data=parts[0, 0].tobytes())
    assert decode_stored(alone, "w").array.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("content", "rule", "values"),
    [
        (blocks_file((2, 33), bytes(36)), "data/blocks", "33"),
        (blocks_file((64,), bytes(36)), "data/blocks", "(64,)"),
        (blocks_file((2, 32), bytes(35)), "data/length", "35"),
        (blocks_file((2, 32), bytes(18)), "data/length", "36"),
        (blocks_file((1 << 31, 1 << 31), bytes(36)), "data/length", str(18 << 57)),
        (blocks_file((2, 32), bytes(36), length=18), "data/length", "18"),
        (blocks_file((2, 32), bytes(35), length=36), "data/size", "35"),
        (tensor_file((2, 32), 4, 0x3040, vendor=TRACT, data=bytes(36)), "data/bits", "4"),
        (blocks_file((2, 32), bytes(36), 0x3041), "data/code", "0x3041"),
        (tensor_file((2,), 16, 0, vendor=TRACT, data=bytes(4)), "data/bits", "16"),
        (tensor_file((2,), 256, 4, vendor=TRACT, data=bytes(64)), "data/bits", "256"),
        (tensor_file((2,), 64, 4, vendor=TRACT, data=bytes(12)), "data/length", "12"),
        (
            tensor_file((1 << 31, 1 << 31), 64, 0, vendor=TRACT, data=bytes(8)),
            "data/length",
            str(8 << 62),
        ),
        (tensor_file((2,), 32, 0, vendor=0x4242), "data/vendor", "0x4242"),
        (strings_file((3,), b"one", b"two"), "data/strings", "string 2 of 3"),
        (strings_file((1,), b"one", b"two"), "data/strings", "7 bytes"),
        (strings_file((1 << 30,), b"one"), "data/length", str(4 << 30)),
        (strings_file((1,), b"\xff"), "data/strings", "UTF-8"),
        (blocks_file((0, 32), b"", length=18), "data/length", "takes 0"),
        (tensor_file((1 << 31, 1 << 31, 0, 1 << 31), data=b""), "limit/tensor", "bytes"),
        (strings_file((1 << 31, 1 << 31, 0, 1 << 31)), "limit/tensor", "bytes"),
    ],
)
def test_invalid_files_are_refused_with_a_rule(content: bytes, rule: str, values: str) -> None:
    with pytest.raises(NnefError) as caught:
        decode_stored(content, "net.tgz/w.dat")
    (error,) = caught.value.errors
    assert error.rule == rule
    assert values in error.message
    assert error.file == "net.tgz/w.dat"


@pytest.mark.parametrize(
    ("content", "shape", "dtype"),
    [
        (tensor_file((0,), data=b""), (0,), "float32"),
        (tensor_file((2, 0, 3), 16, 4, data=b""), (2, 0, 3), "int16"),
        (tensor_file((2, 0), 1, 5, data=b""), (2, 0), "bool"),
        (tensor_file((0, 2), 4, 2, data=b""), (0, 2), "uint8"),
        (tensor_file((0, 2), 64, 0, vendor=TRACT, data=b""), (0, 2, 2), "float32"),
        (strings_file((0, 2)), (0, 2), "object"),
    ],
)
def test_extents_of_0(content: bytes, shape: tuple[int, ...], dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "w.dat"
    path.write_bytes(content)
    for stored in (
        decode_stored(content, "w"),
        read_stored(path),
        read_stored(io.BytesIO(content)),
    ):
        assert (stored.array.shape, str(stored.array.dtype)) == (shape, dtype)
    with pytest.raises(NnefError) as caught:  # not in standard files
        decode_tensor(content, "w")
    assert "data/extent" in {error.rule for error in caught.value.errors}


def test_containers_give_blocks(tmp_path: Path) -> None:
    content = blocks_file((2, 32), bytes(range(36)))
    folder = tmp_path / "net"
    folder.mkdir()
    (folder / "graph.nnef").write_bytes(GRAPH)
    (folder / "f.0.weight.dat").write_bytes(content)
    archive = tmp_path / "net.tar"
    archive.write_bytes(tar([("graph.nnef", GRAPH), ("f.0.weight.dat", content)]))
    for path in (folder, archive):
        with open_container(path) as container:
            stored = container.stored("f.0.weight")
            assert stored is not None and stored.blocks == "q4_0"
            assert stored.array.reshape(-1).tolist() == list(range(36))
            assert container.stored("missing") is None
            with pytest.raises(NnefError, match="vendor"):
                container.tensor("f.0.weight")


@examples(3)
@given(st.integers(0, 2**32 - 1))
def test_damaged_files_are_read_or_refused(seed: int) -> None:
    random = Random(seed)
    whole = [
        blocks_file((2, 64), bytes(72)),
        blocks_file((2, 64), bytes(144), CODES["q8_1"]),
        strings_file((2,), b"one", b"two"),
    ]
    content = mutate(random.choice(whole), random)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NnefWarning)
        try:
            stored = decode_stored(content, "w")
        except NnefError:
            return
    assert stored.array.size <= len(content)
