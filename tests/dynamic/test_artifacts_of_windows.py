"""Artifacts with symbolic plans of windows: tables fit the code of every instruction set."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import nnefc
from nnefc.kernels.target.isa import executable
from nnefc.ops.tools.reference import evaluate
from nnefc.runtime.artifact.artifact_file import open_file
from nnefc.runtime.artifact.read_dynamic import DynamicArtifact
from nnefc.support.errors import NnefError, NnefWarning
from nnefc.symbolic.straight_line import CALL, StraightLine
from tests.helpers.artifacts.saved import python
from tests.helpers.graphs.dynamic_models import items, symbolic_model

POOLED = "size = [1, 1, 3, 3], padding = [(0,0), (0,0), (1,1), (1,1)], dilation = [1, 1, 1, 1]"
WINDOWS = f"""graph net(x) -> (y, z, v) {{
  x = tract_core_external(shape = [1, 32, S, T], datum_type = 'f32');
  w = variable<scalar>(label = 'w', shape = [32, 1, 3, 3]);
  k = variable<scalar>(label = 'k', shape = [48, 32, 3, 3]);
  a = conv(x, w, 0.0, groups = 32, padding = [(1,1), (1,1)], stride = [1, 1],
    dilation = [1, 1], border = 'constant');
  y = max_pool(a, {POOLED}, stride = [1, 1, 2, 2], border = 'ignore');
  z = avg_pool(a, {POOLED}, stride = [1, 1, 1, 1], border = 'ignore');
  v = conv(a, k, 0.0, padding = [(1,1), (1,1)], stride = [2, 2], dilation = [1, 1],
    border = 'constant');
}}"""

RESAMPLED = """graph net(x) -> (y, z) {
  x = tract_core_external(shape = [1, 16, S, T], datum_type = 'f32');
  y = multilinear_upsample(x, factor = [2, 2], method = 'symmetric', border = 'replicate');
  z = nearest_upsample(box(x, size = [1, 1, 3, 1], border = 'ignore'), factor = [2, 3]);
}"""


ROWS = {isa.registers: isa.name for isa in executable()}
"""An instruction set for each number of registers."""


@pytest.mark.parametrize("target", ROWS.values())
def test_instruction_sets(tmp_path: Path, target: str) -> None:
    """The heights of tiles depend on the number of registers of the code, not of this machine."""
    compiled = symbolic_model(tmp_path, WINDOWS, w=items(32, 1, 3, 3), k=items(48, 32, 3, 3) / 16)
    path = tmp_path / "net.nnefc"
    compiled.save(path, targets=[target], shapes=[{"S": 20, "T": 30}, {"S": 9, "T": 47}])
    loaded = nnefc.load(path, threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NnefWarning)  # the plan is that of the file
        for shape in ((20, 30), (9, 47)):
            x = items(1, 32, *shape)
            graph = nnefc.import_model(tmp_path, shapes={"x": x.shape})
            expected = evaluate(graph, {"x": x}).outputs.values()
            for found, reference in zip(loaded(x), expected, strict=True):
                np.testing.assert_allclose(found, reference, rtol=2e-4, atol=2e-5)


def test_loading_needs_no_lowering(tmp_path: Path) -> None:
    compiled = symbolic_model(tmp_path, WINDOWS, w=items(32, 1, 3, 3), k=items(48, 32, 3, 3))
    path = tmp_path / "net.nnefc"
    compiled.save(path, shapes={"S": 20, "T": 30})
    program = """
import sys
import numpy as np
import nnefc
model = nnefc.load(sys.argv[1], threads=1)
model(np.zeros((1, 32, 20, 30), np.float32))
heavy = ("nnefc.lower", "nnefc.passes", "nnefc.frontends", "numba", "llvmlite")
print([name for name in sys.modules if name.startswith(heavy)])
"""
    assert python(program, path).strip() == "[]"


@pytest.mark.parametrize("body", [WINDOWS, RESAMPLED])
def test_tables_of_a_hostile_file_are_bounded_before_memory_is_allocated(
    tmp_path: Path, body: str
) -> None:
    weights = {"w": items(32, 1, 3, 3), "k": items(48, 32, 3, 3)} if body is WINDOWS else {}
    path = tmp_path / "net.nnefc"
    symbolic_model(tmp_path, body, **weights).save(path, shapes={"S": 20, "T": 30})
    artifact = DynamicArtifact(open_file(path))
    ((conditions, genuine),) = artifact.programs(0)
    refused: list[NnefError] = []
    for program in _with_huge_extents(genuine):
        tracemalloc.start()
        with suppress(ValueError, ArithmeticError), artifact.evaluating():
            try:
                program.function()(*conditions.hints)
            except NnefError as error:
                refused.append(error)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 64 << 20, program
    assert {error.errors[0].rule for error in refused} <= {"limit/memory", "limit/window"}
    assert any(isinstance(error, OverflowError) for error in refused)  # ends as a guard does


def _with_huge_extents(program: StraightLine) -> Iterator[StraightLine]:
    """The program with each variable in the arguments of a call replaced by a huge number."""
    for i, step in enumerate(program.steps):
        if step.op != CALL:
            continue
        for name in sorted(set(_variables(step.operands[1:]))):
            changed = step._replace(operands=_replaced(step.operands, name, 1 << 33))
            yield program._replace(steps=(*program.steps[:i], changed, *program.steps[i + 1 :]))


def _variables(operand: Any) -> Iterator[str]:
    if isinstance(operand, tuple):
        for each in cast("tuple[Any, ...]", operand):
            yield from _variables(each)
    elif isinstance(operand, str) and operand[:1] in ("s", "v"):
        yield operand


def _replaced(operand: Any, name: str, number: int) -> Any:
    if isinstance(operand, tuple):
        every = cast("tuple[Any, ...]", operand)
        return tuple(_replaced(each, name, number) for each in every)
    return number if operand == name else operand
