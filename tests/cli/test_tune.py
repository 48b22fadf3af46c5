"""`nnefc tune`: measures the algorithms of convolutions and stores the choices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.command_line import Cli

WIDE = """\
version 1.0;
graph wide( x ) -> ( y )
{
    x = external(shape = [1, 32, 16, 16]);
    filter = variable(shape = [32, 32, 3, 3], label = 'filter');
    y = conv(x, filter);
}
"""


@pytest.mark.slow
def test_the_choices_are_shown_and_stored(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnefc.driver.tuning._SLICE", 0.01)
    document = tmp_path / "graph.nnef"
    document.write_text(WIDE)
    arguments = ("tune", document, "--random-weights", 1, "--threads", 1)
    facts = json.loads(cli(*arguments, "--json").out)
    assert facts["threads"] == 1
    assert facts["kept"]
    (choice,) = facts["choices"]
    assert choice["operations"] == ["y"]
    assert "tuning for 1 thread: " in cli(*arguments).out


def test_a_model_without_choices(cli: Cli, tmp_path: Path) -> None:
    document = tmp_path / "graph.nnef"
    document.write_text(
        "version 1.0;\ngraph g( x ) -> ( y )\n{\n"
        "    x = external(shape = [1, 4]);\n    y = relu(x);\n}\n"
    )
    assert "only one algorithm" in cli("tune", document).out
    assert json.loads(cli("tune", document, "--json").out)["choices"] == []


def test_a_missing_model_is_an_error(cli: Cli, tmp_path: Path) -> None:
    result = cli("tune", tmp_path / "none.nnef")
    assert result.status == 1
    assert "none.nnef" in result.err
    assert "Traceback" not in result.err
