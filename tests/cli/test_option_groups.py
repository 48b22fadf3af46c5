"""Groups of options: a command takes them as one parameter."""

from __future__ import annotations

from inspect import signature
from typing import Annotated, Any

import typer
from typer.testing import CliRunner

from nnefc.cli.support.option_groups import DocumentOptions, SourceOptions, expand_groups

Flag = Annotated[bool, typer.Option("--flag", help="A flag.")]


def test_options_of_a_group_become_those_of_the_command() -> None:
    seen: list[Any] = []

    def command(name: str, flag: Flag = False, *, document: DocumentOptions) -> None:
        """Help."""
        seen.append((name, flag, document))

    expanded = expand_groups(command)
    own = ["random_weights", "batch", "scalar"]
    inherited = ["shape", "symbol", "dialect", "limit"]
    assert [*signature(expanded).parameters] == ["name", "flag", *own, *inherited]
    app = typer.Typer(add_completion=False)
    app.command()(expanded)
    result = CliRunner().invoke(app, ["net", "-b", "3", "--flag", "-s", "x=1", "--shape", "y=2"])
    assert result.exit_code == 0, result.output
    assert seen == [("net", True, DocumentOptions(batch=3, shape=["x=1", "y=2"]))]


def test_defaults_are_those_of_the_group() -> None:
    seen: list[Any] = []

    def command(source: SourceOptions) -> None:
        seen.append(source)

    app = typer.Typer(add_completion=False)
    app.command()(expand_groups(command))
    assert CliRunner().invoke(app, []).exit_code == 0
    assert seen == [SourceOptions()]


def test_changed_options_are_named_as_typed() -> None:
    assert DocumentOptions().changed() == []
    assert DocumentOptions(random_weights=1, symbol=["S=1"]).changed() == [
        "--symbol",
        "--random-weights",
    ]
