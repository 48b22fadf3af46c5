"""Products of codes in documents of tract: sums in int64 by NumPy, and integer kernels alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.ir import DType, Graph
from nnefc.ops.tools.table import traits_of
from nnefc.passes.pipeline import run_pipeline

Array = np.ndarray[Any, Any]

NAMES = {"i8": "int8", "u8": "uint8"}
SCALES = "a_scale = 0.02, b_scale = 0.01"
FACTOR = 0.02 * 0.01
random = np.random.default_rng(4)


def codes(dtype: str, *shape: int) -> Array:
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max + 1, shape).astype(dtype)


def model(folder: Path, body: str, quant: str = "", **weights: Array) -> Graph:
    """A document with an input x, and the weights as variables of their names."""
    generic = {name: "scalar" if w.dtype.kind == "f" else "integer" for name, w in weights.items()}
    variables = "".join(
        f"{name} = variable<{generic[name]}>(label = '{name}', shape = {list(w.shape)});\n"
        for name, w in weights.items()
    )
    text = "version 1.0;\nextension tract_registry tract_core;\ngraph g( x ) -> ( y )\n{\n"
    head, _, rest = body.partition("\n")
    (folder / "graph.nnef").write_text(f"{text}{head}\n{variables}{rest}\n}}\n")
    (folder / "graph.quant").write_text(quant)
    for name, items in weights.items():
        nnefc.write_tensor(folder / f"{name}.dat", items)
    return nnefc.import_model(folder)


def external(x: Array) -> str:
    name = {"f": "f32", "u": "u8", "i": "i8"}[x.dtype.kind]
    return f"x = tract_core_external(shape = {list(x.shape)}, datum_type = '{name}');\n"


def entry(name: str, zero: int, scale: Any, *, bits: int = 8, signed: bool = True) -> str:
    return (
        f'"{name}": zero_point_linear_quantize(zero_point = {zero}, scale = {scale}, '
        f"bits = {bits}, signed = {str(signed).lower()}, symmetric = false);\n"
    )


def computed(graph: Graph, x: Array) -> Array:
    """The result, after a check that products are sums of codes with their conversion."""
    passed = graph.clone()
    run_pipeline(passed)
    products = [op for op in passed.ops if traits_of(op).cost.multiply_adds is not None]
    assert products
    assert all("code" in op.name for op in products)
    assert all(op.output.type.dtype is not DType.INT32 for op in products)
    return np.asarray(nnefc.compile(graph, threads=1, strict_quantization=True)(x))


def requantized(sums: Array, factor: float, zero: int, dtype: str) -> Array:
    """tract's formula: the sums as float32, times one factor, rounded to even."""
    limits = np.iinfo(dtype)
    whole = np.rint(sums.astype(np.float32) * np.float32(factor))
    return np.clip(whole + zero, limits.min, limits.max).astype(dtype)


@pytest.mark.parametrize("left", ["i8", "u8"])
@pytest.mark.parametrize("right", ["i8", "u8"])
@pytest.mark.parametrize("bias", [False, True])
def test_matrix_products(tmp_path: Path, left: str, right: str, bias: bool) -> None:
    x, w = codes(NAMES[left], 19, 50), codes(NAMES[right], 50, 37)
    b = random.integers(-9000, 9000, (1, 37)).astype(np.int32) if bias else np.zeros(1, np.int32)
    weights = {"w": w, "b": b} if bias else {"w": w}
    call = "tract_core_qmatmul(x, w, {}axes = [0,1,0,1,0,1], a0 = {}, b0 = {}, c0 = 7, {}, {}, {})"
    zeros = [3 if name == "i8" else 125 for name in (left, right)]
    parts = "b, " if bias else "", *zeros, SCALES, "c_scale = 0.3", f"output_type = '{left}'"
    graph = model(tmp_path, f"{external(x)}y = {call.format(*parts)};", "", **weights)
    sums = (x.astype(np.int64) - zeros[0]) @ (w.astype(np.int64) - zeros[1]) + b
    want = requantized(sums, FACTOR / 0.3, 7, NAMES[left])
    assert len(np.unique(want)) > 50
    np.testing.assert_array_equal(computed(graph, x), want)


@pytest.mark.parametrize(
    ("expression", "shape", "weights"),
    [
        ("mk,kn->mn", (19, 50), (50, 37)),
        ("mk,nk->nm", (19, 50), (37, 50)),
        ("bmk,kn->bmn", (2, 9, 50), (50, 37)),
        ("abmk,nk->abmn", (2, 3, 5, 50), (37, 50)),
        ("bmk,bkn->bmn", (2, 9, 50), (2, 50, 37)),
        ("mak,akn->mn", (9, 2, 25), (2, 25, 37)),
        ("k,kn->n", (50,), (50, 37)),
    ],
)
@pytest.mark.parametrize("output", ["", "f32", "QU8(Z:9 S:0.3)"])
def test_einstein_sums(
    tmp_path: Path, expression: str, shape: tuple[int, ...], weights: tuple[int, ...], output: str
) -> None:
    x, w = codes("int8", *shape), codes("int8", *weights)
    call = (
        f"tract_core_einsum_q([x, w], expr = '{expression}', acc = 'i32', output = '{output}', "
        f"a0 = 3, b0 = 0, c0 = 9, {SCALES}, c_scale = 0.3)"
    )
    graph = model(tmp_path, f"{external(x)}y = {call};", w=w)
    sums = np.einsum(expression, x.astype(np.int64) - 3, w.astype(np.int64))
    want: Array = sums.astype(np.int32)
    if output == "f32":
        want = sums.astype(np.float32) * np.float32(FACTOR)
    elif output:
        want = requantized(sums, FACTOR / 0.3, 9, "uint8")
    got = np.asarray(nnefc.compile(graph, threads=1)(x))
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def convolved(x: Array, w: Array, groups: int = 1) -> Array:
    """Sums of 3 x 3 windows with padding 1, where codes are 0."""
    wide = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    height, width = x.shape[2:]
    total = np.zeros((1, len(w), height, width), np.int64)
    a, b = x.shape[1] // groups, len(w) // groups
    for group in range(groups):
        for i in range(3):
            for j in range(3):
                part = wide[0, group * a : (group + 1) * a, i : i + height, j : j + width]
                taps = w[group * b : (group + 1) * b, :, i, j].astype(np.int64)
                total[0, group * b : (group + 1) * b] += np.einsum("oi,ihw->ohw", taps, part)
    return total


@pytest.mark.parametrize("groups", [1, 2, 16])
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_convolutions(tmp_path: Path, groups: int, dtype: str) -> None:
    x, w = codes(NAMES[dtype], 1, 16, 9, 11), codes("int8", 32, 16 // groups, 3, 3)
    b = random.integers(-9000, 9000, (32,)).astype(np.int32)
    scale = 0.3 / np.sqrt(groups)
    call = (
        f"tract_core_qconv(x, w, b, group = {groups}, padding = [(1,1),(1,1)], a0 = 4, b0 = 0, "
        f"c0 = 11, {SCALES}, c_scale = {scale}, output_dt = '{dtype}')"
    )
    graph = model(tmp_path, f"{external(x)}y = {call};", w=w, b=b)
    sums = convolved(x.astype(np.int64) - 4, w, groups) + b[None, :, None, None]
    want = requantized(sums, FACTOR / scale, 11, NAMES[dtype])
    assert len(np.unique(want)) > 50
    np.testing.assert_array_equal(computed(graph, x), want)


NETWORK = """a = conv(q, w, b, padding = [(1,1),(1,1)]);
r = relu(a);
s = add(r, q);
m = squeeze(mean_reduce(s, axes = [2,3]), axes = [2,3]);
c = tract_core_cast(m);
l = linear(c, v, d);
y = tract_core_cast(l, to = 'f32');"""


def test_a_network_whose_types_are_in_a_file(tmp_path: Path) -> None:
    """Filters and biases are codes; all layers compute on codes."""
    x = random.normal(size=(1, 16, 9, 11)).astype(np.float32)
    weights = {
        **{"w": codes("int8", 16, 16, 3, 3), "v": codes("int8", 10, 16)},
        "b": random.integers(-9000, 9000, (1, 16)).astype(np.int32),
        "d": random.integers(-900, 900, (1, 10)).astype(np.int32),
    }
    scales = {
        "q": 0.02,
        "a": 0.04,
        "r": 0.02,
        "s": 0.04,
        "c": 0.01,
        "w": 0.005,
        "v": 0.01,
        "l": 0.03,
    }
    zeros = {"q": 3, "a": -5, "r": -128, "s": -60, "c": -100, "w": 0, "v": 0, "l": 2}
    quant = "".join(entry(name, zeros[name], scale) for name, scale in scales.items())
    quant += entry("b", 0, 0.02 * 0.005, bits=32) + entry("d", 0, 0.01 * 0.01, bits=32)
    body = f"{external(x)}q = tract_core_cast(x);\n{NETWORK}"
    graph = model(tmp_path, body, quant, **weights)
    variables = {v.label: v.type.dtype.value for v in graph.variables.values()}
    assert variables == {"w": "int8", "v": "int8", "b": "int32", "d": "int32"}

    def rounded(name: str, reals: Array) -> Array:
        whole = np.rint(reals / np.float32(scales[name])) + zeros[name]
        return (np.clip(whole, -128, 127) - zeros[name]).astype(np.int64)

    def real(name: str, items: Array) -> Array:
        return items * np.float64(np.float32(scales[name]))

    q = rounded("q", x)
    sums = convolved(q, weights["w"]) + weights["b"].reshape(1, 16, 1, 1)
    a = rounded("a", sums * (0.02 * 0.005))
    s = rounded("s", real("r", rounded("r", np.maximum(real("a", a), 0))) + real("q", q))
    c = rounded("c", real("s", s).mean((2, 3)))
    want = rounded("l", (c @ weights["v"].T.astype(np.int64) + weights["d"]) * (0.01 * 0.01))
    got = computed(graph, x)
    assert len(np.unique(want)) > 5
    assert np.abs(got / np.float32(0.03) - want).max() <= 1.01


def test_real_biases_are_truncated_to_codes(tmp_path: Path) -> None:
    """As in tract, which casts them to int32."""
    x, w = random.normal(size=(1, 16, 9, 11)).astype(np.float32), codes("int8", 32, 16, 3, 3)
    b = (random.normal(size=32) * 3).astype(np.float32)
    body = f"{external(x)}q = tract_core_cast(x);\ny = conv(q, w, b, padding = [(1,1),(1,1)]);"
    quant = entry("q", 3, 0.25) + entry("w", 0, 1.0) + entry("y", 5, 4.0)
    got = computed(model(tmp_path, body, quant, w=w, b=b), x)
    q = np.clip(np.rint(x / 0.25) + 3, -128, 127) - 3
    sums = convolved(q, w) + np.trunc(b).astype(np.int64)[None, :, None, None]
    np.testing.assert_array_equal(got, requantized(sums, 1 / 16, 5, "int8"))


def test_real_filters_are_quantized_once(tmp_path: Path) -> None:
    x, w = codes("uint8", 1, 16, 9, 11), random.normal(size=(32, 16, 3, 3)).astype(np.float32)
    quant = (
        entry("x", 3, 0.02, signed=False) + entry("w", 0, 0.05) + entry("y", 128, 0.3, signed=False)
    )
    graph = model(tmp_path, f"{external(x)}y = conv(x, w, padding = [(1,1),(1,1)]);", quant, w=w)
    filters = np.clip(np.rint(w / np.float32(0.05)), -128, 127)
    sums = convolved(x.astype(np.int64) - 3, filters)
    want = requantized(sums, 0.02 * 0.05 / 0.3, 128, "uint8")
    assert np.abs(computed(graph, x).astype(int) - want).max() <= 1


def test_codes_are_quotients_rounded_to_even(tmp_path: Path) -> None:
    x = (np.arange(-600, 600) / 8).astype(np.float32)
    graph = model(tmp_path, f"{external(x)}y = tract_core_cast(x, to = 'QI8(Z:4 S:0.25)');")
    want = np.clip(np.rint(x / np.float32(0.25)) + 4, -128, 127)
    np.testing.assert_array_equal(np.asarray(nnefc.compile(graph)(x)), want)
