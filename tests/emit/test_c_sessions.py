"""C programs keep the states of a model from call to call, as sessions in Python do."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc import NnefError
from nnefc.dynamic.dynamic_model import DynamicModel
from nnefc.kernels.embedded.model_layout import ARGUMENT, CAPACITY, INDEX, OK, SHAPE
from tests.helpers.artifacts.c_programs import LIBRARIES, WARNINGS, compile_c, needs_compiler, run
from tests.helpers.command_line import Cli
from tests.helpers.graphs.dynamic_models import model

Array = np.ndarray[Any, Any]

TRANSFORMERS = "extension tract_registry tract_transformers;\n"
DECODER = """graph g(x) -> (y, all) {
  x = tract_core_external(shape = [B, 3, S, 4], datum_type = 'f32');
  k = tract_transformers_dyn_kv_cache(x * 2.0, name = 'keys', axis = 2, datum_type = 'f32');
  v = tract_transformers_dyn_kv_cache(x + 1.0, name = 'values', axis = 2, datum_type = 'f32');
  y = tract_transformers_sdpa(x, k, v, datum_type = 'f32', acc_datum_type = 'f32',
    is_causal = false);
  all = v + 0.0;
}"""
SYMBOLS = "extension tract_symbol B;\nextension tract_symbol S;\n"


class Tensor(ctypes.Structure):
    """A `net_tensor` of the header."""

    _fields_ = (
        ("name", ctypes.c_char * 128),
        ("type", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("items", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("dims", ctypes.c_int64 * 8),
    )


class CSession:
    """A model in the shared library of an emitted folder, called through ctypes."""

    def __init__(self, folder: Path, threads: int = 1) -> None:
        self.library = ctypes.CDLL(str(folder / "libnet.so"))
        self.library.net_create.restype = ctypes.c_void_p
        for name in ("net_input_dims", "net_output_dims"):
            getattr(self.library, name).restype = ctypes.POINTER(ctypes.c_int64)
        self.library.net_state.restype = ctypes.c_void_p
        self.library.net_state_length.restype = ctypes.c_int64
        weights = folder / "net.weights"
        path = str(weights).encode() if weights.exists() else None
        self.net = ctypes.c_void_p(self.library.net_create(path, threads, None))
        assert self.net

    def set_shape(self, *symbols: int) -> int:
        return self.library.net_set_shape(self.net, (ctypes.c_int64 * len(symbols))(*symbols))

    def run(self, inputs: Sequence[Array], dtypes: Sequence[Any]) -> tuple[int, list[Array]]:
        """The status of a call, and the outputs, whose shapes the library tells."""
        outputs = [np.zeros(self.output_dims(i), dtype) for i, dtype in enumerate(dtypes)]
        return self.call([*inputs], outputs), outputs

    def call(self, inputs: list[Array], outputs: list[Array]) -> int:
        taken, given = (
            (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
            for arrays in (inputs, outputs)
        )
        return self.library.net_run(self.net, taken, given)

    def output_dims(self, index: int) -> list[int]:
        rank = (Tensor * (index + 1)).in_dll(self.library, "net_output_info")[index].rank
        return self.library.net_output_dims(self.net, index)[:rank]

    def close(self) -> None:
        self.library.net_destroy(self.net)


def items(generator: np.random.Generator, *shape: int) -> Array:
    return generator.standard_normal(shape).astype(np.float32)


@pytest.fixture
def decoder(tmp_path: Path) -> DynamicModel:
    return model(tmp_path, DECODER, TRANSFORMERS + SYMBOLS)


def attention(x: Array, past: Array) -> Array:
    """The attention of DECODER in float64; past: of all calls."""
    q, k, v = x.astype(float), 2 * past.astype(float), past.astype(float) + 1
    scores = q @ k.swapaxes(2, 3) / 2
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2])
def test_growing_states(decoder: DynamicModel, tmp_path: Path, threads: int) -> None:
    """Prompts and tokens, step by step, against NumPy and a session; then once more after reset."""
    shapes = [{"B": 2, "S": 5}, {"B": 2, "S": 1}]
    decoder.emit_c(tmp_path / "c", name="net", shapes=shapes, state_capacity=24)
    program = CSession(tmp_path / "c", threads)
    generator = np.random.default_rng(1)
    assert program.call([items(generator, 1)], [items(generator, 1)] * 2) == SHAPE
    for _ in range(2):
        session, parts = decoder.session(), list[Array]()
        for length in (5, 1, 1, 4, 1, 5, 1, 1, 5):
            assert program.set_shape(2, length) == OK
            parts.append(items(generator, 2, 3, length, 4))
            past = np.concatenate(parts, axis=2)
            status, (y, every) = program.run(parts[-1:], [np.float32] * 2)
            assert status == OK
            expected = session(parts[-1])
            assert [y.shape, every.shape] == [each.shape for each in expected]
            np.testing.assert_allclose(y, attention(parts[-1], past), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(y, expected[0], rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(every, past + 1)
            lengths = [program.library.net_state_length(program.net, i) for i in range(3)]
            assert lengths == [past.shape[2], past.shape[2], -1]
            address = program.library.net_state(program.net, 1)
            memory = np.ctypeslib.as_array(
                (ctypes.c_float * (2 * 3 * 24 * 4)).from_address(address)
            )
            kept = memory.reshape(2, 3, 24, 4)[:, :, : past.shape[2]]
            np.testing.assert_array_equal(kept, session.states["values"])
        assert past.shape[2] == 24
        # the memory is full: nothing changes until a reset
        assert program.call(parts[-1:], [y, every]) == CAPACITY
        assert program.set_shape(2, 1) == CAPACITY
        assert program.set_shape(3, 1) == SHAPE  # states have memory for B = 2
        assert program.library.net_state_length(program.net, 0) == 24
        program.library.net_reset(program.net)
        assert program.library.net_state_length(program.net, 0) == 0
    program.close()


@needs_compiler
def test_a_shorter_call_fits_where_a_longer_one_does_not(
    decoder: DynamicModel, tmp_path: Path
) -> None:
    shapes = [{"B": 1, "S": 4}, {"B": 1, "S": 1}]
    decoder.emit_c(tmp_path / "c", name="net", shapes=shapes, state_capacity=6)
    program = CSession(tmp_path / "c")
    generator, session = np.random.default_rng(2), decoder.session()
    x = items(generator, 1, 3, 4, 4)
    assert program.set_shape(1, 4) == OK
    assert program.run([x], [np.float32] * 2)[0] == OK
    session(x)
    assert program.call([x], [x, x]) == CAPACITY
    for _ in range(2):
        token = items(generator, 1, 3, 1, 4)
        assert program.set_shape(1, 1) == OK
        status, (y, _) = program.run([token], [np.float32] * 2)
        assert status == OK
        np.testing.assert_allclose(y, session(token)[0], rtol=1e-5, atol=1e-6)
    assert program.call([x], [x, x]) == CAPACITY
    program.close()


TWO = """graph g(x, z) -> (y, w) {
  x = tract_core_external(shape = [S, 4], datum_type = 'f16');
  z = tract_core_external(shape = [3, 2], datum_type = 'i32');
  a = tract_transformers_dyn_kv_cache(x, name = 'first', axis = 0, datum_type = 'f16');
  b = tract_transformers_dyn_kv_cache(z, name = 'second', axis = 1, datum_type = 'i32');
  y = a + tract_core_cast(1.0, to = 'f16');
  w = b * tract_core_cast(2.0, to = 'i32');
}"""


@needs_compiler
def test_states_that_grow_by_other_numbers_of_items(tmp_path: Path) -> None:
    """Equal lengths after a first call must not become one symbol."""
    compiled = model(tmp_path, TWO, TRANSFORMERS + "extension tract_symbol S;\n")
    shapes = [{"S": 2}, {"S": 1}]
    compiled.emit_c(tmp_path / "c", name="net", shapes=shapes, state_capacity=15)
    program, generator = CSession(tmp_path / "c"), np.random.default_rng(6)
    firsts, seconds = list[Array](), list[Array]()
    for length in (2, 1, 1, 2, 1, 2, 1):
        firsts.append(generator.standard_normal((length, 4)).astype(np.float16))
        seconds.append(generator.integers(-9, 9, (3, 2)).astype(np.int32))
        assert program.set_shape(length) == OK
        status, (y, w) = program.run([firsts[-1], seconds[-1]], [np.float16, np.int32])
        assert status == OK
        np.testing.assert_array_equal(y, np.concatenate(firsts) + np.float16(1))
        np.testing.assert_array_equal(w, 2 * np.concatenate(seconds, axis=1))
    assert program.set_shape(1) == CAPACITY  # 14 items of `second`, 10 of `first`
    program.close()


FIXED = """graph g(x, i) -> (y, mean, noise, rows) {
  x = tract_core_external(shape = [3, 4], datum_type = 'f32');
  i = tract_core_external(shape = [1], datum_type = 'i64');
  mean = tract_extra_exp_mean_norm(x, [0.5, 0.0, 0.0, 0.0], axis = 0, alpha = 0.9);
  noise = tract_onnx_random(datum_type = 'f32', shape = [2, 3], dist = 'uniform',
    parameters = [0.0, 1.0], seed = 7);
  all = tract_transformers_dyn_kv_cache(x, name = 'kept', axis = 0, datum_type = 'f32');
  y = sum_reduce(all, axes = [0]);
  rows = tract_core_gather(x, i, axis = 0);
}"""
FIXED_EXTENSIONS = "extension tract_registry tract_extra;\nextension tract_registry tract_onnx;\n"


@needs_compiler
def test_states_of_fixed_shapes(tmp_path: Path) -> None:
    """A running mean, a random generator and a cache; without symbols, no shape has to be set."""
    compiled = model(tmp_path, FIXED, TRANSFORMERS + FIXED_EXTENSIONS)
    compiled.emit_c(tmp_path / "c", name="net", state_capacity=12)
    program, session = CSession(tmp_path / "c"), compiled.session()
    generator, ok = np.random.default_rng(3), np.array([2], np.int64)
    mean, x, found = np.array([0.5, 0, 0, 0]), items(generator, 3, 4), list[Array]()
    for call in range(4):
        wrong = np.array([7], np.int64)  # an error leaves the states as they are
        assert program.run([x, wrong], [np.float32] * 4)[0] == INDEX
        status, found = program.run([x, ok], [np.float32] * 4)
        assert status == OK
        for y, expected in zip(found, session(x, ok), strict=True):
            assert y.shape == expected.shape
            np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
        for row, y in zip(x, found[1], strict=True):
            mean = 0.1 * row + 0.9 * mean
            np.testing.assert_allclose(y, row - mean, rtol=1e-4, atol=1e-5)
        lengths = [program.library.net_state_length(program.net, i) for i in range(4)]
        assert sorted(lengths) == [-1, -1, -1, 3 * call + 3]
        x = items(generator, 3, 4)
    assert program.call([x, ok], found) == CAPACITY
    first = compiled.session()
    program.library.net_reset(program.net)
    status, again = program.run([x, ok], [np.float32] * 4)
    for y, expected in zip(again, first(x, ok), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
    assert program.library.net_state_length(None, 0) == -1
    assert program.library.net_run(program.net, None, None) == ARGUMENT
    program.close()


@needs_compiler
def test_the_example_program(decoder: DynamicModel, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    shapes = [{"B": 2, "S": 5}, {"B": 2, "S": 1}]
    decoder.emit_c(folder, name="net", shapes=shapes, state_capacity=8)
    compile_c(
        "-std=c99", *WARNINGS, folder / "main.c", folder / "net.o", "-o", folder / "p", *LIBRARIES
    )
    x = items(np.random.default_rng(4), 2, 3, 5, 4)
    x.tofile(folder / "x")
    run(folder / "p", "-t", "1", "-s", "2", "-s", "5", folder / "x", folder / "y", folder / "all")
    found = np.fromfile(folder / "y", np.float32).reshape(x.shape)
    np.testing.assert_allclose(found, attention(x, x), rtol=1e-4, atol=1e-5)
    text = (folder / "net.h").read_text()
    assert "/* state keys: float32 [2, 3, 8, 4] */" in text
    assert "NET_CAPACITY" in text


@needs_compiler
@pytest.mark.slow
def test_another_target(decoder: DynamicModel, tmp_path: Path) -> None:
    """Its code is generated in another process, from the document."""
    options: dict[str, Any] = {"name": "net", "target": "x86-64-v2", "state_capacity": 9}
    decoder.emit_c(tmp_path / "c", shapes={"B": 1, "S": 2}, **options)
    program, session = CSession(tmp_path / "c"), decoder.session()
    assert program.set_shape(1, 2) == OK
    for seed in range(4):
        x = items(np.random.default_rng(seed), 1, 3, 2, 4)
        status, (y, _) = program.run([x], [np.float32] * 2)
        assert status == OK
        np.testing.assert_allclose(y, session(x)[0], rtol=1e-5, atol=1e-6)
    program.close()


@needs_compiler
def test_the_least_capacity(decoder: DynamicModel, tmp_path: Path) -> None:
    options: dict[str, Any] = {"name": "net", "shapes": {"B": 1, "S": 5}}
    with pytest.raises(NnefError, match=r"state_capacity=4: a call with x: .* appends 5 items"):
        decoder.emit_c(tmp_path / "c", state_capacity=4, **options)
    decoder.emit_c(tmp_path / "c", state_capacity=5, **options)
    program = CSession(tmp_path / "c")
    x = items(np.random.default_rng(5), 1, 3, 5, 4)
    for _ in range(2):
        assert program.set_shape(1, 5) == OK
        status, (y, _) = program.run([x], [np.float32] * 2)
        assert status == OK
        np.testing.assert_allclose(y, attention(x, x), rtol=1e-4, atol=1e-5)
        assert program.call([x], [y, y]) == CAPACITY
        program.library.net_reset(program.net)
    program.close()


def test_growing_states_need_a_capacity(decoder: DynamicModel, tmp_path: Path) -> None:
    with pytest.raises(NnefError, match=r"append items to the states keys, values") as caught:
        decoder.emit_c(tmp_path / "c", shapes={"B": 1, "S": 2})
    assert "state_capacity=2048" in caught.value.errors[0].hint
    with pytest.raises(NnefError, match="emit_c: operators of this model keep states"):
        decoder.emit_c(tmp_path / "c")
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("capacity", [0, -1, "9", 2.0])
def test_wrong_capacities(decoder: DynamicModel, tmp_path: Path, capacity: Any) -> None:
    with pytest.raises(NnefError, match="expected a number of items"):
        decoder.emit_c(tmp_path / "c", shapes={"B": 1, "S": 2}, state_capacity=capacity)


@pytest.mark.parametrize("capacity", [1 << 40, 1 << 62, 1 << 70])
def test_capacities_that_no_memory_has(
    decoder: DynamicModel, tmp_path: Path, capacity: int
) -> None:
    with pytest.raises(NnefError, match=r"state 'keys' would have .* items, more than") as caught:
        decoder.emit_c(tmp_path / "c", shapes={"B": 1, "S": 2}, state_capacity=capacity)
    assert "state 'values'" in str(caught.value)


def test_a_capacity_needs_growing_states(tmp_path: Path) -> None:
    body = "graph g(x) -> (y) { x = tract_core_external(shape = [S], datum_type = 'f32'); y = -x; }"
    compiled = model(tmp_path, body, "extension tract_symbol S;\n")
    with pytest.raises(NnefError, match="no state of the model grows"):
        compiled.emit_c(tmp_path / "c", shapes={"S": 3}, state_capacity=4)


def test_states_that_change_their_shapes(tmp_path: Path) -> None:
    body = """graph g(x) -> (y) {
      x = tract_core_external(shape = [1, 2, S, 4], datum_type = 'f32');
      y = tract_transformers_window_kv_sdpa(x, x, x, axis = 2, window = 6);
    }"""
    compiled = model(tmp_path, body, TRANSFORMERS + "extension tract_symbol S;\n")
    with pytest.raises(NnefError, match=r"changes from \[1, 2, 4, 4\] to \[1, 2, 6, 4\]"):
        compiled.emit_c(tmp_path / "c", shapes={"S": 4})


@needs_compiler
def test_a_cache_with_a_window(tmp_path: Path) -> None:
    body = """graph g(x) -> (y) {
      x = tract_core_external(shape = [1, 2, 6, 4], datum_type = 'f32');
      y = tract_transformers_window_kv_sdpa(x, x, x, axis = 2, window = 6);
    }"""
    compiled = model(tmp_path, body, TRANSFORMERS)
    compiled.emit_c(tmp_path / "c", name="net")
    program, session = CSession(tmp_path / "c"), compiled.session()
    for seed in range(3):
        x = items(np.random.default_rng(seed), 1, 2, 6, 4)
        status, (y,) = program.run([x], [np.float32])
        assert status == OK
        np.testing.assert_allclose(y, session(x), rtol=1e-5, atol=1e-6)
    program.close()


def test_the_command_line(cli: Cli, tmp_path: Path, decoder: DynamicModel) -> None:
    del decoder
    command = ("compile", tmp_path, "--dynamic", "--symbol", "B=1", "--symbol", "S=4")
    emit = ("--emit", "c", "-o", tmp_path / "c")
    refused = cli(*command, *emit)
    assert refused.status == 1
    assert "--state-capacity 2048" in refused.err
    assert cli(*command, *emit, "--state-capacity", 16).status == 0
    assert "float32 [1, 3, 16, 4]" in (tmp_path / "c" / "g.h").read_text()
    for options, message in (
        ((*command, "-o", tmp_path / "a.nnefc"), "needs --emit"),
        (("compile", tmp_path, *emit[:2], "-o", tmp_path / "d"), "needs --dynamic"),
    ):
        refused = cli(*options, "--state-capacity", 16)
        assert refused.status == 1
        assert message in refused.err
