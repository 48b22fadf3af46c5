"""Outputs that a model declares as something else than it computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import nnefc
from nnefc import NnefError
from nnefc.onnx.backend import prepare
from tests.helpers.command_line import Cli
from tests.helpers.onnx.models import model, node, save, tensor

NODES = [
    node("Relu", ["x"], ["y"], name="positive"),
    node("Shape", ["x"], ["s"]),
    node("Transpose", ["x"], ["t"], perm=[1, 0]),
    node("Flatten", ["x"], ["f"]),
    node("NonZero", ["x"], ["n"]),
]
INT64, FLOAT8 = TensorProto.INT64, TensorProto.FLOAT8E5M2
RIGHT: dict[str, Any] = {
    "y": (["N", 3], 1),
    "s": ([2], INT64),
    "t": ([3, "?"], 1),
    "f": (None, 1),
    "n": ([2, 9], INT64),
}


def declaring(batch: int | str = 2, **outputs: Any) -> Any:
    """The model of `NODES` with `RIGHT` outputs, but for these."""
    declared = [tensor(name, *each) for name, each in {**RIGHT, **outputs}.items()]
    return model(NODES, [tensor("x", [batch, 3])], declared)


def errors(cli: Cli, path: Path) -> list[str]:
    """The messages of the errors of `nnefc check`; all of them are `onnx/declared`."""
    (found,) = json.loads(cli("check", path, "--json").out)
    assert {each["rule"] for each in found["errors"]} <= {"onnx/declared"}
    return [each["message"] for each in found["errors"]]


@pytest.mark.parametrize("batch", [2, "N"])
def test_right_declarations_are_silent(
    cli: Cli, tmp_path: Path, batch: int | str, recwarn: pytest.WarningsRecorder
) -> None:
    path = save(declaring(batch), tmp_path / "net.onnx")
    assert errors(cli, path) == []
    nnefc.compile(path)
    assert not recwarn.list


def test_check_reports_all_wrong_declarations(cli: Cli, tmp_path: Path) -> None:
    """`Shape` without a shape, too, and the outputs of a shape that an earlier one has."""
    made = declaring(
        y=([2, 3], INT64), s=(None, 1), t=([2, 3], 1), f=([2, 3, 1], 1), n=([3, "n"], INT64)
    )
    assert errors(cli, save(made, tmp_path / "net.onnx")) == [
        "output 'y' of Relu 'positive' is declared as int64[2,3], but is float32[2,3]",
        "output 's' of Shape is declared as float32, but is int64[2]",
        "output 't' of Transpose is declared as float32[2,3], but is float32[3,2]",
        "output 'f' of Flatten is declared as float32[2,3,1], but is float32[2,3]",
        "output 'n' of NonZero is declared as int64[3,?], but is int64[2,?]",
    ]


def test_extents_that_no_symbol_decides(cli: Cli, tmp_path: Path) -> None:
    """An extent that is a symbol may have any value, so that a number is possible."""
    made = declaring("N", y=([7, 4], 1), t=([3, 7], 1), f=([1, 3], 1))
    (message,) = errors(cli, save(made, tmp_path / "net.onnx"))
    assert message == (
        "output 'y' of Relu 'positive' is declared as float32[7,4], but is float32[N,3]"
    )


@pytest.mark.parametrize("strict", [False, True])
def test_extents_that_no_symbol_decides_are_warnings_of_a_compilation(
    tmp_path: Path, strict: bool
) -> None:
    made = declaring("N", y=(["N", 4], 1), t=([3, 7], 1), f=([1, 3], 1))
    path = save(made, tmp_path / "net.onnx")
    message = r"output 'y' of Relu 'positive' is declared as float32\[\?,4\], but is float32\[N,3\]"
    if strict:
        with pytest.raises(NnefError, match=message):
            nnefc.compile(path, strict=True)
        return
    with pytest.warns(nnefc.NnefWarning, match=message) as warned:
        nnefc.compile(path)
    assert len(warned) == 1


def test_wrong_types_are_errors_of_a_compilation_and_wrong_shapes_warnings(tmp_path: Path) -> None:
    path = save(declaring(t=([2, 3], 1), y=([2, 3], FLOAT8)), tmp_path / "net.onnx")
    with pytest.raises(NnefError) as caught, pytest.warns(nnefc.NnefWarning, match=r"float32\[3,2"):
        nnefc.compile(path)
    (error,) = caught.value.errors
    assert error.message.endswith("declared as float8e5m2[2,3], but is float32[2,3]")
    x = np.ones((2, 3), np.float32)
    with pytest.warns(nnefc.NnefWarning, match="output 't' of Transpose"):
        results: Any = prepare(declaring(t=([2, 3], 1))).run([x])
    np.testing.assert_array_equal(results["t"], x.T)
