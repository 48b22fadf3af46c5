"""Operators on complex tensors, against NumPy."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from nnefc.formats.tract_items import VENDOR
from tests.helpers.nnef.hostile import tensor_file

Array = np.ndarray[Any, Any]
DOCUMENT = """version 1.0;
extension tract_registry tract_core;
extension tract_registry tract_onnx;
extension tract_symbol N;
graph net( x, z ) -> ( {results} )
{{
    x = tract_core_external(shape = [N, 3, 2], datum_type = 'f32');
    z = tract_core_external(shape = [N, 3, 2], datum_type = 'f32');
    a = tract_core_inner_dim_to_complex(x);
    b = tract_core_inner_dim_to_complex(z);
    r = squeeze(slice(x, axes = [2], begin = [1], end = [2]), axes = [2]);
{body}
}}
"""


def compiled(folder: Path, body: str, results: str = "y") -> Any:
    (folder / "graph.nnef").write_text(DOCUMENT.format(body=body, results=results))
    return nnefc.compile(folder, threads=1)


def inputs(rows: int = 4) -> tuple[Array, Array]:
    random = np.random.default_rng(rows)
    x, z = random.normal(size=(2, rows, 3, 2)).astype(np.float32)
    return x, z


def numbers(parts: Array) -> Array:
    """The complex numbers of parts [.., 2]."""
    return parts[..., 0] + 1j * parts[..., 1].astype(np.float64)


CASES: list[tuple[str, Callable[[Array, Array, Array], Array]]] = [
    ("a + b", lambda a, b, r: a + b),
    ("a - b", lambda a, b, r: a - b),
    ("a * b", lambda a, b, r: a * b),
    ("-a", lambda a, b, r: -a),
    ("copy(a)", lambda a, b, r: a),
    ("a * 2", lambda a, b, r: 2 * a),
    ("0.5 * a", lambda a, b, r: 0.5 * a),
    ("a + 1", lambda a, b, r: a + 1),
    ("1.5 - a", lambda a, b, r: 1.5 - a),
    ("a / 4.0", lambda a, b, r: a / 4),
    ("a / (r + 10.0)", lambda a, b, r: a / (r + 10)),
    ("a * r", lambda a, b, r: a * r),
    ("r - a", lambda a, b, r: r - a),
    ("a * slice(b, axes = [1], begin = [1], end = [2])", lambda a, b, r: a * b[:, 1:2]),
    ("squeeze(slice(b, axes = [1], begin = [0], end = [1]), axes = [1]) + a",
     lambda a, b, r: a + b[:, :1]),
    ("transpose(a, axes = [1, 0])", lambda a, b, r: a.T),
    ("reshape(a, shape = [-1])", lambda a, b, r: a.reshape(-1)),
    ("reshape(a, shape = [0, 3, 1])", lambda a, b, r: a[..., None]),
    ("reshape(a, shape = [1, -1], axis_start = 1)", lambda a, b, r: a[:, None]),
    ("reshape(a, shape = [2, 2], axis_start = 0, axis_count = 1)",
     lambda a, b, r: a.reshape(2, 2, 3)),
    ("reshape(a, shape = [1], axis_start = -1)", lambda a, b, r: a[..., None]),
    ("slice(a, axes = [-1], begin = [1], end = [0])", lambda a, b, r: a[:, 1:]),
    ("slice(a, axes = [1], begin = [0], end = [3], stride = [2])", lambda a, b, r: a[:, ::2]),
    ("concat([a, b], axis = -1)", lambda a, b, r: np.concatenate([a, b], -1)),
    ("concat([a, r], axis = 0)", lambda a, b, r: np.concatenate([a, r + 0j], 0)),
    ("stack([a, b], axis = -1)", lambda a, b, r: np.stack([a, b], -1)),
    ("stack([a, r], axis = 0)", lambda a, b, r: np.stack([a, r + 0j], 0)),
    ("unstack(a, axis = -1)[1]", lambda a, b, r: a[:, 1]),
    ("split(a, axis = -1, ratios = [1, 2])[1]", lambda a, b, r: a[:, 1:]),
    ("unsqueeze(a, axes = [0, -1])", lambda a, b, r: a[None, ..., None]),
    ("squeeze(unsqueeze(a, axes = [2]), axes = [-1])", lambda a, b, r: a),
    ("tile(a, repeats = [1, 2])", lambda a, b, r: np.tile(a, (1, 2))),
    ("tract_core_broadcast(a, shape = [2, 4, 3])", lambda a, b, r: np.stack([a, a])),
    ("tract_core_gather(a, [2, 0], axis = -1)", lambda a, b, r: a[:, [2, 0]]),
    ("tract_core_fft(a, axis = -1)", lambda a, b, r: np.fft.fft(a)),
    ("tract_core_fft(a, axis = 0, inverse = true) / 4.0", lambda a, b, r: np.fft.ifft(a, axis=0)),
    ("reshape(a, shape = tract_core_shape_of(transpose(a, axes = [1, 0])))",
     lambda a, b, r: a.reshape(3, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), CASES)
def test_operators_match_numpy(
    value: str, expected: Callable[[Array, Array, Array], Array], tmp_path: Path
) -> None:
    model = compiled(tmp_path, f"    y = tract_core_complex_to_inner_dim({value});")
    x, z = inputs()
    y = model(x, z)
    assert y.dtype == np.float32
    right = expected(numbers(x), numbers(z), x[..., 1])
    assert y.shape == (*right.shape, 2)
    np.testing.assert_allclose(numbers(y), right, rtol=1e-5, atol=1e-5)


def test_stft_matches_numpy(tmp_path: Path) -> None:
    value = "tract_core_stft(a, axis = 0, frame = 4, stride = 2)"
    x, z = inputs(8)
    y = compiled(tmp_path, f"    y = tract_core_complex_to_inner_dim({value});")(x, z)
    frames = np.stack([np.fft.fft(numbers(x)[i : i + 4], axis=0) for i in (0, 2, 4)])
    np.testing.assert_allclose(numbers(y), frames, rtol=1e-5, atol=1e-5)


def test_results_and_fragments_may_be_complex(tmp_path: Path) -> None:
    """A complex result of a graph has its real and imaginary parts in a last dimension."""
    path = tmp_path / "graph.nnef"
    compiled(tmp_path, "    y = twice(a);\n    w = b;", "y, w")
    text = path.read_text()
    fragment = "fragment twice( v: tensor<scalar> ) -> ( w: tensor<scalar> ) { w = v + v; }\n"
    path.write_text(text.replace("graph net", f"{fragment}graph net"))
    x, z = inputs()
    y, w = nnefc.compile(tmp_path)(x, z)
    assert y.tolist() == (2 * x).tolist()
    assert w.tolist() == z.tolist()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64"])
def test_tensor_files_may_be_complex(dtype: str, tmp_path: Path) -> None:
    parts = np.random.default_rng(0).integers(-9, 9, (3, 2)).astype(dtype)
    code, bits = (0 if dtype.startswith("f") else 4), 16 * parts.itemsize
    content = tensor_file((3,), bits, code, vendor=VENDOR, data=parts.tobytes())
    (tmp_path / "c.dat").write_bytes(content)
    body = "    c = variable<scalar>(label = 'c', shape = [1, 3]);\n    w = c * c;\n    y = a * c;"
    x, z = inputs()
    y, w = compiled(tmp_path, body, "y, w")(x, z)
    c = numbers(parts)[None]
    assert w.dtype == parts.dtype
    assert numbers(w).tolist() == (c * c).tolist()
    np.testing.assert_allclose(numbers(y), numbers(x) * c, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("archive", [False, True])
def test_files_are_known_to_be_complex_by_their_header(archive: bool, tmp_path: Path) -> None:
    """The header of a tensor file tells whether its items are complex."""
    folder = tmp_path / "net"
    folder.mkdir()
    content = tensor_file((300,), 64, 0, vendor=VENDOR, data=bytes(2400))
    (folder / "c.dat").write_bytes(content)
    body = (
        "    c = variable<scalar>(label = 'c', shape = [100, 3]);\n"
        "    y = tract_core_complex_to_inner_dim(a * c);"
    )
    compiled(folder, body)
    path = folder
    if archive:
        path = tmp_path / "net.nnef.tgz"
        with tarfile.open(path, "w:gz") as tar:
            for each in folder.iterdir():
                tar.add(each, each.name)
    shapes = {"x": (100, 3, 2), "z": (100, 3, 2)}
    graph = nnefc.import_model(path, load_data=False, shapes=shapes)
    assert graph.outputs[0].type.dims == (100, 3, 2)


REFUSED = (
    "a / b", "exp(a)", "sqr(a)", "a ^ 2.0", "a == b", "select(x > 0.0, a, b)", "matmul(a, b)",
    "softmax(a)", "sum_reduce(a, axes = [0])", "pad(a, padding = [(0, 0), (0, 1)])",
    "tract_core_cast(a, to = 'f32')", "tract_core_gather(x, a, axis = 0)", "tanh([a, b])",
    "tract_core_inner_dim_to_complex(a)",
    "tract_core_einsum([a, b], expr = 'ij,ij->i', acc = 'f32')",
    "tract_onnx_random(datum_type = 'f32', shape = a, dist = 'normal', parameters = [0, 1])",
)  # fmt: skip


@pytest.mark.parametrize("value", REFUSED)
def test_operators_that_reject_complex_tensors(value: str, tmp_path: Path) -> None:
    with pytest.raises(NnefError, match="complex") as error:
        compiled(tmp_path, f"    y = {value};")(*inputs())
    assert error.value.errors[0].rule in ("operator/unsupported", "operator/attribute")


@pytest.mark.parametrize(
    ("value", "rule", "message"),
    [
        ("tract_core_complex_to_inner_dim(x)", "argument/complex_to_inner_dim", "is not complex"),
        ("tract_core_complex_to_inner_dim([a, b])", "operator/attribute", "a complex tensor"),
        ("tract_core_inner_dim_to_complex(r)", "argument/inner_dim_to_complex", r"\[4, 3\]"),
        ("tract_core_inner_dim_to_complex(x > 0.0)", "argument/inner_dim_to_complex", "bool"),
        ("tract_core_inner_dim_to_complex(1.0)", "argument/inner_dim_to_complex", r"\[\]"),
        ("reshape(a, shape = [5])", "argument/reshape", r"\[5, 2\]"),
        ("reshape(a, shape = [1], axis_start = 2, axis_count = 1)", "argument/reshape", "rank 2"),
        ("transpose(a, axes = [0, 2])", "operator/axis", "axis 2"),
        ("squeeze(unsqueeze(a, axes = [2]), axes = [3])", "operator/axis", "axis 3"),
        ("slice(a, axes = [2], begin = [0], end = [1])", "operator/axis", "axis 2"),
        ("concat([a, b], axis = 2)", "operator/axis", "axis 2"),
        ("tile(a, repeats = [1, 1, 2])", "argument/tile", "rank 2"),
        ("unsqueeze(a, axes = [0, 0, 0, 0, 0, 0])", "argument/reshape", "it is 9"),
        ("a + transpose(b, axes = [1, 0])", "argument/add", "3"),
        ("a[0]", "type/subscript", "not a tensor"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_errors(value: str, rule: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(NnefError, match=message) as error:
        compiled(tmp_path, f"    y = {value};")(*inputs())
    assert error.value.errors[0].rule == rule


def test_inputs_are_not_complex(tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    compiled(tmp_path, "    y = a;")
    path.write_text(path.read_text().replace("'f32'", "'complexf32'", 1))
    with pytest.raises(NnefError, match="tract_core_inner_dim_to_complex takes real") as error:
        nnefc.compile(tmp_path)
    assert error.value.errors[0].rule == "operator/type"
