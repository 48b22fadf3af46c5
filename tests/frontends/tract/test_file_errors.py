"""Errors in the tensors and submodels of tract documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.nnef.hostile import tensor_file
from tests.helpers.nnef.tract_errors import HEAD, Y, errors, rules


@pytest.mark.parametrize(
    ("shape", "code", "size", "rule", "words"),
    [
        ((2, 48), 0x3040, 2 * 18, "data/blocks", "rows of 48 items"),
        ((2, 64), 0x3040, 3 * 18, "data/length", "72: 4 blocks q4_0 of 18 bytes"),
        ((2, 64), 0x2040, 5 * 18, "data/length", "72: 4 blocks q4_0_legacy of 18 bytes"),
        ((2, 64), 0x3080, 2 * 36, "data/length", "144: 4 blocks q8_1 of 36 bytes"),
    ],
)
def test_wrong_numbers_of_blocks(
    tmp_path: Path, shape: tuple[int, ...], code: int, size: int, rule: str, words: str
) -> None:
    data = tensor_file(shape, 0xFFFFFFFF, code, data=bytes(size), vendor=0x5452)
    weight = f"variable(shape = {list(shape)}, label = 'w')"
    value = f"linear(tile([[1.0]], repeats = [1, {shape[1]}]), {weight})"
    (found,) = errors(tmp_path, HEAD + Y % value, files={"w.dat": data})
    assert found.rule == rule
    assert "w.dat" in found.message
    assert words in found.message
    assert found.line == 7


@pytest.mark.parametrize("shape", [[1, 128], [4, 32], [2, 64, 1], [2, 96], [128]])
def test_blocks_in_another_shape(tmp_path: Path, shape: list[int]) -> None:
    """An error even for the same number of items: blocks do not cross rows."""
    data = tensor_file((2, 64), 0xFFFFFFFF, 0x3040, data=bytes(4 * 18), vendor=0x5452)
    value = f"variable(shape = {shape}, label = 'w')"
    (found,) = errors(tmp_path, HEAD + Y % value, files={"w.dat": data})
    assert found.rule == "data/shape"
    assert f"'w' has shape [2, 64], but the document says {shape}" in found.message


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("variable(shape = [2, 3], label = 'w')", "data/shape"),
        ("variable(shape = [3, -1], label = 'w')", "operator/attribute"),
        ("variable(shape = [3], label = 'none')", "data/missing"),
        ("variable(shape = [3], label = '../w')", "container/label"),
        ("variable(shape = [3], label = 3)", "operator/attribute"),
        ("tract_core_submodel([x], label = '../w')", "container/label"),
        ("tract_core_submodel([x], label = 'none')", "tract/submodel"),
    ],
)
def test_missing_and_invalid_files_are_reported(tmp_path: Path, value: str, rule: str) -> None:
    found = errors(tmp_path, HEAD + Y % value, files={"w.dat": tensor_file((3,))})
    assert rules(found) == [rule]


def test_recursive_submodels_are_errors(tmp_path: Path) -> None:
    inner = HEAD + Y % "tract_core_submodel([x], label = 'inner')"
    files = {f"{'inner/' * (n + 1)}graph.nnef": inner for n in range(12)}
    (found,) = errors(tmp_path, inner, files=files)
    assert found.rule == "tract/submodel"


def test_errors_in_submodels(tmp_path: Path) -> None:
    text = HEAD + Y % "tract_core_submodel([x], label = 'inner')"
    (found,) = errors(tmp_path, text, files={"inner/graph.nnef": HEAD + Y % "foo(x)"})
    assert found.rule == "tract/operator"
    assert found.file is not None
    assert found.file.endswith("inner/graph.nnef")
    wrong = HEAD + "graph net( a, b ) -> ( a ) { }"
    found = errors(tmp_path, text, files={"inner/graph.nnef": wrong})[0]
    assert found.rule == "tract/submodel" or found.rule.startswith("syntax/")
