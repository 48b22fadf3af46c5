"""Runs commands on artifacts, and parses their output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nnefc.kernels.target.isa import host
from tests.helpers.artifacts.saved import COUNTER, MIXED, TINY
from tests.helpers.command_line import Cli

ELSEWHERE = "x86-64-v3" if host().name == "aarch64" else "aarch64"
"""An instruction set that this processor lacks."""
ARTIFACTS = {"tiny": TINY, "mixed": MIXED, "counter": COUNTER}
"""Documents by name of the artifact file."""


def outputs(cli: Cli, *arguments: object) -> dict[str, Any]:
    """The results of `nnefc run` for random inputs."""
    result = cli("run", *arguments, "--random-inputs", 1, "--threads", 1, "--json")
    assert result.status == 0, result.err
    shown = json.loads(result.out)
    return {name: facts.get("values") or facts["first"] for name, facts in shown.items()}


def inspected(cli: Cli, net: Path, *options: object) -> str:
    result = cli("inspect", net, "--json", *options)
    assert result.status == 0, result.err
    return result.out
