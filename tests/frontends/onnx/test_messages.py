"""The wording of errors of ONNX models."""

from __future__ import annotations

from pathlib import Path

import pytest

import nnefc
from nnefc import NnefError
from tests.helpers.onnx.models import save
from tests.helpers.onnx.text_models import parsed


def message_of(folder: Path, text: str) -> str:
    """The errors of a model in the text syntax, when it is compiled."""
    path = save(parsed(text), folder / "net.onnx")
    with pytest.raises(NnefError) as caught:
        nnefc.compile(path)
    return str(caught.value)


def test_numbers_of_limits_have_separators(tmp_path: Path) -> None:
    text = (
        "(float[2] x) => (int64[N] y) { a = Constant<value = int64 {0}>() "
        "b = Constant<value = int64 {1099511627776}>() c = Constant<value = int64 {1}>() "
        "y = Range(a, b, c) }"
    )
    assert "more than 10,000,000 array items" in message_of(tmp_path, text)
