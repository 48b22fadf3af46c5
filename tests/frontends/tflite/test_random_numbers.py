"""Random numbers, compared with LiteRT over several calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.support.errors import NnefError
from nnefc.tflite import Interpreter
from tests.helpers.tflite.one_operator import (
    Array,
    Case,
    Constant,
    content_of,
    litert_results,
    source_of,
)
from tests.helpers.tflite.write import model, operator, operator_code, subgraph, tensor, write

RNG = np.random.default_rng(7)
SEEDS = (-3, (1 << 40) + 7)
"""LiteRT takes the lower 32 bits with their sign."""


NO_INPUTS: list[list[Array]] = [[], [], []]


def drawn(name: str, shape: tuple[int, ...], seed: int, seed2: int) -> Case:
    inputs = [Constant(np.array(shape, np.int32))]
    options = {"seed": seed, "seed2": seed2}
    return Case(name, inputs, [(shape, "FLOAT32")], "RandomOptions", options)


def classes(type_: str, logits: Array, samples: int) -> Case:
    inputs = [logits, Constant(np.array(samples, np.int32))]
    outputs = [((logits.shape[0], samples), type_)]
    return Case("MULTINOMIAL", inputs, outputs, "RandomOptions", {"seed": 3, "seed2": 4})


def compiled(path: Path, content: bytes) -> Any:
    (path / "net.tflite").write_bytes(content)
    return nnefc.compile(path / "net.tflite", keep=False)


@pytest.mark.parametrize(("seed", "seed2"), [(1, 2), SEEDS])
def test_uniform_numbers_are_those_of_litert(seed: int, seed2: int, tmp_path: Path) -> None:
    content = content_of(drawn("RANDOM_UNIFORM", (2, 3), seed, seed2))
    net = compiled(tmp_path, content)
    first, second = net.session(), net.session()
    for (expected,) in litert_results(content, NO_INPUTS):
        np.testing.assert_array_equal(first(), expected)
        np.testing.assert_array_equal(second(), expected)
        np.testing.assert_array_equal(net(), expected)


def test_normal_numbers_differ_in_the_last_places(tmp_path: Path) -> None:
    content = content_of(drawn("RANDOM_STANDARD_NORMAL", (41, 7), *SEEDS))
    session = compiled(tmp_path, content).session()
    for (expected,) in litert_results(content, NO_INPUTS):
        np.testing.assert_allclose(session(), expected, rtol=5e-7)


@pytest.mark.parametrize("type_", ["INT32", "INT64"])
def test_classes_are_those_of_litert(type_: str, tmp_path: Path) -> None:
    """Infinite logits are never drawn."""
    calls = [[(3 * RNG.standard_normal((3, 7))).astype(np.float32)] for _ in range(3)]
    calls[1][0][0, :2] = -np.inf, np.inf
    content = content_of(classes(type_, calls[0][0], 6))
    session = compiled(tmp_path, content).session()
    for inputs, (expected,) in zip(calls, litert_results(content, calls), strict=True):
        ours = session(*inputs)
        assert ours.dtype == expected.dtype
        np.testing.assert_array_equal(ours, expected)


def test_numbers_of_a_loop_begin_anew_in_each_call(tmp_path: Path) -> None:
    """x = x + random, while a number is below a bound."""
    names = ("WHILE", "LESS", "ADD", "RANDOM_UNIFORM")
    x = tensor((4,), name="x")
    number = [tensor((1,), "INT32", "shape", buffer=2), tensor((4,), name="drawn")]
    condition = subgraph(
        [tensor((), name="n"), x, tensor((), name="bound", buffer=1), tensor((), "BOOL")],
        [operator(1, (0, 2), (3,), "LessOptions")],
        (0, 1),
        (3,),
    )
    body = subgraph(
        [tensor((), name="n"), x, *number, tensor(()), tensor((4,)), tensor((), buffer=3)],
        [
            operator(3, (2,), (3,), "RandomOptions", seed=5, seed2=6),
            operator(2, (1, 3), (5,), "AddOptions"),
            operator(2, (0, 6), (4,), "AddOptions"),
        ],
        (0, 1),
        (4, 5),
    )
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    after = [tensor((), name="m"), tensor((4,), name="y")]
    node = operator(0, (0, 1), (2, 3), "WhileOptions", **options)
    main = subgraph([tensor((), name="n"), x, *after], [node], (0, 1), (3,))
    buffers = [np.float32(3).tobytes(), np.array([4], np.int32).tobytes(), np.float32(1).tobytes()]
    content = write(model([*map(operator_code, names)], [main, condition, body], buffers))
    net = compiled(tmp_path, content)
    calls = [[np.array(n, np.float32), np.zeros(4, np.float32)] for n in (1, 1.5, 9, -1)]
    for inputs, (expected,) in zip(calls, litert_results(content, calls), strict=True):
        np.testing.assert_allclose(net(*inputs), expected, rtol=1e-6)


def test_numbers_without_seeds_differ_from_model_to_model(tmp_path: Path) -> None:
    content = content_of(drawn("RANDOM_UNIFORM", (8,), 0, 0))
    first, second = compiled(tmp_path, content)(), compiled(tmp_path, content)()
    assert not np.array_equal(first, second)


def test_an_interpreter_has_the_numbers_of_litert(tmp_path: Path) -> None:
    content = content_of(drawn("RANDOM_UNIFORM", (5,), 1, 2))
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    for (expected,) in litert_results(content, NO_INPUTS):
        interpreter.invoke()
        index = interpreter.get_output_details()[0]["index"]
        np.testing.assert_array_equal(interpreter.get_tensor(index), expected)


def test_a_class_is_needed() -> None:
    case = classes("INT32", np.zeros((2, 0), np.float32), 1)
    with pytest.raises(NnefError, match=r"operator 0 .*num_samples = \[1\] of 0 classes"):
        source_of(content_of(case)).graph({})
