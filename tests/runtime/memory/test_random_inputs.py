"""Random inputs of measurements are in the range of the tables that they index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from nnefc.ir import DType, TensorType
from nnefc.runtime.memory.random_inputs import random_inputs
from tests.helpers.command_line import Cli

EMBEDDINGS = """\
version 1.0;
extension tract_registry tract_core;
graph embeddings( tokens, kinds ) -> ( y )
{
    tokens = tract_core_external(shape = [1, 6], datum_type = 'i64');
    kinds = tract_core_external(shape = [1, 6], datum_type = 'i64');
    table = variable(label = 'table', shape = [10, 4]);
    of_kinds = variable(label = 'kinds', shape = [ROWS, 4]);
    y = tract_core_gather(table, tokens, axis = 0) + tract_core_gather(of_kinds, kinds, axis = 0);
}
"""
TYPES = {name: TensorType(DType.INT64, (1, 6)) for name in ("tokens", "kinds")}


def document(folder: Path, rows: int) -> Path:
    path = folder / "graph.nnef"
    path.write_text(EMBEDDINGS.replace("ROWS", str(rows)))
    return path


@pytest.mark.parametrize("rows", [1, 2])
def test_integers_are_zero_if_a_table_has_one_row(tmp_path: Path, rows: int) -> None:
    model: Any = nnefc.compile(document(tmp_path, rows), random_weights=1, threads=1)
    tokens, kinds = random_inputs(model, TYPES, 0)
    assert bool(kinds.any()) == (rows == 2)
    model(tokens, kinds)
    given = {"tokens": np.full((1, 6), 9)}
    assert random_inputs(model, TYPES, 0, given)[0] is given["tokens"]
    with pytest.raises(NnefError, match="index 10 at"):
        random_inputs(model, TYPES, 0, {name: np.full((1, 6), 10) for name in TYPES})


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(
    "command",
    [
        ("bench", "--warmup", 0, "--duration", 0.01),
        ("profile", "--duration", 0.01),
        ("run", "--random-inputs", 1),
        ("compare",),
    ],
    ids=lambda command: command[0],
)
def test_commands_measure_models_with_embeddings(
    cli: Cli, tmp_path: Path, rows: int, command: tuple[Any, ...]
) -> None:
    name, *options = command
    arguments = (document(tmp_path, rows), "--random-weights", 1, "--threads", 1, *options)
    result = cli(name, *arguments, "--json")
    assert result.status == 0, result.err
    assert json.loads(result.out)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("command", [("run", "--random-inputs", 3), ("compare",)])
def test_random_indices_are_in_the_range_of_computed_tables(
    cli: Cli, tmp_path: Path, rows: int, command: tuple[Any, ...]
) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(
        "version 1.0;\nextension tract_registry tract_core;\nextension tract_symbol N;\n"
        "graph net( x, i, j, k ) -> ( y, z, s, h )\n{\n"
        "    x = tract_core_external(shape = [N, 4], datum_type = 'f32');\n"
        "    i = tract_core_external(shape = [2, 8], datum_type = 'i32');\n"
        "    j = tract_core_external(shape = [N, 4], datum_type = 'i64');\n"
        "    k = tract_core_external(shape = [8], datum_type = 'i64');\n"
        "    t = relu(x);\n"
        "    w = tract_core_cast(unsqueeze(i, axes = [0]), to = 'i64');\n"
        "    y = tract_core_gather(t, w * 1, axis = 0);\n"
        "    z = tract_core_gather_elements(t, j, axis = 0);\n"
        "    s = tract_core_scatter_elements(t, j, t, axis = 0);\n"
        "    h = tract_core_gather(tract_core_gather(j, k, axis = 0), k, axis = 0);\n}\n"
    )
    name, *options = command
    result = cli(name, path, "--symbol", f"N={rows}", *options, "--threads", 1)
    assert result.status == 0, result.err
