"""Random numbers: their distributions, and their reproducibility."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from nnefc.dynamic.dynamic_model import DynamicModel

Array = np.ndarray[Any, Any]
HEAD = """version 1.0;
extension tract_registry tract_core;
extension tract_registry tract_onnx;
extension tract_symbol N;
"""
DOCUMENT = """{head}graph net( x ) -> ( {results} )
{{
    x = tract_core_external(shape = [N, {width}], datum_type = 'f32');
{body}
}}
"""
MASK = (1 << 64) - 1


def compiled(
    folder: Path, *values: str, width: int = 3, threads: int = 1, head: str = HEAD
) -> DynamicModel:
    """A model of input x [N, width] whose results are the expressions `values`."""
    names = [f"y{i}" for i in range(len(values))]
    body = "\n".join(f"    {name} = {value};" for name, value in zip(names, values, strict=True))
    text = DOCUMENT.format(head=head, results=", ".join(names), width=width, body=body)
    (folder / "graph.nnef").write_text(text)
    model = nnefc.compile(folder, threads=threads)
    assert isinstance(model, DynamicModel)
    return model


def rows(count: int, width: int = 3) -> Array:
    return np.zeros((count, width), np.float32)


def numbers(dist: str, parameters: str, dtype: str = "f32", seed: str = "7") -> str:
    more = f", seed = {seed}" if seed else ""
    return (
        f"tract_onnx_random(datum_type = '{dtype}', shape = [N, 5], dist = '{dist}', "
        f"parameters = [{parameters}]{more})"
    )


def distance(sample: Array, distribution: Callable[[float], float]) -> float:
    """The Kolmogorov-Smirnov statistic times the root of the sample size.

    It exceeds 1.95 in one sample of a thousand.
    """
    ordered = np.sort(sample.reshape(-1).astype(np.float64))
    count = ordered.size
    expected = np.array([distribution(x) for x in ordered.tolist()])
    above = np.arange(1, count + 1) / count - expected
    below = expected - np.arange(count) / count
    return float(max(above.max(), below.max()) * math.sqrt(count))


def correlation(sample: Array, apart: int) -> float:
    """The autocorrelation at distance `apart`, times the root of the sample size: about normal."""
    flat = sample.reshape(-1).astype(np.float64)
    pair = np.corrcoef(flat[apart:], flat[:-apart])
    return float(pair[0, 1]) * math.sqrt(flat.size)


def splitmix64(seed: int, count: int) -> list[int]:
    """The generator of Steele, Lea and Flood (2014), started at the hash of the seed."""

    def mixed(z: int) -> int:
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        return z ^ (z >> 31)

    first = mixed(seed & MASK)
    return [mixed(first + i * 0x9E3779B97F4A7C15 & MASK) for i in range(count)]


@pytest.mark.parametrize("seed", [0, 7, -1, (1 << 63) - 1])
def test_words_match_splitmix64(seed: int, tmp_path: Path) -> None:
    model = compiled(tmp_path, numbers("uniform", "0.0, 1.0", "f64", str(seed)))
    words = splitmix64(seed, 55)
    found = np.concatenate([model(rows(count)).reshape(-1) for count in (7, 4)])
    assert found.tolist() == [(word >> 11) / (1 << 53) for word in words]


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("f32", -2.0, 3.0), ("f64", 0.25, 0.75), ("f16", -1.0, 1.0), ("f32", 1e8, 3e8)],
)
def test_uniform_numbers_have_their_distribution(
    dtype: str, low: float, high: float, tmp_path: Path
) -> None:
    model = compiled(tmp_path, numbers("uniform", f"{low}, {high}", dtype))
    sample = model(rows(4000))
    assert sample.dtype == {"f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype]
    assert sample.min() >= low
    assert sample.max() < high
    if dtype != "f16":  # float16 has too few values for this test
        assert distance(sample, lambda x: (x - low) / (high - low)) < 1.95
    wide = sample.astype(np.float64)
    sigmas = (wide.mean() - (low + high) / 2) / (high - low) * math.sqrt(12 * sample.size)
    assert abs(sigmas) < 3.5
    assert abs(wide.var() * 12 / (high - low) ** 2 - 1) < 0.03
    assert all(abs(correlation(sample, apart)) < 3.5 for apart in (1, 2, 5, 64))


@pytest.mark.parametrize(("dtype", "low", "high"), [("f16", 1.0, 1.01), ("f32", 1.0, 1.000001)])
def test_rounding_does_not_give_the_upper_bound(
    dtype: str, low: float, high: float, tmp_path: Path
) -> None:
    """All of the few numbers in [low, high) occur, and `high` does not."""
    numpy_type = {"f16": np.float16, "f32": np.float32}[dtype]
    expected = [numpy_type(low)]
    while (next_one := np.nextafter(expected[-1], numpy_type(2))) < numpy_type(high):
        expected.append(next_one)
    sample = compiled(tmp_path, numbers("uniform", f"{low}, {high}", dtype))(rows(1000))
    assert np.unique(sample).tolist() == expected


@pytest.mark.parametrize(
    ("dtype", "mean", "deviation"),
    [("f32", 0.0, 1.0), ("f64", -3.0, 0.5), ("f16", 1.0, 2.0), ("f32", 4.0, 0.0)],
)
def test_normal_numbers_have_their_distribution(
    dtype: str, mean: float, deviation: float, tmp_path: Path
) -> None:
    sample = compiled(tmp_path, numbers("normal", f"{mean}, {deviation}", dtype))(rows(8000))
    if deviation == 0:
        assert (sample == mean).all()
        return
    assert np.isfinite(sample).all()
    z = (sample.astype(np.float64) - mean) / deviation
    if dtype != "f16":
        assert distance(z, lambda x: 0.5 * math.erfc(-x / math.sqrt(2))) < 1.95
    assert abs(z.mean()) * math.sqrt(z.size) < 3.5
    assert abs(z.var() - 1) < 0.03
    assert abs((z**4).mean() - 3) < 0.2
    assert 3.4 < np.abs(z).max() < 6  # of 40000
    assert all(abs(correlation(z, apart)) < 3.5 for apart in (1, 2, 5, 20000))
    assert all(abs(correlation(z * z, apart)) < 3.5 for apart in (1, 5, 20000))


def test_calls_continue_the_sequence(tmp_path: Path) -> None:
    model = compiled(tmp_path, numbers("uniform", "0.0, 1.0"))
    whole = model(rows(60)).reshape(-1)
    for lengths in ([60], [20, 20, 20], [1, 9, 50], [33, 2, 25]):
        model.reset()
        pieces = [model(rows(count)).reshape(-1) for count in lengths]
        assert (np.concatenate(pieces) == whole).all()


@pytest.mark.parametrize("dist", ["uniform", "normal"])
def test_sessions_are_independent(dist: str, tmp_path: Path) -> None:
    model = compiled(tmp_path, numbers(dist, "0.0, 1.0"))
    one, other = model.session(), model.session()
    first, second = one(rows(6)), one(rows(6))
    assert not (first == second).any()
    assert (other(rows(6)) == first).all()
    (name,) = one.states
    third, other.states[name] = one(rows(6)), one.states[name]
    fourth = one(rows(6))
    assert (other(rows(6)) == fourth).all()
    assert not (third == fourth).any()
    one.reset()
    assert (one(rows(6)) == first).all()


def test_seeds_determine_the_sequence(tmp_path: Path) -> None:
    """Equal seeds give equal sequences; other seeds, and none, unrelated ones."""
    values = [
        numbers("uniform", "0.0, 1.0", seed=seed) for seed in ("7", "7.0", "8", "7.5", "", "")
    ]
    results = compiled(tmp_path, *values)(rows(8))
    assert (results[0] == results[1]).all()
    for i in range(1, 6):
        for other in results[:i] if i > 1 else ():
            assert not (results[i] == other).any()
    again = compiled(tmp_path, *values)(rows(8))
    assert (again[0] == results[0]).all()
    assert not (again[4] == results[4]).any()


def test_threads_change_nothing(tmp_path: Path) -> None:
    values = [numbers("uniform", "0.0, 1.0"), numbers("normal", "0.0, 1.0")]
    values.append("tract_onnx_multinomial(x, sample_size = 100, seed = 3)")
    alone = compiled(tmp_path, *values)(rows(3000))
    together = compiled(tmp_path, *values, threads=2)(rows(3000))
    assert all((a == b).all() for a, b in zip(alone, together, strict=True))


def test_zero_and_single_samples(tmp_path: Path) -> None:
    none = numbers("normal", "0.0, 1.0").replace("[N, 5]", "[N, 0]")
    one = numbers("uniform", "2.0, 3.0").replace("[N, 5]", "[]")
    values = [none, one, "tract_onnx_multinomial(x, sample_size = 0)"]
    empty, single, no_samples = compiled(tmp_path, *values)(rows(2))
    assert empty.shape == (2, 0)
    assert single.shape == ()
    assert 2 <= single < 3
    assert no_samples.shape == (2, 0)


def test_weights_of_classes(tmp_path: Path) -> None:
    weights = np.array([[1, 2, 3, 4, 0, 10], [0, 0, 5, 0, 0, 0], [1e-3, 1, 1, 1, 1, 1e3]])
    with np.errstate(divide="ignore"):
        logits = (np.log(weights) + np.array([[0], [100], [-300]])).astype(np.float32)
    value = "tract_onnx_multinomial(x, dtype = 7, sample_size = 20000, seed = 1)"
    sample = compiled(tmp_path, value, width=6)(logits)
    assert (sample.shape, sample.dtype) == ((3, 20000), np.int64)
    for row, of in zip(sample, weights, strict=True):
        expected = of / of.sum()
        counts = np.bincount(row, minlength=6)
        assert counts.size == 6
        assert (counts[expected == 0] == 0).all()
        sigmas = np.sqrt(20000 * expected * (1 - expected))
        assert (np.abs(counts - 20000 * expected) <= 4 * sigmas).all()
    assert abs(correlation(sample[0], 1)) < 3.5
    assert abs(float(np.corrcoef(sample[0], sample[2])[0, 1])) * math.sqrt(20000) < 3.5


@pytest.mark.parametrize("classes", [1, 2, 3, 8, 9, 257])
def test_any_number_of_classes(classes: int, tmp_path: Path) -> None:
    value = "tract_onnx_multinomial(x, sample_size = 30000, seed = 5)"
    sample = compiled(tmp_path, value, width=classes)(rows(1, classes))
    assert sample.dtype == np.int32
    counts = np.bincount(sample[0], minlength=classes)
    assert counts.size == classes
    expected = 30000 / classes
    assert (np.abs(counts - expected) <= 5 * math.sqrt(expected)).all()


def test_nan_and_infinite_weights(tmp_path: Path) -> None:
    """Samples are valid classes; infinite weights exclude finite ones."""
    inf, nan = math.inf, math.nan
    logits = np.array([[nan, 1, 2], [-inf, -inf, -inf], [inf, 1, 2], [1, inf, inf]], np.float32)
    value = "tract_onnx_multinomial(x, sample_size = 1000, seed = 5)"
    sample = compiled(tmp_path, value)(logits)
    assert ((sample >= 0) & (sample < 3)).all()
    assert (sample[2] == 0).all()
    assert set(sample[3].tolist()) == {1, 2}


def test_word_of_zero_bits(tmp_path: Path) -> None:
    """The hash of position 0 is 0: the first number of a generator at that position."""
    values = [numbers("uniform", "2.0, 3.0"), numbers("normal", "0.0, 1.0")]
    model = compiled(tmp_path, *values, "tract_onnx_multinomial(x, sample_size = 5)")
    session = model.session()
    logits = np.full((1, 3), [-math.inf, 0, 0], np.float32)
    session(logits)
    for name in session.states:
        session.states[name] = np.array(0, np.uint64)
    uniform, normal, classes = session(logits)
    assert uniform[0, 0] == 2
    # u = 2^-53, and v is the sixth of the next words
    z = (0x9E3779B97F4A7C15 * 5) & MASK
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> shift)) * factor & MASK
    v = ((z ^ (z >> 31)) >> 11) / (1 << 53)
    expected = math.sqrt(2 * 53 * math.log(2)) * math.cos(2 * math.pi * v)
    assert abs(normal[0, 0] - expected) < 1e-5
    assert classes[0, 0] == 1


IN_A_LOOP = """fragment step( a: tensor<scalar> ) -> ( y: tensor<scalar> )
{
    y = a + tract_onnx_random(datum_type = 'f32', shape = [1, 3], dist = 'normal',
        parameters = [0.0, 1.0]);
}
"""


def test_not_within_loops(tmp_path: Path) -> None:
    head = HEAD + IN_A_LOOP
    value = "tract_core_scan('step', scan = [('a', x, 0, 1)], output = [('y', 'full', 0, 1)])"
    with pytest.raises(NnefError, match="random numbers within a loop are not supported"):
        compiled(tmp_path, value, head=head)(rows(4))


ARGUMENTS = "datum_type = '{}', shape = {}, dist = '{}', parameters = {}"


@pytest.mark.parametrize(
    ("value", "rule", "message"),
    [
        (("i32", "[3]", "uniform", "[0, 1]"), "argument/random", "'i32'"),
        (("f32", "[3]", "gamma", "[0, 1]"), "argument/random", "dist = 'gamma'"),
        (("f32", "[3]", "normal", "[0]"), "argument/random", "two numbers"),
        (("f32", "[3]", "normal", "x"), "argument/random", "two numbers"),
        (("f32", "[3]", "normal", "[0, 'a']"), "operator/attribute", "'a'"),
        (("f32", "[3]", "normal", "[0.0, inf]"), "argument/random", "must be finite"),
        (("f32", "[3]", "normal", "[0, 0 - 1]"), "argument/random", "must not be below 0"),
        (("f32", "[3]", "uniform", "[1.0, 0.5]"), "argument/random", r"\[1.0, 0.5\]: low"),
        (("f16", "[3]", "uniform", "[1.0, 1.0001]"), "argument/random", "in float16"),
        (("f16", "[3]", "uniform", "[0.0, 1e6]"), "argument/random", "in float16"),
        (("f64", "[3]", "uniform", "[-1.7e308, 1.7e308]"), "argument/random", "high - low is"),
        (("f16", "[3]", "uniform", "[-1e6, 0.0]"), "argument/random", "must be finite in"),
        (("f32", "[3]", "normal", "[0, 1], seed = nan"), "argument/random", "seed = nan"),
        (("f32", "[3]", "uniform", "[0, 1], seed = inf"), "argument/random", "seed = inf"),
        ("x, seed = nan", "argument/random", "seed = nan"),
        (("f32", "[1000000, 1000000]", "normal", "[0, 1]"), "limit/tensor", "1000000, 1000000"),
        (("f32", "[0 - 3]", "normal", "[0, 1]"), "operator/attribute", "negative extent"),
        (("f32", "[1,1,1,1,1,1,1,1,1]", "normal", "[0, 1]"), "limit/rank", "rank 9"),
        ("x, dtype = 1", "argument/multinomial", "dtype = 1"),
        ("x, sample_size = 1000000000000", "limit/tensor", "1000000000000"),
        ("x, sample_size = 0 - 1", "operator/attribute", "negative extent"),
        ("unsqueeze(x, axes = [0])", "argument/multinomial", "rank 2"),
        ("tract_core_cast(x, to = 'i32')", "argument/multinomial", "type int32"),
        ("slice(x, axes = [1], begin = [1], end = [1])", "argument/multinomial", "no class"),
        ("x, seed = 'a'", "operator/attribute", "'a'"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_errors(
    value: str | tuple[str, ...], rule: str, message: str, tmp_path: Path
) -> None:
    if isinstance(value, str):
        value = f"tract_onnx_multinomial({value})"
    else:
        value = f"tract_onnx_random({ARGUMENTS.format(*value)})"
    with pytest.raises(NnefError, match=message) as error:
        compiled(tmp_path, value)(rows(2))
    assert error.value.errors[0].rule == rule
