"""New plans of a loaded model where numba and llvmlite are not installed."""

from __future__ import annotations

from pathlib import Path

from tests.dynamic.test_artifacts import PLAIN
from tests.helpers.artifacts.saved import python
from tests.helpers.graphs.dynamic_models import symbolic_model

_LONG = """
import sys, warnings
if sys.argv[2] == "alone":
    for heavy in ("numba", "llvmlite"):
        sys.modules[heavy] = None
import numpy, nnefc
warnings.simplefilter("ignore")
y = nnefc.load(sys.argv[1], threads=1)(numpy.ones((1, 3000, 4), numpy.float32))
print(y.shape, sys.modules.get("numba") is not None)
"""


def test_they_need_no_compiler_if_their_kernels_are_cached(tmp_path: Path) -> None:
    path, cache = tmp_path / "net.nnefc", str(tmp_path / "cache")
    symbolic_model(tmp_path, PLAIN).save(path, shapes={"S": 20})
    assert python(_LONG, path, "with", NNEFC_CACHE=cache).startswith("(1, 3000, 4)")
    assert python(_LONG, path, "alone", NNEFC_CACHE=cache) == "(1, 3000, 4) False\n"
