"""Captured values are written by name, and only known ones are read."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from nnefc.ir import DType
from nnefc.program.tables.phases import Progression
from nnefc.program.tables.window_taps import dimensions_of, indices_of_taps
from nnefc.symbolic.captured_values import from_data, to_data


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 3, 2.5, "text", (), ((1, "a"), (None,))),
        *(DType.FLOAT32, Progression(1, 2, 3), Progression, indices_of_taps),
    ],
)
def test_values_are_the_same_after_reading(value: Any) -> None:
    assert from_data(json.loads(json.dumps(to_data(value)))) == value


@pytest.mark.parametrize("value", [os.getpid, len, [1], {}, dimensions_of, int, object()])
def test_other_values_cannot_be_written(value: Any) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        to_data(value)


@pytest.mark.parametrize(
    "data",
    [
        *([], {}, ["name"], ["name", "os:system"]),
        ["name", "nnefc.program.tables.window_taps:np"],
        ["name", "nnefc.program.tables.window_taps:dimensions_of"],
        ["name", "nnefc.program.tables.nothing:f"],
        ["enum", "nnefc.program.tables.window_taps:indices_of_taps", 1],
        ["dataclass", "os:system", "ls"],
        *(["enum", "nnefc.ir.types:DType", "none"], ["name", "nnefc.cli.run:run"]),
        ["dataclass", "nnefc.program.tables.phases:Progression"],
    ],
)
def test_other_data_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="no captured value"):
        from_data(data)
