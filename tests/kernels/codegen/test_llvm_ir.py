"""Without llvmlite, every module of kernels that lowering needs can be imported."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import pkgutil, sys
from importlib import import_module
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import nnefc.lower
for each in pkgutil.walk_packages(nnefc.lower.__path__, "nnefc.lower."):
    import_module(each.name)
from nnefc.kernels.executor import executor, fast_call
from nnefc.kernels.codegen.llvm_ir import ir
print(len([m for m in sys.modules if m.startswith("nnefc.kernels.")]) > 60)
print(ir.IntType(8) is not None, issubclass(ir.Constant, object))
"""


def test_kernels_can_be_named_without_llvmlite() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert result.stderr == ""
    assert result.stdout.splitlines() == ["True", "True True"]
