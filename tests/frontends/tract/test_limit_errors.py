"""Tract documents that ask for too much are errors: extents, tensors, recursion, windows."""

from __future__ import annotations

from pathlib import Path

import pytest

import nnefc
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits
from tests.helpers.nnef.tract_errors import HEAD, SCAN, STEP, Y, errors, rules


def test_extents_beyond_64_bits(tmp_path: Path) -> None:
    text = HEAD + "extension tract_symbol S;\n" + (Y % "x * S").replace("[2, 3]", "[1, S]")
    rules_ = rules(errors(tmp_path, text, shapes={"x": (1, 2**70)}))
    assert set(rules_) == {"input/shape"}


@pytest.mark.parametrize(
    "value",
    [
        "tile(x, repeats = [1000000000, 1000000000])",
        "pad(x, padding = [(2000000000, 0), (0, 2000000000)])",
        "tract_core_range(0, 1000000000000, 1)",
        "tract_core_one_hot(x, axis = 0, dim = 1000000000000)",
        "tract_core_broadcast(1.0, shape = [1000000000, 1000000000])",
        "constant(shape = [1000000, 1000000, 1000000], value = [0.0])",
        "copy_n(x, times = 100000000000)",
    ],
)
def test_too_large_tensors_are_reported(tmp_path: Path, value: str) -> None:
    (found,) = errors(tmp_path, HEAD + Y % value)
    assert found.rule.startswith("limit/") or found.rule in ("operator/attribute", "argument/mul")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("fragment f( a: tensor<scalar> ) -> ( b: tensor<scalar> ) { b = f(a); }\n", "recursion"),
        (
            "fragment f( a: tensor<scalar> ) -> ( b: tensor<scalar> ) { b = f(a) + f(a); }\n",
            "recursion",
        ),
        (
            "fragment g( a: tensor<scalar> ) -> ( b: tensor<scalar> ) { b = a + a; }\n"
            + "".join(
                f"fragment f{i}( a: tensor<scalar> ) -> ( b: tensor<scalar> )"
                f" {{ b = {call}({call}(a)); }}\n"
                for i, call in enumerate(["g", *(f"f{i}" for i in range(30))])
            )
            + "fragment f( a: tensor<scalar> ) -> ( b: tensor<scalar> ) { b = f30(a); }\n",
            "steps",
        ),
    ],
)
def test_endless_recursion_is_an_error(tmp_path: Path, text: str, rule: str) -> None:
    found = errors(tmp_path, HEAD + text + Y % "f(x)", limits=Limits(steps=20_000))
    assert rules(found) == [f"limit/{rule}"]


@pytest.mark.slow
def test_a_recursive_loop_is_an_error(tmp_path: Path) -> None:
    body = STEP.replace("tanh(a + h)", SCAN.replace("x", "a"))
    found = errors(tmp_path, HEAD + body + Y % SCAN)
    assert all(each.line for each in found)


@pytest.mark.parametrize(
    ("value", "operation"),
    [
        ("box(x, size = [1, 99999999])", "box"),
        ("conv(r, f, padding = [(1000000000, 1000000000)])", "conv"),
        ("deconv(r, f, stride = [1000000000])", "deconv"),
    ],
)
def test_too_large_windows_have_a_position(tmp_path: Path, value: str, operation: str) -> None:
    before = "r = unsqueeze(x, axes = [0]);\n f = tract_core_broadcast(1.0, shape = [2, 2, 3]);\n"
    text = HEAD + (Y % value).replace("    y = ", before + "    y = ")
    (tmp_path / "graph.nnef").write_text(text)
    with pytest.raises(NnefError) as error:
        nnefc.compile(tmp_path, keep=False)
    (found,) = error.value.errors
    assert found.rule == "limit/window"
    assert (found.line, found.column) == (9, 9)
    assert found.message.startswith(f"{operation}: a window of")
