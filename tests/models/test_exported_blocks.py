"""Blocks of transformers, and resizing, as PyTorch's exporters write them: the launches of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import nnefc
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results, reals

Array = np.ndarray[Any, Any]

TOKENS, WIDTH, HEADS, DEPTH = 5, 16, 4, 4
PAST, SOURCE, GROUPS = 3, 6, 2
"""Cached positions, encoded positions, and heads of keys and values in Llama."""
KEYS = PAST + TOKENS
SCALE = DEPTH**-0.25
"""Exporters multiply queries and keys by it."""

NORM = {f"{kind}{i}": reals(WIDTH, seed=i) for i in range(3) for kind in ("scale", "shift")}
BIASES = {f"b{each}": reals(WIDTH, seed=20 + i) for i, each in enumerate("qkvosct2")}
SQUARES = {f"w{each}": reals(WIDTH, WIDTH, seed=10 + i) / 4 for i, each in enumerate("qkvosct")}
LAYERS = {
    **{"wup": reals(WIDTH, 32, seed=30) / 4, "bup": reals(32, seed=31)},
    **{"wgate": reals(WIDTH, 32, seed=32) / 4, "wdown": reals(32, WIDTH, seed=33) / 4},
}
HALVES = {
    **{"zero": np.array([0]), "half": np.array([DEPTH // 2]), "end": np.array([1 << 62])},
    **{"three": np.array([3]), "step": np.array([1])},
}


def split(made: str, name: str, *, moved: bool = True) -> str:
    """Heads of a projection; `moved`: before positions."""
    order = "[0, 2, 1, 3]" if moved else "[0, 2, 3, 1]"
    return f"s{name} = Reshape ({made}, heads) h{name} = Transpose <perm = {order}> (s{name}) "


def projected(name: str, x: str) -> str:
    """A linear layer, as the older exporter adds its bias."""
    return f"m{name} = MatMul ({x}, w{name}) a{name} = Add (b{name}, m{name}) "


def weighted(q: str, k: str, v: str, name: str, *, mask: str = "") -> str:
    """Attention to keys [.., depth, keys], with the guard of PyTorch against NaN."""
    scores = f"q{name}s = Mul ({q}, factor) k{name}s = Mul ({k}, factor)"
    scores += f" x{name} = MatMul (q{name}s, k{name}s) "
    last = f"x{name}"
    if mask:
        scores += f"y{name} = Add (x{name}, {mask}) "
        last = f"y{name}"
    return (
        f"{scores} p{name} = Softmax <axis = -1> ({last}) n{name} = IsNaN (p{name})"
        f" c{name} = Where (n{name}, none, p{name}) o{name} = MatMul (c{name}, {v})"
        f" t{name} = Transpose <perm = [0, 2, 1, 3]> (o{name}) j{name} = Reshape (t{name}, joined) "
    )


def merged(k: str, name: str, keys: int, heads: int = HEADS) -> str:
    """The newer exporter transposes keys with batch and heads as one dimension."""
    return (
        f"{name}1 = Reshape ({k}, merged{keys}) {name}2 = Transpose <perm = [0, 2, 1]> ({name}1)"
        f" {name} = Reshape ({name}2, apart{keys}) "
    )


def shapes(*counts: int) -> dict[str, Array]:
    """The shapes that `merged` uses for each number of keys."""
    made: dict[str, Array] = {}
    for keys in counts:
        made[f"merged{keys}"] = np.array([-1, keys, DEPTH])
        made[f"apart{keys}"] = np.array([1, HEADS, DEPTH, keys])
    return made


SHARED = {
    **{"heads": np.array([1, TOKENS, -1, DEPTH]), "joined": np.array([1, TOKENS, WIDTH])},
    **{"factor": np.array(SCALE, np.float32), "none": np.array(0, np.float32)},
    "hidden": np.array(-np.inf, np.float32),
    **shapes(TOKENS, KEYS, SOURCE),
}
GELU = {
    "operator": "g = Gelu (aup) ",
    "erf": "e1 = Div (aup, root) e2 = Erf (e1) e3 = Add (e2, one) e4 = Mul (aup, e3)"
    " g = Mul (e4, point) ",
}
NUMBERS = {
    "root": np.array(np.sqrt(2), np.float32),
    "one": np.array(1, np.float32),
    "point": np.array(0.5, np.float32),
}


def launches(
    head: str, nodes: str, weights: Mapping[str, Array], inputs: Sequence[Array], path: Path
) -> list[str]:
    """The kinds of launches of a model; those of one attention are counted as one.

    Its results are compared with onnxruntime's.
    """
    made = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 20]> net {head} {{ {nodes} }}'
    )
    used = {each for node in made.graph.node for each in node.input}
    for name in sorted(used & set(weights)):
        made.graph.initializer.append(numpy_helper.from_array(weights[name], name))
    path.write_bytes(made.SerializeToString())
    named = [each.name for each in made.graph.input]
    compiled = nnefc.compile(path, threads=1)
    assert isinstance(compiled, CompiledModel)
    results = list(compiled.run(dict(zip(named, inputs, strict=True))).values())
    for result, want in zip(results, onnxruntime_results(made, list(inputs)), strict=True):
        np.testing.assert_allclose(result, want, rtol=1e-4, atol=2e-5)
    kinds = [launch.label.split(" ")[0] for launch in compiled.launches]
    together = groupby(enumerate(kinds), lambda e: "attention" if e[1] == "attention" else e[0])
    return [next(each)[1] for _, each in together]


BERT_LAST = {
    "torchscript": split("ak", "k", moved=False) + split("av", "v"),
    "dynamo": split("ak", "kk") + merged("hkk", "hk", TOKENS) + split("av", "v"),
}


@pytest.mark.parametrize("exporter", BERT_LAST)
def test_bert(exporter: str, tmp_path: Path) -> None:
    """Attention with a mask of tokens, then two products, each with a normalised residual."""
    gelu = GELU["erf" if exporter == "torchscript" else "operator"]
    nodes = (
        "".join(projected(each, "x") for each in "qkv")
        + split("aq", "q")
        + BERT_LAST[exporter]
        + "masked = Where (mask, none, hidden) "
        + weighted("hq", "hk", "hv", "1", mask="masked")
        + projected("o", "j1")
        + "r1 = Add (ao, x) l1 = LayerNormalization <axis = -1> (r1, scale0, shift0) "
        + f"mup = MatMul (l1, wup) aup = Add (mup, bup) {gelu}"
        + "md = MatMul (g, wdown) ad = Add (md, b2) r2 = Add (ad, l1) "
        + "y = LayerNormalization <axis = -1> (r2, scale1, shift1)"
    )
    head = f"(float[1, {TOKENS}, {WIDTH}] x, bool[1, 1, 1, {TOKENS}] mask) => (float y)"
    mask = np.arange(TOKENS).reshape(1, 1, 1, -1) < TOKENS - 1
    weights = {**NORM, **BIASES, **SQUARES, **LAYERS, **SHARED, **NUMBERS}
    inputs = [reals(1, TOKENS, WIDTH, seed=1), mask]
    kinds = launches(head, nodes, weights, inputs, tmp_path / "model.onnx")
    norm = "fused_mean_variance_normalization"
    ends = ["fused_matmul", norm, "fused_matmul", "fused_matmul", norm]
    assert sorted(kinds[:4]) == ["fused", *["fused_matmul"] * 3]
    assert kinds[4:] == ["attention", *ends]


def rotated(name: str) -> str:
    """Rotary position embedding of the heads `h{name}`."""
    return (
        f"{name}a = Mul (h{name}, cosines) {name}b = Slice (h{name}, zero, half, three, step)"
        f" {name}c = Slice (h{name}, half, end, three, step) {name}d = Neg ({name}c)"
        f" {name}e = Concat <axis = -1> ({name}d, {name}b) {name}f = Mul ({name}e, sines)"
        f" r{name} = Add ({name}a, {name}f) "
    )


def root_mean_square(x: str, name: str, exporter: str) -> str:
    """RMSNorm by a quotient (the older exporter) or a reciprocal."""
    root = f"{name}4 = Div (one, {name}3)" if exporter == "torchscript" else ""
    root = root or f"{name}4 = Reciprocal ({name}3)"
    return (
        f"{name}1 = Pow ({x}, two) {name}2 = ReduceMean <keepdims = 1> ({name}1, last)"
        f" {name}e = Add ({name}2, epsilon) {name}3 = Sqrt ({name}e) {root}"
        f" {name}5 = Mul ({x}, {name}4) {name} = Mul (scale{name[-1]}, {name}5) "
    )


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_llama(exporter: str, tmp_path: Path) -> None:
    """Caches that grow, rotated queries and keys, heads of keys that repeat, a gated product."""
    kv, size = GROUPS * DEPTH, HEADS // GROUPS
    weights = {
        **{**SHARED, **NORM, **SQUARES, **LAYERS, **HALVES, **NUMBERS},
        **{"wk": reals(WIDTH, kv, seed=3) / 4, "wv": reals(WIDTH, kv, seed=4) / 4},
        **{"cosines": reals(1, 1, TOKENS, DEPTH, seed=5)},
        **{"sines": reals(1, 1, TOKENS, DEPTH, seed=6), "axis": np.array([2])},
        **{"two": np.array(2, np.float32), "epsilon": np.array(1e-6, np.float32)},
        **{"last": np.array([-1]), "repeats": np.array([1, GROUPS, size, KEYS, DEPTH])},
        **{"all": np.array([1, HEADS, KEYS, DEPTH])},
    }
    repeated = "".join(
        f"u{e} = Unsqueeze (present_{e}, axis) w{e}5 = Expand (u{e}, repeats)" for e in "kv"
    )
    keys = merged("wk5", "kt", KEYS)
    if exporter == "torchscript":
        keys = "k4 = Reshape (wk5, all) kt = Transpose <perm = [0, 1, 3, 2]> (k4) "
    nodes = (
        root_mean_square("x", "norm0", exporter)
        + "".join(f"m{e} = MatMul (norm0, w{e}) {split(f'm{e}', e)}" for e in "qkv")
        + rotated("q")
        + rotated("k")
        + "present_k = Concat <axis = -2> (past_k, rk) present_v = Concat <axis = -2> (past_v, hv) "
        + repeated
        + f" {keys} v4 = Reshape (wv5, all) masked = Where (mask, none, hidden) "
        + weighted("rq", "kt", "v4", "1", mask="masked")
        + "mo = MatMul (j1, wo) r1 = Add (x, mo) "
        + root_mean_square("r1", "norm1", exporter)
        + "g1 = MatMul (norm1, wgate) g2 = Sigmoid (g1) g3 = Mul (g1, g2) g4 = MatMul (norm1, wup)"
        + " g5 = Mul (g3, g4) g6 = MatMul (g5, wdown) y = Add (r1, g6)"
    )
    past = f"float[1, {GROUPS}, {PAST}, {DEPTH}]"
    head = (
        f"(float[1, {TOKENS}, {WIDTH}] x, {past} past_k, {past} past_v, bool[1, 1, {TOKENS},"
        f" {KEYS}] mask) => (float y, float present_k, float present_v)"
    )
    mask = np.tril(np.ones((TOKENS, KEYS), np.bool_), PAST)[None, None]
    caches = [reals(1, GROUPS, PAST, DEPTH, seed=i) for i in (7, 8)]
    inputs = [reals(1, TOKENS, WIDTH, seed=1), *caches, mask]
    kinds = launches(head, nodes, weights, inputs, tmp_path / "model.onnx")
    assert kinds.count("attention") == 1
    assert not {"tile", "softmax"} & set(kinds)
    counted = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    assert counted == {
        "attention": 1,
        "concat": 4,
        "fused": 1,
        "fused_matmul": 3,
        "fused_mean_variance_normalization": 2,
        "fused_views": 2,
        "matmul": 4,
        "transpose": 1,
    }


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_whisper_decoder(exporter: str, tmp_path: Path) -> None:
    """Attention to a cache and to encoded positions, each behind a normalisation."""
    newer = exporter == "dynamo"
    own = merged("present_k", "kt", KEYS) if newer else ""
    other = merged("source_k", "st", SOURCE) if newer else ""
    transpose = "Transpose <perm = [0, 1, 3, 2]>"
    nodes = (
        "l0 = LayerNormalization <axis = -1> (x, scale0, shift0) "
        + projected("q", "l0")
        + "mk = MatMul (l0, wk) "
        + projected("v", "l0")
        + split("aq", "q")
        + split("mk", "k")
        + split("av", "v")
        + "present_k = Concat <axis = -2> (past_k, hk) present_v = Concat <axis = -2> (past_v, hv) "
        + (own or f"kt = {transpose} (present_k) ")
        + weighted("hq", "kt", "present_v", "1", mask="mask")
        + projected("o", "j1")
        + "r1 = Add (x, ao) l1 = LayerNormalization <axis = -1> (r1, scale1, shift1) "
        + projected("s", "l1")
        + split("as", "s")
        + (other or f"st = {transpose} (source_k) ")
        + weighted("hs", "st", "source_v", "2")
        + projected("c", "j2")
        + "r2 = Add (r1, ac) l2 = LayerNormalization <axis = -1> (r2, scale2, shift2) "
        + f"mup = MatMul (l2, wup) aup = Add (bup, mup) {GELU['operator']}"
        + "md = MatMul (g, wdown) ad = Add (b2, md) y = Add (r2, ad)"
    )
    past, source = (f"float[1, {HEADS}, {n}, {DEPTH}]" for n in (PAST, SOURCE))
    head = (
        f"(float[1, {TOKENS}, {WIDTH}] x, {past} past_k, {past} past_v, {source} source_k,"
        f" {source} source_v, float[1, 1, {TOKENS}, {KEYS}] mask)"
        " => (float y, float present_k, float present_v)"
    )
    hidden = np.triu(np.full((TOKENS, KEYS), -np.inf, np.float32), PAST + 1)[None, None]
    caches = [reals(1, HEADS, n, DEPTH, seed=n + i) for n in (PAST, SOURCE) for i in (0, 1)]
    inputs = [reals(1, TOKENS, WIDTH, seed=1), *caches, hidden]
    weights = {**NORM, **BIASES, **SQUARES, **LAYERS, **SHARED}
    kinds = launches(head, nodes, weights, inputs, tmp_path / "model.onnx")
    counted = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    assert counted == {
        "attention": 2,
        "concat": 4,  # caches, and what is behind them
        "fused_matmul": 7,
        "fused_mean_variance_normalization": 3,
        "matmul": 1,
        "transpose": 2,
    }


RESIZES = {
    "nearest": ('"nearest", coordinate_transformation_mode = "asymmetric"', "debox"),
    "linear": ('"linear", coordinate_transformation_mode = "half_pixel"', "multilinear_upsample"),
    "corners": (
        '"linear", coordinate_transformation_mode = "align_corners"',
        "multilinear_upsample",
    ),
    "cubic": ('"cubic", coordinate_transformation_mode = "half_pixel"', ""),
}
"""Attributes of the modes, and the operation that doubles the size of blocked tensors."""


@pytest.mark.parametrize("mode", RESIZES)
def test_resizing(mode: str, tmp_path: Path) -> None:
    """Scales, sizes, and sizes by the shape are the same; one launch doubles blocked channels."""
    attributes, kind = RESIZES[mode]
    resize = f'Resize <mode = {attributes}, cubic_coeff_a = -0.75, nearest_mode = "floor">'
    between = {
        "scales": f'z = {resize} (d, "", scales)',
        "sizes": f'z = {resize} (d, "", "", sizes)',
        "shape": "s = Shape (d) t = Slice (s, zero, two, zero)"
        f' u = Concat <axis = 0> (t, extents) z = {resize} (d, "", "", u)',
    }
    head, x = "(float[1, 16, 4, 5] x) => (float y)", reals(1, 16, 4, 5, seed=1)
    fixed = {"w": reals(16, 16, 1, 1, seed=2), "zero": np.array([0]), "two": np.array([2])}
    rows_first = ["layout", "resize", "resize", "layout"]
    for extents in ([8, 10], [7, 9]):
        twice = extents == [8, 10]
        weights = {
            **{**fixed, "extents": np.array(extents), "sizes": np.array([1, 16, *extents])},
            "scales": np.array([1, 1, extents[0] / 4, extents[1] / 5], np.float32),
        }
        expected = [kind] if twice and kind else rows_first
        for spelling, nodes in between.items():
            if spelling == "scales" and not twice:
                continue  # PyTorch writes sizes then
            text = f"d = Conv (x, w) {nodes} y = Conv (z, w)"
            kinds = launches(head, text, weights, [x], tmp_path / "model.onnx")
            assert kinds == ["layout", "fused_conv", *expected, "fused_conv", "layout"], spelling
