"""Symbols and shapes that `for_shapes` takes, and symbolic shapes of results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from tests.helpers.graphs.dynamic_models import items, symbolic_model

TWO_SYMBOLS = """graph net( x, y ) -> ( z )
{
    x = tract_core_external(shape = [B, 2*S], datum_type = 'f32');
    y = tract_core_external(shape = [S + 1], datum_type = 'f32');
    z = matmul(x, x, transposeB = true) * 0.5;
}
"""


def test_for_shapes_takes_symbols(tmp_path: Path) -> None:
    found = symbolic_model(tmp_path, TWO_SYMBOLS)
    for fixed in (
        found.for_shapes(symbols={"B": 2, "S": 3}),
        found.for_shapes({"y": (4,)}, symbols={"B": 2}),
        found.for_shapes({"x": (2, 6)}, symbols={"S": 3}),
        found.for_shapes({"x": (2, 6)}),
    ):
        assert [spec.shape for spec in fixed.inputs] == [(2, 6), (4,)]
    x, y = items(2, 6), items(4)
    np.testing.assert_allclose(
        found.for_shapes({"x": (2, 6)})(x, y), x @ x.T * 0.5, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(
    ("shapes", "symbols", "messages"),
    [
        ({"x": (2, 6)}, {"S": 4}, ["axis 1 has to be 8, not 6, as S = 4"]),
        ({"x": (2, 6), "q": (1,)}, {"N": 1}, ["no input 'q'", "the document has no symbol 'N'"]),
        (None, {"B": 2}, ["input 'x' has no shape", "input 'y' has no shape"]),
        (None, {"B": -1}, ["symbol B = -1: extents are at least 0"]),
        ({"x": 3}, {"B": 1.5}, ["shapes['x'] = 3", "symbols['B'] = 1.5"]),
        (None, {"B": 1 << 63, "S": 1}, ["symbols['B'] = 9223372036854775808"]),
        (None, ["B"], ["symbols = ['B']: expected whole numbers by name"]),
    ],
)
def test_symbols_of_for_shapes_are_checked(
    tmp_path: Path, shapes: Any, symbols: Any, messages: list[str]
) -> None:
    found = symbolic_model(tmp_path, TWO_SYMBOLS)
    with pytest.raises(NnefError) as caught:
        found.for_shapes(shapes, symbols=symbols)
    errors = [error.message for error in caught.value.errors]
    assert len(errors) == len(messages)
    for message, expected in zip(errors, messages, strict=True):
        assert expected in message


def test_symbols_that_the_model_has_already(tmp_path: Path) -> None:
    symbolic_model(tmp_path, TWO_SYMBOLS)
    found = nnefc.compile(tmp_path, symbols={"B": 2})
    assert isinstance(found, nnefc.DynamicModel)
    with pytest.raises(NnefError, match="symbol B = 3: the model has B = 2"):
        found.for_shapes(symbols={"B": 3, "S": 1})
    assert found.for_shapes(symbols={"B": 2, "S": 3}).inputs[0].shape == (2, 6)


def test_symbols_that_shapes_do_not_determine(tmp_path: Path) -> None:
    """S/2 is 2 for S = 4 and S = 5; the result tells which."""
    body = """graph net( x ) -> ( y )
    {
        x = tract_core_external(shape = [S/2], datum_type = 'f32');
        y = tile(x, repeats = [S]);
    }
    """
    found = symbolic_model(tmp_path, body)
    x = items(2)
    assert found(x).shape == (8,)
    model = found.for_shapes(symbols={"S": 5})
    np.testing.assert_array_equal(model(x), np.tile(x, 5))
    np.testing.assert_array_equal(found.for_shapes({"x": (2,)})(x), np.tile(x, 4))


def test_output_shapes(tmp_path: Path) -> None:
    found = symbolic_model(tmp_path, TWO_SYMBOLS)
    assert list(map(str, found.output_shapes)) == ["z: [B,B]"]
    path = tmp_path / "net.nnefc"
    found.save(path, shapes=[{"B": 2, "S": 3}])
    loaded = nnefc.load(path)
    assert isinstance(loaded, nnefc.DynamicModel)
    assert loaded.output_shapes == found.output_shapes
    assert [spec.shape for spec in loaded.outputs] == [(-1, -1)]


def test_symbols_of_saved_shapes_may_be_numbers_of_numpy(tmp_path: Path) -> None:
    path = tmp_path / "net.nnefc"
    values: Any = {"B": np.int64(2), "S": np.int32(3)}
    symbolic_model(tmp_path, TWO_SYMBOLS).save(path, shapes=values)
    assert [spec.shape for spec in nnefc.load(path).inputs] == [(-1, -1), (-1,)]
