"""`nnefc compare` of models whose results have NaN or infinities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.command_line import Cli

DOCUMENT = """\
version 1.0;
extension KHR_enable_operator_expressions;
graph g( x, z ) -> ( y )
{
    x = external(shape = [4]);
    z = external(shape = [4]);
    w = variable(shape = [4], label = 'w');
    a = x + z;
    b = log(a);
    c = b * 2.0;
    y = select(x > z, c, w);
}
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "graph.nnef"
    path.write_text(DOCUMENT)
    return path


def arguments(folder: Path, x: list[float], z: list[float]) -> tuple[object, ...]:
    np.savez(folder / "in.npz", x=np.array(x, np.float32), z=np.array(z, np.float32))
    return ("-i", folder / "in.npz", "--random-weights", 1, "-t", 1)


def rows(facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["tensor"]: row for row in facts["tensors"]}


def test_nan_in_both_is_reported_with_its_origin(cli: Cli, net: Path, tmp_path: Path) -> None:
    """The logarithm of -3 is NaN, of 0 an infinity."""
    more = arguments(tmp_path, [-3, 0, 1, 2], [-4, 0, 0, 0])
    found = cli("compare", net, *more, "--json")
    assert found.status == 0
    facts = json.loads(found.out)
    by_name = rows(facts)
    assert {name: row["nan_in_both"] for name, row in by_name.items()} == {
        "a": 0, "b": 1, "c": 1, "y": 1,
    } | {name: 0 for name in by_name if name not in "abcy"}  # fmt: skip
    assert by_name["b"]["inf_equal"] == 1
    assert all(row["agrees"] for row in facts["tensors"])
    assert facts["first_nan"] == {
        "tensor": "b",
        "operation": "log",
        "place": f"{net}:9:9",
        "operands": ["a is -7 to 2"],
        "from_operands": False,
    }
    shown = cli("compare", net, *more)
    assert shown.status == 0
    assert "NaN in both" in shown.out
    assert "log %b" in shown.out
    assert "makes the first NaN; operands: a is -7 to 2" in shown.out


def test_nan_of_an_input_is_told(cli: Cli, net: Path, tmp_path: Path) -> None:
    nan = float("nan")
    more = arguments(tmp_path, [1, 2, nan, nan], [1, 1, 1, 1])
    facts = json.loads(cli("compare", net, *more, "--json").out)
    origin = facts["first_nan"]
    assert (origin["tensor"], origin["from_operands"]) == ("a", True)
    assert origin["operands"] == ["x has 2 NaN", "z is 1 to 1"]
    assert "reads the first NaN" in cli("compare", net, *more).out


def test_without_nan_no_column_counts_it(cli: Cli, net: Path, tmp_path: Path) -> None:
    more = arguments(tmp_path, [1, 2, 3, 4], [1, 1, 1, 1])
    facts = json.loads(cli("compare", net, *more, "--json").out)
    assert facts["first_nan"] is None
    shown = cli("compare", net, *more).out
    assert "NaN" not in shown
    assert "inf" not in shown


def test_nan_in_the_compiled_model_only_is_a_divergence(
    cli: Cli, net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nnefc.runtime.run.compiled_model import CompiledModel

    original = CompiledModel.__call__

    def wrong(self: CompiledModel, *arrays: object) -> Any:
        result: Any = original(self, *arrays)
        if len(self.outputs) == 1:
            result[1] = float("nan")
        return result

    monkeypatch.setattr(CompiledModel, "__call__", wrong)
    more = arguments(tmp_path, [1, 2, 3, 4], [1, 1, 1, 1])
    found = cli("compare", net, *more, "--tolerance", 1e30, "--json")
    assert found.status == 1
    facts = json.loads(found.out)
    assert facts["first_divergence"] == "y"
    bad = [(row["kind"], row["nan_in_one"]) for row in facts["tensors"] if not row["agrees"]]
    assert bad == [("output", 1)]
    shown = cli("compare", net, *more, "--tolerance", 1e30)
    assert shown.status == 1
    assert "NaN in one" in shown.out
