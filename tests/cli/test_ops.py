"""`nnefc ops`."""

from __future__ import annotations

import json
from typing import Any

import pytest

import nnefc
from tests.helpers.command_line import Cli


def test_ops(cli: Cli) -> None:
    assert "deconv" in cli("ops").out
    assert "groups: integer = 1" in cli("ops", "conv").out
    assert "bitand" not in cli("ops").out
    assert "did you mean 'conv'" in cli("ops", "conv2").err
    several = cli("ops", "conv2", "deconvv")
    assert several.status == 1
    assert several.err.count("unknown operation") == 2


def test_ops_lists_custom_operations(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed packages register operations when their modules are imported."""
    from nnefc.ops import custom

    def load() -> None:
        def body(emit: Any, op: Any) -> Any:
            return emit("exp", op.inputs[0])

        declaration = "fragment fancy( x: tensor<scalar> ) -> ( y: tensor<scalar> )"
        nnefc.operation(declaration, replace=True)(body)

    monkeypatch.setattr(custom, "load_entry_points", load)
    try:
        assert "fancy" in cli("ops").out
        described = cli("ops", "fancy").out
        assert "(custom)" in described
        assert "fragment fancy( x: tensor<scalar> )" in described
    finally:
        custom.unregister("fancy")


def test_ops_of_a_registry(cli: Cli) -> None:
    listed = json.loads(cli("ops", "--registry", "tract_core", "--json").out)
    rows = {row["name"]: row for row in listed}
    assert rows["tract_core_gather"]["parameters"].startswith("input, indices, axis")
    assert rows["tract_core_store"]["refused"]
    shown = cli("ops", "--registry", "tract_core", "tract_core_load").out
    assert "not supported: tract has removed this operator" in shown
    assert "did you mean" in cli("ops", "--registry", "tract_core", "tract_core_gathr").err
    assert "one of tract_nnef" in cli("ops", "--registry", "tract_foo").err


def test_ops_searches_the_registries(cli: Cli) -> None:
    assert "tract_core_gather(input, indices, axis" in cli("ops", "tract_core_gather").out
    assert "(registry tract_transformers)" in cli("ops", "sdpa").out
    assert "fragment softmax(" in cli("ops", "softmax").out  # that of the standard comes first
    several = json.loads(cli("ops", "cumsum", "conv", "--json").out)
    assert [row["name"] for row in several] == ["tract_core_cumsum", "tract_pulse_cumsum", "conv"]
    assert "did you mean 'tract_core_gather'" in cli("ops", "tract_core_gathr").err
    assert "did you mean 'sdpa'" in cli("ops", "sdpaa").err
    assert cli("ops", "--registry", "tract_onnx", "tract_core_gather").status != 0
