"""Plans that are computed of patterns: as good as those that are made for their shapes."""

# pyright: reportUnknownMemberType=false
# (torch is typed in part)

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import nnefc
from nnefc.dynamic.model import DynamicModel
from nnefc.dynamic.plan_cache import RESPECIALIZE_AFTER
from nnefc.ir import Op
from nnefc.passes.machine.split_batch import SplitBatch
from nnefc.support.errors import NnefError
from tests.helpers.examples import examples

Array = np.ndarray[Any, Any]
HEAD = """version 1.0;
extension tract_registry tract_core;
extension tract_registry tract_transformers;
extension tract_symbol B;
extension tract_symbol S;
extension tract_symbol T;
"""
W = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)

MOVES = """graph g(x) -> (y, z) {
  x = tract_core_external(shape = [B, S, 6], datum_type = 'f32');
  n = tract_core_shape_of(x);
  rows = n[1];
  half = rows / 2;
  first = tract_core_dyn_slice(x, 0, half, len = half, axis = 1);
  last = slice(x, axes = [1], begin = [half], end = [rows], stride = [1]);
  turned = concat([last, first], axis = 1);
  flat = reshape(turned, shape = [n[0] * rows, 6]);
  y = transpose(reshape(flat, shape = [n[0], rows, 2, 3]), axes = [0, 2, 1, 3]);
  z = tract_core_broadcast(mean_reduce(x, axes = [1]), shape = [n[0], rows, 6]);
}"""


def moves(x: Array) -> list[Array]:
    half = x.shape[1] // 2
    turned = np.concatenate([x[:, half:], x[:, :half]], 1)
    y = turned.reshape(*x.shape[:2], 2, 3).transpose(0, 2, 1, 3)
    return [y, np.broadcast_to(x.mean(1, keepdims=True, dtype=np.float64), x.shape)]


NUMBERS = """graph g(x) -> (y, z, v) {
  x = tract_core_external(shape = [B, S, 6], datum_type = 'f32');
  n = tract_core_shape_of(x);
  places = tract_core_cast(tract_core_range(0, n[1], 1), to = 'f32');
  y = add(x, reshape(places, shape = [1, n[1], 1]));
  from_it = tract_core_cast(tract_core_range(n[1], n[1] + 3, 1), to = 'f32');
  z = mul(sum_reduce(x, axes = [1, 2]), reshape(from_it, shape = [1, 1, 3]));
  v = tract_core_trilu(tract_core_broadcast([[[1.0]]], shape = [n[0], n[1], n[1]]), 0, false);
}"""


def numbers(x: Array) -> list[Array]:
    b, s, _ = x.shape
    places = np.arange(s + 3, dtype=np.int64)
    y = x + places[:s, None]
    z = x.sum((1, 2), keepdims=True, dtype=np.float64) * places[s:]
    return [y, z, np.broadcast_to(np.tril(np.ones((s, s))), (b, s, s))]


PRODUCTS = """graph g(x) -> (y, z, v) {
  x = tract_core_external(shape = [B, S, 6], datum_type = 'f32');
  w = variable<scalar>(label = 'w', shape = [6, 8]);
  h = tanh(matmul(x, unsqueeze(w, axes = [0])));
  scores = matmul(h, h, transposeB = true);
  y = matmul(softmax(scores, axes = [2]), h);
  z = scores;
  v = tract_transformers_sdpa(h, h, h, is_causal = true);
}"""


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def products(x: Array) -> list[Array]:
    h = np.tanh(x.astype(np.float64) @ W.astype(np.float64))
    scores = h @ h.swapaxes(1, 2)
    hidden = np.triu(np.full(scores.shape[1:], -np.inf), 1)
    causal = softmax(scores / np.sqrt(8) + hidden) @ h
    return [softmax(scores) @ h, scores, causal]


TWO = """graph g(x, t) -> (y, m) {
  x = tract_core_external(shape = [B, S, 6], datum_type = 'f32');
  t = tract_core_external(shape = [B, T, 6], datum_type = 'f32');
  y = concat([x, t], axis = 1);
  m = matmul(x, t, transposeB = true);
}"""


def two(x: Array, t: Array) -> list[Array]:
    return [np.concatenate([x, t], 1), x.astype(np.float64) @ t.swapaxes(1, 2).astype(np.float64)]


def compiled(folder: Path, body: str) -> DynamicModel:
    nnefc.write_tensor(folder / "w.dat", W)
    (folder / "graph.nnef").write_text(HEAD + body)
    found = nnefc.compile(folder, threads=1)
    assert isinstance(found, DynamicModel)
    return found


def items(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def compare(found: Any, expected: list[Array]) -> None:
    for y, wanted in zip(found, expected, strict=True):
        assert y.shape == wanted.shape
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)


LENGTHS = st.integers(1, 40)


@pytest.mark.parametrize(
    ("body", "formula"),
    [(MOVES, moves), (NUMBERS, numbers), (PRODUCTS, products)],
    ids=["moves", "numbers", "products"],
)
def test_results_are_right_for_every_length(
    body: str, formula: Callable[..., list[Array]], tmp_path: Path
) -> None:
    model = compiled(tmp_path, body)

    @examples(0.25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.integers(1, 3), st.integers(2, 40))
    def check(batch: int, length: int) -> None:
        x = items(batch, length, 6)
        compare(model(x), formula(x))

    check()


def test_symbols_of_several_inputs(tmp_path: Path) -> None:
    model = compiled(tmp_path, TWO)

    @examples(0.25)
    @given(st.integers(1, 3), LENGTHS, LENGTHS)
    def check(batch: int, length: int, other: int) -> None:
        x, t = items(batch, length, 6), items(batch, other, 6)
        compare(model(x, t), two(x, t))

    check()
    assert model._plans.patterns  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("body", [MOVES, NUMBERS, PRODUCTS], ids=["moves", "numbers", "products"])
def test_lengths_of_one_size_have_one_pattern(body: str, tmp_path: Path) -> None:
    model = compiled(tmp_path, body)
    for length in range(33, 64, 3):
        model(items(1, length, 6))
    assert model.plans == 11
    assert model._plans.patterns <= 2  # pyright: ignore[reportPrivateUsage]
    assert model._plans.patterns  # pyright: ignore[reportPrivateUsage]


CACHE = """graph g(x) -> (y) {
  x = tract_core_external(shape = [1, S, 6], datum_type = 'f32');
  kept = tract_transformers_dyn_kv_cache(x, name = 'kept', axis = 1, datum_type = 'f32',
    past_sequence_shape = [1, T, 6], input_sequence_shape = [1, S, 6]);
  y = tract_transformers_sdpa(x, kept, kept);
}"""


def test_a_growing_cache_has_few_patterns(tmp_path: Path) -> None:
    model = compiled(tmp_path, CACHE)
    session = model.session()
    every = items(1, 60, 6)
    begin = 0
    for end in (5, *range(6, 61)):
        x = every[:, begin:end]
        past = every[:, :end].astype(np.float64)
        expected = softmax(x @ past.swapaxes(1, 2) / np.sqrt(6)) @ past
        np.testing.assert_allclose(session(x), expected, rtol=1e-4, atol=1e-5)
        begin = end
    assert model._plans.patterns <= 10  # pyright: ignore[reportPrivateUsage]


def test_the_kernels_of_a_few_lengths_do_for_all(tmp_path: Path) -> None:
    """Also where a mask of all that came before is the same for several rows."""
    body = """graph g(m, x) -> (y, t) {
      m = tract_core_external(shape = [1, 1, P], datum_type = 'bool');
      x = tract_core_external(shape = [1, 4, P], datum_type = 'f32');
      y = softmax(select(m, x * 2.0, -10000.0), axes = [2]);
      t = select(m, x, y);
    }"""
    model = compiled(tmp_path, body.replace("P]", "S]"))
    known: set[str] = set()
    for length in (1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 63, 64, 65, 128, 300):
        launches = model.plan_for([(1, 1, length), (1, 4, length)], {}).launches
        kernels = {launch.kernel for launch in launches}
        assert length < 3 or kernels <= known, length
        known |= kernels
    assert model._plans.patterns <= 5  # pyright: ignore[reportPrivateUsage]


def test_a_growing_cache_is_read_where_it_lies(tmp_path: Path) -> None:
    model = compiled(tmp_path, CACHE)
    session = model.session()
    for _ in range(4):
        session(items(1, 1, 6))
    plan = model.plan_for([(1, 1, 6)], session.shapes)
    labels = [launch.label.split()[0] for launch in plan.launches]
    assert "attention" in labels
    assert "concat" not in labels


def test_a_batch_is_cut_when_its_shapes_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All batches have few patterns until then, which leave it out."""

    def always(
        _: SplitBatch, steps: list[Op], rows: Any, apart: list[bool], batch: int
    ) -> list[int]:
        return [1 if each else batch for each in apart]

    monkeypatch.setattr(SplitBatch, "_choose", always)
    body = """graph g(x) -> (y) {
      x = tract_core_external(shape = [B, S, 6], datum_type = 'f32');
      y = softmax(tanh(x), axes = [2]);
    }"""
    model = compiled(tmp_path, body)
    times: dict[int, list[int]] = {}
    for batch in [7, *[5, 6] * (RESPECIALIZE_AFTER + 1)]:
        x = items(batch, 9, 6)
        np.testing.assert_allclose(model(x), softmax(np.tanh(x.astype(np.float64))), rtol=1e-5)
        plan = model.plan_for([x.shape], {})
        times.setdefault(batch, []).append(max(launch.times for launch in plan.launches))
    assert model._plans.patterns <= 2  # pyright: ignore[reportPrivateUsage]
    assert times[7] == [1]
    for batch in (5, 6):
        assert times[batch][: RESPECIALIZE_AFTER // 2] == [1] * (RESPECIALIZE_AFTER // 2)
        assert times[batch][-1] == batch


def test_errors_have_plain_numbers(tmp_path: Path) -> None:
    body = MOVES.replace("shape = [n[0] * rows, 6]", "shape = [n[0] * rows, 5]")
    model = compiled(tmp_path, body)
    with pytest.raises(nnefc.NnefError, match=r"\[2, 7, 6\] cannot be reshaped to \[14, 5\]"):
        model(items(2, 7, 6))


MASKED = """graph g(x, past) -> (y) {
  x = tract_core_external(shape = [1, S, 6], datum_type = 'f32');
  past = tract_core_external(shape = [1, T, 6], datum_type = 'f32');
  k = concat([past, x], axis = 1);
  n = tract_core_shape_of(past)[1];
  every = n + tract_core_shape_of(x)[1];
  columns = unsqueeze(tract_core_range(0, every, 1), axes = [0]);
  rows = unsqueeze(tract_core_range(n, every, 1), axes = [1]);
  y = tract_transformers_sdpa(x, k, k, MASK);
}"""


@pytest.mark.parametrize(
    "mask",
    [
        "le(columns, rows)",
        "ge(rows, columns)",
        "not(gt(columns, rows))",
        "lt(columns, rows + 1)",
        "select(gt(columns, rows), -1e38, 0.0)",
    ],
)
def test_causal_masks_of_any_length_are_not_computed(mask: str, tmp_path: Path) -> None:
    model = compiled(tmp_path, MASKED.replace("MASK", mask))
    for count, before in ((40, 33), (50, 60), (1, 17), (1, 30), (63, 32)):
        x, past = items(1, count, 6), items(1, before, 6)
        k = np.concatenate([past, x], 1).astype(np.float64)
        hidden = np.arange(before + count) > np.arange(before, before + count)[:, None]
        expected = softmax(np.where(hidden, -np.inf, x @ k.swapaxes(1, 2) / np.sqrt(6))) @ k
        np.testing.assert_allclose(model(x, past), expected, rtol=1e-4, atol=1e-5)
    assert 0 < model._plans.patterns < 5  # pyright: ignore[reportPrivateUsage]
    plan = model.plan_for([(1, 40, 6), (1, 34, 6)], {})
    assert [launch.kernel for launch in plan.launches if "iota_tri" in launch.kernel] == []


def one(statements: str) -> str:
    return f"""graph g(x) -> (y) {{
      x = tract_core_external(shape = [B, S], datum_type = 'f32');
      s = tract_core_shape_of(x)[1];
      {statements}
    }}"""


FOLDED = """
  b = tract_core_shape_of(x)[0];
  places = reshape(tract_core_range(0, b * s, 1), shape = [b, s]);
  y = select(le(places, unsqueeze(tract_core_range(0, s, 1), axes = [0])), 0.0, x);
"""
END = "y = slice(x, axes = [1], begin = [0], end = [shape_of(x)[1] - 33], stride = [1]);"
VALUE = "y = mul(x, tract_core_cast(s, to = 'f32'));"


def folded(x: Array) -> Array:
    rows, columns = x.shape
    places = np.arange(rows * columns, dtype=np.int64).reshape((rows, columns))
    return np.where(places <= np.arange(columns, dtype=np.int64), 0.0, x)


def ended(x: Array) -> Array:
    return x if x.shape[1] == 33 else x[:, : x.shape[1] - 33]


def scaled(x: Array) -> Array:
    return x * x.shape[1]


@pytest.mark.parametrize(
    ("statements", "formula"),
    [
        (FOLDED, folded),
        (END, ended),
        (VALUE, scaled),
    ],
    ids=["folded", "end", "value"],
)
def test_extents_in_places_of_numbers(
    statements: str, formula: Callable[[Array], Array], tmp_path: Path
) -> None:
    model = compiled(tmp_path, one(statements))
    for length in (40, 33, 50, 34):
        x = items(2, length)
        y = model(x)
        np.testing.assert_allclose(y, formula(x), rtol=1e-5)
        np.testing.assert_array_equal(y, model.for_shapes({"x": (2, length)})(x))
    assert model._plans.patterns  # pyright: ignore[reportPrivateUsage]


def test_calls_that_are_wrong_do_not_count(tmp_path: Path) -> None:
    model = compiled(tmp_path, one("y = reshape(x, shape = [2, s / 2, -1]);"))
    for length in (5, 7, 9):
        with pytest.raises(nnefc.NnefError, match="reshape"):
            model(items(1, length))
    for length in (40, 44):
        x = items(1, length)
        np.testing.assert_array_equal(model(x), x.reshape(2, length // 2, -1))
    assert model._plans.patterns == 1  # pyright: ignore[reportPrivateUsage]


HALVES = """graph g(x) -> (y) {
  x = tract_core_external(shape = [1, 2, S, 8], datum_type = 'f32');
  parts = split(x, axis = 1, ratios = [1, 1]);
  y = concat([exp(parts[0]), mul(exp(parts[1]), 2.0)], axis = 1);
}"""


def test_parts_whose_places_depend_on_symbols(tmp_path: Path) -> None:
    body = HALVES.replace("parts = split", "(a, b) = split").replace("parts[0]", "a")
    model = compiled(tmp_path, body.replace("parts[1]", "b"))
    for length in (40, 41, 63):
        x = items(1, 2, length, 8)
        expected = np.exp(x) * np.array([1.0, 2.0])[:, None, None]
        np.testing.assert_allclose(model(x), expected, rtol=1e-5)
    assert model._plans.patterns == 1  # pyright: ignore[reportPrivateUsage]


TURNED = """graph g(x) -> (y) {
  x = tract_core_external(shape = [B, S, 8], datum_type = 'f32');
  turned = slice(x, axes = [2], begin = [0], end = [8], stride = [1]);
  rest = slice(x, axes = [2], begin = [8], end = [9], stride = [1]);
  heads = transpose(unsqueeze(mul(rest, 2.0), axes = [1]), axes = [0, 2, 1, 3]);
  y = concat([exp(turned), squeeze(heads, axes = [2])], axis = 2);
}"""


def test_parts_without_items(tmp_path: Path) -> None:
    """As of channels that rotary positions leave as they are, if that are none."""
    model = compiled(tmp_path, TURNED)
    for length in (40, 41, 63):
        x = items(2, length, 8)
        np.testing.assert_allclose(model(x), np.exp(x), rtol=1e-5)
    assert model._plans.patterns == 1  # pyright: ignore[reportPrivateUsage]


OF_LENGTHS = {
    "mask": """
      at = tract_core_range(0, s, 1);
      later = gt(reshape(at, shape = [1, s]), reshape(at, shape = [s, 1]));
      y = add(matmul(x, x, transposeA = true), select(later, -1000.0, 0.0));""",
    "places": """
      at = tract_core_cast(tract_core_range(0, s, 1), to = 'f32');
      y = add(x, reshape(at, [1, s]));""",
    "number": "y = mul(x, rsqrt(tract_core_cast(s, to = 'f32')));",
    "repeated": "y = add(x, tract_core_broadcast([[1.5]], shape = [1, s]));",
    "extents": """
      at = reshape(tract_core_range(0, s, 1), [1, s]);
      y = add(tract_core_cast(x, to = 'i32'), at);""",
    "integers": """
      at = reshape(tract_core_range(0, s, 1), [1, s]);
      y = add(tract_core_cast(at, to = 'i64'), add(tract_core_cast(x, to = 'i32'), at));""",
}


@pytest.mark.parametrize("what", OF_LENGTHS)
def test_what_is_computed_of_lengths_becomes_of_the_type_of_tensors(
    what: str, tmp_path: Path
) -> None:
    """Whether it is known when the model is read or computed when it runs, as if it is large."""
    model = compiled(tmp_path, one(OF_LENGTHS[what]).replace("'f32')", "'f16')", 1))
    for length in (40, 300):
        x = items(1, length).astype(np.float16)
        y, exact = model(x), model.for_shapes({"x": x.shape})(x)
        assert y.dtype == exact.dtype == (np.int32 if "i32" in OF_LENGTHS[what] else np.float16)
        np.testing.assert_allclose(y, exact, rtol=2e-3)
    assert model._plans.patterns  # pyright: ignore[reportPrivateUsage]


IMAGES = """graph g(x) -> (y) {
  x = tract_core_external(shape = [B, 16, 7, 4], datum_type = 'f32');
  f = variable<scalar>(label = 'f', shape = [12, 16, 3, 3]);
  g = variable<scalar>(label = 'g', shape = [12, 12, 3, 3]);
  a = relu(conv(x, f, 0.0, padding = [(1, 1), (1, 1)], border = 'constant'));
  b = max_pool(a, size = [1, 1, 2, 2], stride = [1, 1, 2, 2], border = 'ignore',
    padding = [(0, 0), (0, 0), (0, 0), (0, 0)]);
  y = relu(conv(b, g, 0.0, padding = [(1, 1), (1, 1)], border = 'constant'));
}"""


def test_convolutions_of_any_batch(tmp_path: Path) -> None:
    """Tables say what follows sums, as where channels are filled up."""
    f, g = (items(12, channels, 3, 3) for channels in (16, 12))
    for name, filters in (("f", f), ("g", g)):
        nnefc.write_tensor(tmp_path / f"{name}.dat", filters)
    model = compiled(tmp_path, IMAGES)
    for batch in (3, 2, 1, 9, 15, 10):
        x = items(batch, 16, 7, 4)
        wide = torch.from_numpy(x).double()
        a = F.conv2d(wide, torch.from_numpy(f).double(), padding=1).relu()
        b = F.conv2d(F.max_pool2d(a, 2), torch.from_numpy(g).double(), padding=1)
        wanted = b.relu().numpy()
        np.testing.assert_allclose(model(x), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    assert model._plans.patterns  # pyright: ignore[reportPrivateUsage]


CHANNELS = """graph g(x) -> (y) {
  x = tract_core_external(shape = [1, 12, S], datum_type = 'f32');
  y = matmul(softmax(matmul(x, x, transposeB = true), axes = [2]), x);
}"""


def test_attention_of_channels_that_are_of_any_width(tmp_path: Path) -> None:
    model = compiled(tmp_path, CHANNELS)
    for width in (40, 17, 16, 63, 64, 130):
        x = items(1, 12, width) / 4
        wide = x.astype(np.float64)
        compare([model(x)], [softmax(wide @ wide.swapaxes(1, 2)) @ wide])
    assert 0 < model._plans.patterns < 4  # pyright: ignore[reportPrivateUsage]


INTEGERS = """\
graph net( x ) -> ( y )
{
    x = tract_core_external(shape = [B, S, 6], datum_type = 'f32');
    n = tract_core_shape_of(x)[1];
    r = tract_core_range(0, n, 1);
    y = VALUE;
}
"""


@pytest.mark.parametrize(
    "value", ["div(10, r)", "div(r + 1, tract_core_cast(n - 5, to = 'i32'))", "pow(3, 20 * n)"]
)
def test_what_only_plain_numbers_tell_of_integers(value: str, tmp_path: Path) -> None:
    model = compiled(tmp_path, INTEGERS.replace("VALUE", value))
    for length in (3, 4, 5):
        try:
            expected = model.for_shapes({"x": (1, length, 6)})(items(1, length, 6))
        except NnefError as error:
            with pytest.raises(NnefError) as caught:
                model(items(1, length, 6))
            assert caught.value.errors == error.errors
            assert "divided by zero" in str(error)
        else:
            np.testing.assert_array_equal(model(items(1, length, 6)), expected)


@pytest.mark.parametrize("wanted", [[0, 2, 1], [0, -1, 1]])
def test_items_at_known_places_of_an_axis_that_varies(tmp_path: Path, wanted: list[int]) -> None:
    body = f"""graph g(x) -> (y) {{
      x = tract_core_external(shape = [B, S, 6], datum_type = 'f32');
      places = tract_core_cast([{", ".join(map(str, wanted))}], to = 'i64');
      y = tract_core_gather(x, places, axis = 1);
    }}"""
    model = compiled(tmp_path, body)
    for length in (20, 21, 9, 30):
        x = items(2, length, 6)
        np.testing.assert_array_equal(model(x), x[:, wanted])
    assert 0 < model._plans.patterns <= 2  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(NnefError, match="is outside an extent of 1"):
        model(items(2, 1, 6))
