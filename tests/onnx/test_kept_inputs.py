"""Sessions keep inputs of ONNX decoders, such as key-value caches, from call to call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import DynamicModel, NnefError
from tests.helpers.onnx.models import save, weight
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results
from tests.helpers.onnx.text_models import parsed

DECODER = """(float[B,S,8] x, float[B,2,P,4] past_0_key, float[B,2,P,4] past_0_value)
    => (float[B,S,8] y, float[B,2,T,4] present_0_key, float[B,2,T,4] present_0_value) {
  q = MatMul (x, wq)
  k = MatMul (x, wk)
  v = MatMul (x, wv)
  q4 = Reshape (q, heads)
  k4 = Reshape (k, heads)
  v4 = Reshape (v, heads)
  qt = Transpose <perm = [0, 2, 1, 3]> (q4)
  kt = Transpose <perm = [0, 2, 1, 3]> (k4)
  vt = Transpose <perm = [0, 2, 1, 3]> (v4)
  copied = Concat <axis = 2> (past_0_key)
  present_0_key = Concat <axis = -2> (copied, kt)
  present_0_value = Concat <axis = 2> (past_0_value, vt)
  kk = Transpose <perm = [0, 1, 3, 2]> (present_0_key)
  scores = MatMul (qt, kk)
  weights = Softmax <axis = -1> (scores)
  heads_out = MatMul (weights, present_0_value)
  rows = Transpose <perm = [0, 2, 1, 3]> (heads_out)
  y = Reshape (rows, joined)
}"""
STATES = {"past.*": "present.*"}
Array = np.ndarray[Any, Any]


def decoder() -> Any:
    made = parsed(DECODER, 18)
    for each in (*made.graph.input, *made.graph.output):
        each.name = each.name.replace("_0_", ".0.")
    for each in made.graph.node:
        for names in (each.input, each.output):
            names[:] = [name.replace("_0_", ".0.") for name in names]
    rng = np.random.default_rng(0)
    for name in ("wq", "wk", "wv"):
        made.graph.initializer.append(weight(name, rng.standard_normal((8, 8)).astype(np.float32)))
    made.graph.initializer.append(weight("heads", np.array([0, 0, 2, 4])))
    made.graph.initializer.append(weight("joined", np.array([0, 0, 8])))
    return made


def tokens(seed: int, count: int) -> Array:
    return np.random.default_rng(seed).standard_normal((1, count, 8)).astype(np.float32)


@pytest.fixture
def model(tmp_path: Path) -> DynamicModel:
    made = nnefc.compile(save(decoder(), tmp_path / "net.onnx"))
    assert isinstance(made, DynamicModel)
    return made


def test_a_session_equals_calls_with_caches(model: DynamicModel) -> None:
    made = decoder()
    session, other = model.session(states=STATES), model.session(states=STATES)
    x, cache = tokens(0, 1), [np.zeros((1, 2, 0, 4), np.float32)] * 2
    for step, count in enumerate([5, 1, 1, 3, *[1] * 40]):
        x = tokens(step, count)
        want, *cache = onnxruntime_results(made, [x, *cache])
        np.testing.assert_allclose(session(x), want, rtol=1e-4, atol=1e-5)
    assert session.shapes == {"past.0.key": (1, 2, 50, 4), "past.0.value": (1, 2, 50, 4)}
    np.testing.assert_allclose(session.states["past.0.key"], cache[0], rtol=1e-4, atol=1e-5)
    assert other.shapes == {}
    session.reset()
    first = onnxruntime_results(made, [x, *[np.zeros((1, 2, 0, 4), np.float32)] * 2])[0]
    np.testing.assert_allclose(session(x), first, rtol=1e-4, atol=1e-5)


def test_caches_grow_in_place(model: DynamicModel) -> None:
    session = model.session(states=STATES)
    session(tokens(0, 4))
    session(tokens(1, 1))
    before = session.states["past.0.key"].ctypes.data
    for step in range(8):
        session(tokens(step, 1))
    assert session.states["past.0.key"].ctypes.data == before


def test_first_values_may_be_given(model: DynamicModel) -> None:
    rng = np.random.default_rng(3)
    cache = [rng.standard_normal((1, 2, 7, 4)).astype(np.float32) for _ in range(2)]
    session = model.session(states=STATES)
    session.states.update({"past.0.key": cache[0], "past.0.value": cache[1]})
    x = tokens(9, 2)
    want = onnxruntime_results(decoder(), [x, *cache])[0]
    np.testing.assert_allclose(session(x), want, rtol=1e-4, atol=1e-5)
    session.states.update({f"past.0.{n}": cache[0].astype(np.float64) for n in ("key", "value")})
    with pytest.raises(NnefError, match=r"state 'past\.0\.key' is float64, expected float32"):
        session(x)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"cache.*": "present.*"}, r"no input has such a name\b"),
        ({"past.*": "next.*"}, r"there is no output 'next\.0\.key'"),
        ({"past.*.*": "present.*.*"}, r"both names have one \*, or none"),
        ({"past.*": "present.0.key"}, r"both names have one \*, or none"),
        ({"past.*": "present.*", "past.0.key": "present.0.key"}, r"is in another pair"),
        ({"x": "present.0.key"}, r"'present\.0\.key' is float32 of rank 4, but input 'x'"),
    ],
)
def test_wrong_pairs(model: DynamicModel, states: dict[str, str], message: str) -> None:
    with pytest.raises(NnefError, match=message):
        model.session(states=states)


def test_other_results_are_stored(tmp_path: Path) -> None:
    text = """(float[N] x, float[N] sum) => (float[N] y, float[N] next) {
      next = Add (sum, x)
      y = Neg (next)
    }"""
    made = nnefc.compile(save(parsed(text), tmp_path / "net.onnx"))
    assert isinstance(made, DynamicModel)
    session = made.session(states={"sum": "next"})
    x = np.arange(3, dtype=np.float32)
    with pytest.raises(NnefError, match=r"session\.states\['sum'\] = array"):
        session(x)
    session.states["sum"] = np.zeros(3, np.float32)
    for turn in range(1, 4):
        np.testing.assert_array_equal(session(x), -turn * x)
    np.testing.assert_array_equal(session.states["sum"], 3 * x)
    tract = Path(tmp_path / "graph.nnef")
    tract.write_text(
        "version 1.0;\nextension tract_registry tract_core;\nextension tract_symbol S;\n"
        "graph g(x) -> (y) { x = tract_core_external(shape = [S], datum_type = 'f32'); "
        "y = neg(x); }"
    )
    other: Any = nnefc.compile(tract)
    with pytest.raises(NnefError, match="only ONNX models have inputs that sessions keep"):
        other.session(states={"x": "y"})


GROUPED = """(float[B,S,64] q, float[B,S,32] k, float[B,S,32] v, int64[B,T] mask,
      float[B,2,P,16] past_key, float[B,2,P,16] past_value, float[64,8] cos, float[64,8] sin)
    => (float[B,S,64] y, float[B,2,N,16] present_key, float[B,2,N,16] present_value) {
  one = Constant <value_int = 1> ()
  axis = Constant <value_ints = [1]> ()
  counts = ReduceSum <keepdims = 0> (mask, axis)
  last = Sub (counts, one)
  lengths = Cast <to = 6> (last)
  shape = Shape (mask)
  whole = Gather (shape, one)
  total = Cast <to = 6> (whole)
  y, present_key, present_value = com.microsoft.GroupQueryAttention
    <num_heads = 4, kv_num_heads = 2, do_rotary = 1>
    (q, k, v, past_key, past_value, lengths, total, cos, sin)
}"""
GROUPED_STATES = {"past_*": "present_*"}


def grouped(text: str = GROUPED) -> Any:
    """The decoder that the builder of onnxruntime-genai writes."""
    made = parsed(text, 18)
    made.opset_import.add(domain="com.microsoft", version=1)
    return made


@pytest.mark.parametrize("total", ["of a mask", "as an input"])
def test_caches_of_grouped_queries_grow_in_place(tmp_path: Path, total: str) -> None:
    made = grouped()
    if total == "as an input":
        text = GROUPED.replace("sin)\n    =>", "sin, int32 count)\n    =>")
        made = grouped(text.replace("lengths, total,", "lengths, count,"))
    net = nnefc.compile(save(made, tmp_path / "net.onnx"))
    assert isinstance(net, DynamicModel)
    session = net.session(states=GROUPED_STATES)
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((64, 8)).astype(np.float32) for _ in range(2)]
    cache, items, addresses = [np.zeros((1, 2, 0, 16), np.float32)] * 2, 0, set[int]()
    for count in [5, 1, 1, 3, *[1] * 8]:
        items += count
        new: list[Array] = [
            rng.standard_normal((1, count, n)).astype(np.float32) for n in (64, 32, 32)
        ]
        new.append(np.ones((1, items), np.int64))
        more = [np.array(items, np.int32)] if total == "as an input" else []
        want, *cache = onnxruntime_results(made, [*new, *cache, *tables, *more])
        y = session(*new, *tables, *more)
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
        addresses.add(session.states["past_key"].ctypes.data)
    np.testing.assert_allclose(session.states["past_value"], cache[1], rtol=1e-4, atol=1e-5)
    assert session.shapes["past_key"] == (1, 2, items, 16)
    assert len(addresses) <= 3
    assert net.plans <= 12


def with_codes(item_type: str) -> Any:
    """The decoder with caches of codes in 8 bits."""
    text = GROUPED.replace("float[B,2,P,16]", f"{item_type}[B,2,P,16]")
    text = text.replace("float[B,2,N,16]", f"{item_type}[B,2,N,16]")
    text = text.replace("sin)\n}", "sin, , , , scale, scale)\n}")
    text = text.replace("sin)\n    =>", "sin, float[1] scale)\n    =>")
    kinds = 'k_quant_type = "PER_TENSOR", v_quant_type = "PER_TENSOR", kv_cache_bit_width = 8>'
    return grouped(text.replace("do_rotary = 1>", "do_rotary = 1, " + kinds))


@pytest.mark.parametrize("item_type", ["int8", "float8e4m3fn"])
def test_caches_of_codes_grow_in_place(tmp_path: Path, item_type: str) -> None:
    made = with_codes(item_type)
    net = nnefc.compile(save(made, tmp_path / "net.onnx"))
    assert isinstance(net, DynamicModel)
    session = net.session(states=GROUPED_STATES)
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((64, 8)).astype(np.float32) for _ in range(2)]
    dtype = np.int8 if item_type == "int8" else np.uint8
    cache, items, addresses = [np.zeros((1, 2, 0, 16), dtype)] * 2, 0, set[int]()
    for count in [5, 1, 1, 3, *[1] * 4]:
        items += count
        new: list[Array] = [
            rng.standard_normal((1, count, n)).astype(np.float32) for n in (64, 32, 32)
        ]
        new.append(np.ones((1, items), np.int64))
        given = [*new, *cache, *tables, np.array([0.05], np.float32)]
        # onnxruntime has float8 on GPUs only; the model is compared in test_group_query_attention
        want, *cache = onnxruntime_results(made, given) if item_type == "int8" else net(*given)
        y = session(*new, *given[6:])
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
        addresses.add(session.states["past_key"].ctypes.data)
    np.testing.assert_array_equal(session.states["past_value"], cache[1])
    assert len(addresses) <= 3


def test_caches_of_a_window_are_stored(tmp_path: Path) -> None:
    text = GROUPED.replace("do_rotary = 1>", "do_rotary = 1, local_window_size = 4, "
                           "sliding_window_cache = 1>")  # fmt: skip
    made = grouped(text)
    net = nnefc.compile(save(made, tmp_path / "net.onnx"))
    assert isinstance(net, DynamicModel)
    session = net.session(states=GROUPED_STATES)
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((64, 8)).astype(np.float32) for _ in range(2)]
    cache, items = [np.zeros((1, 2, 6, 16), np.float32)] * 2, 0
    session.states.update({"past_key": cache[0], "past_value": cache[1]})
    for count in [5, 1, 1, 3, 1]:
        items += count
        new: list[Array] = [
            rng.standard_normal((1, count, n)).astype(np.float32) for n in (64, 32, 32)
        ]
        new.append(np.ones((1, items), np.int64))
        want, *cache = onnxruntime_results(made, [*new, *cache, *tables])
        np.testing.assert_allclose(session(*new, *tables), want, rtol=1e-4, atol=1e-5)
    assert session.shapes["past_key"] == (1, 2, 6, 16)


def test_kept_caches_of_grouped_queries_have_one_sample_and_no_room(tmp_path: Path) -> None:
    net = nnefc.compile(save(grouped(), tmp_path / "net.onnx"))
    assert isinstance(net, DynamicModel)
    for batch, items in ((2, 7), (1, 9)):
        session = net.session(states=GROUPED_STATES)
        for state in ("past_key", "past_value"):
            session.states[state] = np.zeros((batch, 2, 6, 16), np.float32)
        new = [np.zeros((batch, 1, n), np.float32) for n in (64, 32, 32)]
        mask, table = np.ones((batch, items), np.int64), np.zeros((64, 8), np.float32)
        with pytest.raises(NnefError, match=r"'past_key', which has 6 items along axis 2, and new"):
            session(*new, mask, table, table)


MERGED = """(float[B,S,8] x, float[B,2,P,4] past_key, float[B,2,E,4] past_encoded, bool[1] has_past)
    => (float[B,S,8] y, float[B,2,T,4] present_key, float[B,2,F,4] present_encoded) {
  y, present_key, present_encoded = If (has_past) <
    then_branch = tokens () => (float[B,S,8] y1, float[B,2,T,4] k1, float[B,2,F,4] e1) {
      h1 = Reshape (x, heads)
      n1 = Transpose <perm = [0, 2, 1, 3]> (h1)
      k1 = Concat <axis = 2> (past_key, n1)
      keys = ReduceSum <keepdims = 0> (k1)
      y1 = Add (x, keys)
      e1 = Identity (past_encoded)
    },
    else_branch = prompt () => (float[B,S,8] y2, float[B,2,T,4] k2, float[B,2,F,4] e2) {
      h2 = Reshape (x, heads)
      k2 = Transpose <perm = [0, 2, 1, 3]> (h2)
      y2 = Neg (x)
      e2 = Mul (k2, k2)
    }
  >
}"""


def test_caches_of_a_decoder_with_a_branch_for_prompts(tmp_path: Path) -> None:
    """As Optimum writes it."""
    made = parsed(MERGED, 18)
    made.graph.initializer.append(weight("heads", np.array([0, 0, 2, 4])))
    net = nnefc.compile(save(made, tmp_path / "net.onnx"))
    assert isinstance(net, DynamicModel)
    session = net.session(states={"past_*": "present_*"})
    cache = [np.zeros((1, 2, 0, 4), np.float32)] * 2
    session.states["past_encoded"] = cache[1]
    addresses = set[int]()
    for step, count in enumerate([4, *[1] * 12]):
        x, has_past = tokens(step, count), np.array([step > 0])
        want, *cache = onnxruntime_results(made, [x, *cache, has_past])
        np.testing.assert_allclose(session(x, has_past), want, rtol=1e-4, atol=1e-5)
        addresses.add(session.states["past_key"].ctypes.data)
    assert session.shapes == {"past_key": (1, 2, 16, 4), "past_encoded": (1, 2, 4, 4)}
    np.testing.assert_allclose(session.states["past_key"], cache[0], rtol=1e-4, atol=1e-5)
    assert len(addresses) <= 3  # it grows in place
    with pytest.raises(NnefError, match=r"'past_key', which has 16 items(.|\n)*session\.reset\(\)"):
        session(tokens(0, 4), np.array([False]))
