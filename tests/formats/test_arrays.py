"""Array files against NumPy's, and pictures against their known pixels."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from nnefc.formats.arrays import load_array, save_arrays
from nnefc.formats.atomic import replace_file, replace_folder
from nnefc.formats.image import read_image
from nnefc.formats.tensor_file import write_tensor
from nnefc.support.errors import NnefError
from tests.helpers.examples import examples
from tests.helpers.nnef.hostile import mutate

FLOAT32 = np.dtype(np.float32)
Array = np.ndarray[Any, Any]


def _single(path: Path) -> Array:
    array = load_array(path)
    assert not isinstance(array, dict)
    return array


def _several(path: Path) -> dict[str, Array]:
    arrays = load_array(path)
    assert isinstance(arrays, dict)
    return arrays


NUMBERS = st.one_of(
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(sizes=(16, 32, 64), endianness="?"),
    hnp.boolean_dtypes(),
)


@examples(0.6)
@given(
    array=hnp.arrays(NUMBERS, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)),
    fortran=st.booleans(),
)
def test_npy_files_of_numpy(array: Array, fortran: bool, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "a.npy"
    np.save(path, np.asfortranarray(array) if fortran else array)
    loaded = _single(path)
    assert loaded.dtype == array.dtype.newbyteorder("=") and loaded.flags.aligned
    np.testing.assert_array_equal(loaded, array)


def test_large_npy_files_are_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(1 << 16))
    array = _single(tmp_path / "a.npy")
    assert not array.flags.writeable and array.sum() == (1 << 15) * ((1 << 16) - 1)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_files_of_numpy(save: Any, tmp_path: Path) -> None:
    expected = {"x": np.arange(6.0).reshape(2, 3), "y": np.array(3), "z": np.zeros((0, 2))}
    save(tmp_path / "a.npz", **expected)
    arrays = _several(tmp_path / "a.npz")
    assert list(arrays) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].shape == array.shape


def test_numpy_reads_what_we_save(tmp_path: Path) -> None:
    arrays = {
        "file": np.arange(12, dtype=np.int16).reshape(3, 4).T,
        "a": np.float32(1.5),
        "empty": np.zeros((2, 0), bool),
        "big": np.ones(1 << 17, ">f8"),
    }
    save_arrays(tmp_path / "a.npz", arrays)
    first = (tmp_path / "a.npz").read_bytes()
    with np.load(tmp_path / "a.npz") as theirs:
        assert theirs.files == list(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(theirs[name], array)
    save_arrays(tmp_path / "a.npz", arrays)
    assert (tmp_path / "a.npz").read_bytes() == first
    for name, array in _several(tmp_path / "a.npz").items():
        np.testing.assert_array_equal(array, arrays[name])


def test_types_that_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(NnefError) as caught:
        save_arrays(tmp_path / "a.npz", {"x": ["text"], "y": np.zeros(1), "z": [None]})
    assert [error.rule for error in caught.value.errors] == ["data/type"] * 2
    assert not list(tmp_path.iterdir())


def test_tensor_files_and_unknown_suffixes(tmp_path: Path) -> None:
    write_tensor(tmp_path / "a.DAT", np.arange(3))
    assert _single(tmp_path / "a.DAT").tolist() == [0, 1, 2]
    for name in ("a.txt", "a", "missing.npy", "missing.npz", "missing.dat"):
        with pytest.raises(NnefError):
            load_array(tmp_path / name)
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(NnefError, match="pipe"):
        load_array(tmp_path / "pipe.npy")


def _npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    size = 2 if version == 1 else 4
    text = header.encode()
    return b"\x93NUMPY" + bytes((version, 0)) + len(text).to_bytes(size, "little") + text + data


HOSTILE = {
    "empty": b"",
    "magic": b"\x93NUMPY",
    "claims": _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846975,)}"),
    "wraps": _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"),
    "negative": _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}"),
    "bools": _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (True,)}", bytes(8)),
    "text_shape": _npy("{'descr': '<f8', 'fortran_order': False, 'shape': 'ab'}"),
    "number_shape": _npy("{'descr': '<f8', 'fortran_order': False, 'shape': 3}"),
    "object": _npy("{'descr': '|O', 'fortran_order': False, 'shape': ()}", b"\x80\x04N."),
    "text": _npy("{'descr': '<U99999999', 'fortran_order': False, 'shape': ()}"),
    "void": _npy("{'descr': '|V8', 'fortran_order': False, 'shape': ()}", bytes(8)),
    "fields": _npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", bytes(4)),
    "inner_shape": _npy("{'descr': ('<f4', (99999, 99999)), 'fortran_order': False, 'shape': ()}"),
    "code": _npy("__import__('os').abort()"),
    "list": _npy("[]"),
    "nested": _npy("(" * 9000),
    "minus": _npy("-" * 9000 + "1"),
    "unfinished": _npy("{'descr"),
    "null": _npy("\0"),
    "header_length": b"\x93NUMPY\x02\0\xff\xff\xff\xff",
    "version": _npy("{'descr': '<f8', 'fortran_order': False, 'shape': ()}", bytes(8), 4),
    "longer": _npy("{'descr': '<f8', 'fortran_order': False, 'shape': ()}", bytes(9)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_npy_files(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(HOSTILE[name])
    with pytest.raises(NnefError, match=r"data/(magic|header|type|size)"):
        load_array(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", HOSTILE[name])
    with pytest.raises(NnefError) as caught:
        load_array(tmp_path / "a.npz")
    assert caught.value.errors[0].file == f"{tmp_path}/a.npz/x.npy"


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    np.save(out, np.arange(12).reshape(3, 4))
    save_arrays(tmp_path / "good.npz", {"x": np.arange(12)})
    good = {".npy": out.getvalue(), ".npz": (tmp_path / "good.npz").read_bytes()}
    for seed in range(300):
        for suffix, content in good.items():
            path = tmp_path / f"bad{suffix}"
            path.write_bytes(mutate(content, Random(seed)))
            try:
                load_array(path)
            except NnefError as error:
                str(error).encode()


def _save(path: Path, pixels: Any, **options: Any) -> Path:
    Image.fromarray(np.asarray(pixels, np.uint8)).save(path, **options)
    return path


def test_pictures_in_grey_and_colour(tmp_path: Path) -> None:
    pixels = np.arange(2 * 3 * 3).reshape(2, 3, 3) * 10
    path = _save(tmp_path / "a.png", pixels)
    array = read_image(path, (2, 3, 2, 3), FLOAT32)
    assert array.dtype == np.float32 and array.flags.writeable
    expected = (pixels / 255).astype(np.float32).transpose(2, 0, 1)
    np.testing.assert_array_equal(array, np.stack([expected, expected]))
    grey = _save(tmp_path / "g.png", pixels[:, :, 0])
    np.testing.assert_array_equal(read_image(grey, (1, 1, 2, 3), FLOAT32)[0, 0], expected[0])
    np.testing.assert_array_equal(read_image(grey, (2, 3), FLOAT32), expected[0])
    whole = read_image(path, (3, 2, 3), np.dtype(np.uint8))
    np.testing.assert_array_equal(whole, pixels.transpose(2, 0, 1))
    alpha = read_image(path, (1, 4, 2, 3), np.dtype(np.int32))
    assert (alpha[0, 3] == 255).all()


def test_mean_and_deviation(tmp_path: Path) -> None:
    path = _save(tmp_path / "a.png", np.full((1, 1, 3), 51))
    array = read_image(path, (1, 3, 1, 1), FLOAT32, mean=(0.0, 0.1, 0.2), std=2.0)
    np.testing.assert_allclose(array[0, :, 0, 0], [0.1, 0.05, 0.0], atol=1e-7)


def test_pictures_are_resized_to_the_shape(tmp_path: Path) -> None:
    path = _save(tmp_path / "a.png", [[0, 0, 200, 200]] * 4)
    array = read_image(path, (1, 1, 2, 2), np.dtype(np.float64)) * 255
    assert array[0, 0, 0, 0] < 40 and array[0, 0, 0, 1] > 160
    assert read_image(path, (1, 1, 9, 7), FLOAT32).shape == (1, 1, 9, 7)


def test_deep_pictures_are_scaled(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 32768, 65535]], np.uint16)).save(tmp_path / "a.png")
    array = read_image(tmp_path / "a.png", (1, 1, 1, 3), np.dtype(np.int32))
    assert array.ravel().tolist() == [0, 128, 255]


def test_jpeg_is_turned_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    path = _save(tmp_path / "a.jpg", np.tile([[0], [255]], (8, 16)).repeat(8, 0), exif=exif)
    with Image.open(path) as picture:
        assert picture.size == (16, 128)
    assert read_image(path, (1, 1, 16, 128), FLOAT32).shape == (1, 1, 16, 128)


@pytest.mark.parametrize(
    ("shape", "dtype", "options"),
    [
        ((1, 2, 4, 5), "float32", {}),
        ((4,), "float32", {}),
        ((1, 1, 1, 1, 4), "float32", {}),
        ((1, 1, 0, 4), "float32", {}),
        ((1, 1, 1 << 20, 1 << 20), "float32", {}),
        ((1, 1, 4, 4), "bool", {}),
        ((1, 1, 4, 4), "int8", {}),
        ((1, 1, 4, 4), "int32", {"mean": 0.5}),
        ((1, 3, 4, 4), "float32", {"mean": (0.5, 0.5)}),
        ((1, 3, 4, 4), "float32", {"std": 0.0}),
    ],
)
def test_shapes_and_types_that_pictures_cannot_have_are_refused(
    shape: tuple[int, ...], dtype: str, options: dict[str, Any], tmp_path: Path
) -> None:
    path = _save(tmp_path / "a.png", np.zeros((4, 4)))
    with pytest.raises(NnefError, match="data/image"):
        read_image(path, shape, np.dtype(dtype), **options)


@pytest.mark.slow
def test_hostile_pictures_are_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(out, "PNG")
    content = out.getvalue()
    for name, data in (
        ("bomb", content),
        ("cut", content[:200]),
        ("text", b"no picture"),
        ("empty", b""),
        ("gif", b"GIF89a" + bytes(20)),
    ):
        (tmp_path / "a.png").write_bytes(data)
        with pytest.raises(NnefError, match="data/image"):
            read_image(tmp_path / "a.png", (1, 1, 4, 4), FLOAT32)
        assert name
    small = io.BytesIO()
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(small, "PNG")
    for seed in range(200):
        (tmp_path / "a.png").write_bytes(mutate(small.getvalue(), Random(seed)))
        try:
            read_image(tmp_path / "a.png", (1, 1, 4, 4), FLOAT32)
        except NnefError as error:
            str(error).encode()


def test_files_are_replaced_atomically(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), replace_file(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1
    with replace_file(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new" and len(list(tmp_path.iterdir())) == 1
    elsewhere = (tmp_path / "none" / "a", Path("/proc/version/a"), tmp_path / ("x" * 300))
    for bad in (*elsewhere, f"{tmp_path}{os.sep}", f"{tmp_path / 'b'}{os.sep}"):
        with pytest.raises(NnefError, match="data/write"), replace_file(bad) as file:
            file.write(b"")
    assert path.read_bytes() == b"new" and len(list(tmp_path.iterdir())) == 1


def test_folders_are_replaced_atomically(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), replace_folder(tmp_path / "f") as folder:
        (folder / "x").write_bytes(b"")
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
    with replace_folder(tmp_path / "f") as folder:
        (folder / "x").write_bytes(b"")
    assert [path.name for path in (tmp_path / "f").iterdir()] == ["x"]
    with pytest.raises(NnefError, match="data/write"), replace_folder(tmp_path / "f"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_unknown_suffixes_list_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(NnefError) as caught:
        load_array(tmp_path / "a.txt")
    (error,) = caught.value.errors
    assert error.rule == "data/format"
    for suffix in (".npy", ".npz", ".dat", ".png", ".jpg"):
        assert suffix in error.hint
