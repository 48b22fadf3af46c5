"""Captured values are written by name, and only known ones are read."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from nnefc.ir import DType
from nnefc.lower.convolution.phases import Progression
from nnefc.lower.window import taps
from nnefc.symbolic.captured_values import from_data, to_data


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 3, 2.5, "text", (), ((1, "a"), (None,))),
        *(DType.FLOAT32, Progression(1, 2, 3), Progression, taps._index),  # pyright: ignore[reportPrivateUsage]
    ],
)
def test_values_are_the_same_after_reading(value: Any) -> None:
    assert from_data(json.loads(json.dumps(to_data(value)))) == value


@pytest.mark.parametrize("value", [os.getpid, len, [1], {}, taps.dimensions_of, int, object()])
def test_other_values_cannot_be_written(value: Any) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        to_data(value)


@pytest.mark.parametrize(
    "data",
    [
        *([], {}, ["name"], ["name", "os:system"], ["name", "nnefc.lower.window.taps:np"]),
        *(["name", "nnefc.lower.window.taps:dimensions_of"], ["name", "nnefc.lower.nothing:f"]),
        *(["enum", "nnefc.lower.window.taps:_index", 1], ["dataclass", "os:system", "ls"]),
        *(["enum", "nnefc.ir.types:DType", "none"], ["name", "nnefc.cli.run:run"]),
        ["dataclass", "nnefc.lower.convolution.phases:Progression"],
    ],
)
def test_other_data_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="no captured value"):
        from_data(data)
