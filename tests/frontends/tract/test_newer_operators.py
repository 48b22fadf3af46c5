"""Operators added in tract 0.23, against float64 formulas and tract itself."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (tract has no types)

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.support.errors import NnefError
from tests.helpers.examples import examples

Array = np.ndarray[Any, Any]
REGISTRIES = "tract_core", "tract_transformers", "tract_pulse"
HEAD = "version 1.0;\n" + "".join(f"extension tract_registry {name};\n" for name in REGISTRIES)
NAMES = {"float16": "f16", "float32": "f32", "int8": "i8", "int64": "i64", "bool": "bool"}


def written(folder: Path, call: str, results: str, given: dict[str, Array]) -> Path:
    """A document that returns the `results` of a call for the inputs `given`."""
    inputs = "".join(
        f"    {name} = tract_core_external(shape = {list(array.shape)},"
        f" datum_type = '{NAMES[array.dtype.name]}');\n"
        for name, array in given.items()
    )
    text = (
        f"graph net( {', '.join(given)} ) -> ( {results} )\n{{\n{inputs}    {results} = {call};\n}}"
    )
    (folder / "graph.nnef").write_text(HEAD + text)
    return folder


def outputs(folder: Path, call: str, given: dict[str, Array], results: str = "y") -> list[Array]:
    model = nnefc.compile(written(folder, call, results, given), keep=False)
    found = model(*given.values())
    return list(found) if isinstance(found, tuple) else [found]


def of_tract(folder: Path, given: dict[str, Array]) -> list[Array]:
    """The results of tract for the document in the folder."""
    tract: Any = pytest.importorskip("tract")
    nnef = tract.nnef().with_tract_transformers().with_pulse()
    model = nnef.load(str(folder)).into_runnable()
    return [result.to_numpy() for result in model.run(list(given.values()))]


def reals(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


# -- cumulative sums


def sums(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    wide = np.flip(x, axis) if reverse else x
    result = np.cumsum(wide, axis, dtype=x.dtype if x.dtype.kind == "i" else np.float64)
    if exclusive:
        result = np.concatenate(
            [np.zeros_like(result.take([0], axis)), result.take(range(x.shape[axis] - 1), axis)],
            axis,
        )
    return np.flip(result, axis) if reverse else result


@examples(0.25)
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    at=st.integers(0, 3),
    exclusive=st.booleans(),
    reverse=st.booleans(),
    dtype=st.sampled_from(["float32", "int8", "int64"]),
)
def test_cumsum_matches_numpy(
    tmp_path_factory: pytest.TempPathFactory,
    shape: list[int],
    at: int,
    exclusive: bool,
    reverse: bool,
    dtype: str,
) -> None:
    folder, axis = tmp_path_factory.getbasetemp(), at % len(shape)
    x = reals(*shape, dtype=dtype) if dtype == "float32" else (reals(*shape) * 50).astype(dtype)
    flags = f"exclusive = {str(exclusive).lower()}, reverse = {str(reverse).lower()}"
    (y,) = outputs(folder, f"tract_core_cumsum(x, axis = {axis}, {flags})", {"x": x})
    expected = sums(x, axis, exclusive, reverse)
    assert y.dtype == x.dtype
    if dtype == "float32":
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumsum_of_many_items_as_tract(tmp_path: Path, exclusive: bool, reverse: bool) -> None:
    given = {"x": reals(3, 1000, 2)}
    flags = f"exclusive = {str(exclusive).lower()}, reverse = {str(reverse).lower()}"
    (y,) = outputs(tmp_path, f"tract_core_cumsum(x, axis = 1, {flags})", given)
    np.testing.assert_allclose(y, sums(given["x"], 1, exclusive, reverse), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(y, of_tract(tmp_path, given)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("skip", [0, 2, 9])
@pytest.mark.parametrize("exclusive", [False, True])
def test_cumsum_of_a_stream(tmp_path: Path, skip: int, exclusive: bool) -> None:
    given = {"x": reals(2, 7)}
    flags = f"exclusive = {str(exclusive).lower()}, skip = {skip}"
    (y,) = outputs(tmp_path, f"tract_pulse_cumsum(x, axis = 1, {flags})", given)
    kept = np.where(np.arange(7) < skip, 0, given["x"])
    np.testing.assert_allclose(y, sums(kept, 1, exclusive, False), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(y, of_tract(tmp_path, given)[0], rtol=1e-5, atol=1e-6)


def test_cumsum_of_varying_lengths(tmp_path: Path) -> None:
    written(tmp_path, "tract_core_cumsum(x, axis = 0, exclusive = true)", "y", {"x": reals(3, 2)})
    path = tmp_path / "graph.nnef"
    text = path.read_text().replace("shape = [3, 2]", "shape = [S, 2]")
    path.write_text(text.replace("graph net", "extension tract_symbol S;\ngraph net"))
    model = nnefc.compile(tmp_path, keep=False)
    for extent in (5, 6, 7, 8, 9, 100, 33, 2, 1, 64, 65, 300, 4):
        x = reals(extent, 2)
        y = np.asarray(model(x))
        np.testing.assert_allclose(y, sums(x, 0, True, False), rtol=1e-5, atol=1e-4)


def test_cumsum_of_known_tensors_and_booleans(tmp_path: Path) -> None:
    call = "x + tract_core_cumsum([1.0, 2.0, 3.0], axis = -1, exclusive = true)"
    (y,) = outputs(tmp_path, call, {"x": np.zeros(3, np.float32)})
    np.testing.assert_array_equal(y, [0, 1, 3])
    with pytest.raises(NnefError) as caught:
        outputs(tmp_path, "tract_core_cumsum(x, axis = 0)", {"x": np.ones(3, bool)})
    assert caught.value.errors[0].rule == "argument/cumsum"


# -- normalisation and activation


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "types", ["", ", out_dt = 'f16'", ", scale_dt = 'f16'", ", out_dt = 'f32', scale_dt = 'f16'"]
)
def test_scaled_rms_norm(tmp_path: Path, axis: int, dtype: str, types: str) -> None:
    x = reals(4, 3, 6, dtype=dtype)
    scale = reals(x.shape[axis], seed=1)
    given = {"x": x, "s": scale}
    call = f"tract_core_scaled_rms_norm(x, s, axis = {axis}, eps = 0.01{types})"
    (y,) = outputs(tmp_path, call, given)
    wide = x.astype(float)
    normal = wide / np.sqrt(np.mean(wide**2, axis, keepdims=True) + 0.01)
    if "scale_dt" in types:
        normal = normal.astype(np.float16).astype(float)
    expected = normal * scale.reshape([-1 if i == axis else 1 for i in range(3)])
    is_half = "out_dt = 'f16'" in types or (dtype == "float16" and "out_dt" not in types)
    assert y.dtype == (np.float16 if is_half else np.float32)
    loose = 2e-3 if is_half else 2e-6
    np.testing.assert_allclose(y.astype(float), expected, rtol=loose, atol=loose)
    (theirs,) = of_tract(tmp_path, given)
    assert theirs.dtype == y.dtype
    np.testing.assert_allclose(y.astype(float), theirs.astype(float), rtol=loose, atol=loose)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_clamped_swiglu_matches_its_formula_and_tract(tmp_path: Path, dtype: str) -> None:
    given = {"g": (reals(5, 9) * 4).astype(dtype), "u": (reals(5, 9, seed=1) * 4).astype(dtype)}
    (y,) = outputs(tmp_path, "tract_core_clamped_swiglu(g, u, alpha = 1.702, limit = 3.0)", given)
    gate, up = (x.astype(float) for x in given.values())
    gate, up = np.minimum(gate, 3), np.clip(up, -3, 3)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, (up + 1) * gate * sigmoid(1.702 * gate), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(y, of_tract(tmp_path, given)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("arguments", ["1.0, -1.0", "1.0, 0.0", "inf, 1.0", "1.0, inf"])
def test_clamped_swiglu_requires_a_positive_finite_limit(tmp_path: Path, arguments: str) -> None:
    with pytest.raises(NnefError) as caught:
        outputs(tmp_path, f"tract_core_clamped_swiglu(x, x, {arguments})", {"x": reals(3)})
    assert caught.value.errors[0].rule == "argument/clamped_swiglu"


# -- a recurrent layer


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("chunk", [1, -1])
@pytest.mark.parametrize("bias", [False, True])
def test_gru_seq_matches_its_formula(tmp_path: Path, steps: int, chunk: int, bias: bool) -> None:
    n, width, hidden = 3, 4, 5
    given = {
        "x": reals(n, steps, width),
        "w": reals(3 * hidden, width, seed=1),
        "r": reals(3 * hidden, hidden, seed=2),
        "b": reals(1, 6 * hidden, seed=3),
        "h": reals(n, 1, hidden, seed=4),
    }
    with_bias = "b = b, has_bias = 1, " if bias else ""
    if not bias:
        del given["b"]
    sizes = f"hidden = {hidden}, chunk = {chunk}"
    call = f"tract_core_gru_seq(x = x, w = w, r = r, {with_bias}initial_h = h, {sizes})"
    found = outputs(tmp_path, call, given, "y, yh")
    x, w, r, h = (given[name].astype(float) for name in ("x", "w", "r", "h"))
    b = given["b"].astype(float)[0] if bias else np.zeros(6 * hidden)
    state, y = h[:, 0], np.zeros((n, steps, hidden))
    for t in range(steps) if chunk > 0 else reversed(range(steps)):
        xh, rh = x[:, t] @ w.T + b[: 3 * hidden], state @ r.T + b[3 * hidden :]
        z, q = (sigmoid(xh[:, p] + rh[:, p]) for p in (slice(0, hidden), slice(hidden, 2 * hidden)))
        new = np.tanh(xh[:, 2 * hidden :] + q * rh[:, 2 * hidden :])
        y[:, t] = state = new + z * (state - new)
    for ours, expected in zip(found, (y, state[:, None]), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(found, of_tract(tmp_path, given), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "shape"), [("w", (9, 4)), ("r", (15, 4)), ("h", (2, 1, 5)), ("b", (1, 15))]
)
def test_shapes_of_gru_seq(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    shapes: dict[str, tuple[int, ...]] = {
        "x": (3, 2, 4), "w": (15, 4), "r": (15, 5), "b": (1, 30), "h": (3, 1, 5)
    }  # fmt: skip
    given = {key: reals(*(shape if key == name else each)) for key, each in shapes.items()}
    call = "tract_core_gru_seq(x, w, r, b, h, hidden = 5, chunk = 1, has_bias = 1)"
    with pytest.raises(NnefError) as caught:
        outputs(tmp_path, call, given, "y, yh")
    assert caught.value.errors[0].rule == "argument/gru_seq"


# -- attention with caches


@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize(("heads", "few"), [(4, 4), (6, 2), (3, 1)])
@pytest.mark.parametrize("past", [0, 5])
def test_attention_with_caches(
    tmp_path: Path, sinks: bool, heads: int, few: int, past: int
) -> None:
    b, s, d = 2, 3, 8
    mask = np.where(np.tri(s, past + s, past, dtype=bool), 0, -np.inf).astype(np.float32)
    given = {
        "q": reals(b, heads, s, d),
        "k": reals(b, few, s, d, seed=1),
        "v": reals(b, few, s, d, seed=2),
        "kc": reals(b, few, past, d, seed=3),
        "vc": reals(b, few, past, d, seed=4),
        "m": mask[None, None],
    }
    name = "fused_sdpa"
    if sinks:
        given["s"] = reals(heads, seed=5)
        name = "gpt_oss_sdpa"
    call = f"tract_transformers_{name}({', '.join(given)}, scale = 0.3, window = 0)"
    found = outputs(tmp_path, call, given, "y, ko, vo")
    keys, values = (np.concatenate([given[c], given[n]], 2) for c, n in (("kc", "k"), ("vc", "v")))
    wide_k, wide_v = (np.repeat(x.astype(float), heads // few, 1) for x in (keys, values))
    scores = given["q"].astype(float) @ wide_k.swapaxes(2, 3) * 0.3 + mask
    powers = np.exp(scores)
    sink = np.exp(given["s"].astype(float)).reshape(1, heads, 1, 1) if sinks else 0.0
    expected = powers / (powers.sum(-1, keepdims=True) + sink) @ wide_v
    np.testing.assert_allclose(found[0], expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_array_equal(found[1], keys)
    np.testing.assert_array_equal(found[2], values)
