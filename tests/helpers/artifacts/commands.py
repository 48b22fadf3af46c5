"""What the tests of commands on artifacts share: files that are there, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nnefc.kernels.target.isa import host
from tests.helpers.artifacts.saved import COUNTER, MIXED, TINY
from tests.helpers.command_line import Cli

ELSEWHERE = "x86-64-v3" if host().name == "aarch64" else "aarch64"
"""Instructions that this processor has not."""
ARTIFACTS = {"tiny": TINY, "mixed": MIXED, "counter": COUNTER}
"""By the names of the files."""


def outputs(cli: Cli, *arguments: object) -> dict[str, Any]:
    """What `nnefc run` computes of random inputs."""
    result = cli("run", *arguments, "--random-inputs", 1, "--threads", 1, "--json")
    assert result.status == 0, result.err
    shown = json.loads(result.out)
    return {name: facts.get("values") or facts["first"] for name, facts in shown.items()}


def inspected(cli: Cli, net: Path, *options: object) -> str:
    result = cli("inspect", net, "--json", *options)
    assert result.status == 0, result.err
    return result.out
