"""Artifacts with symbolic plans of windows: tables fit the code of every instruction set."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc.kernels.target.isa import executable
from nnefc.ops.tools.reference import evaluate
from nnefc.support.errors import NnefWarning
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
