"""Modules that register something can be imported again, as after an interrupt."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from nnefc.frontends.tract.registry import operator, operators
from nnefc.kernels.family import family
from nnefc.kernels.movement import strided
from nnefc.lower import load_lowerings
from nnefc.lower.context import lowering
from nnefc.support.registration import is_taken

AGAIN = """
import sys
from importlib import import_module
from pathlib import Path
import nnefc.kernels
from nnefc.frontends.tract.registry import operators
from nnefc.lower import load_lowerings
operators()
load_lowerings()
kernels = Path(nnefc.kernels.__file__).parent
for path in kernels.rglob("*.py"):
    module = path.relative_to(kernels).with_suffix("")
    import_module(".".join(("nnefc", "kernels", *module.parts)).removesuffix(".__init__"))
names = [name for name in sys.modules
         if name.startswith(("nnefc.lower.", "nnefc.frontends.tract.operators.", "nnefc.kernels."))
         and name not in ("nnefc.lower.context", "nnefc.kernels.family")]
assert len(names) > 50
for name in names:
    del sys.modules[name]
for name in names:
    import_module(name)
"""


@pytest.mark.slow
def test_an_interrupted_import_can_be_repeated() -> None:
    subprocess.run([sys.executable, "-c", AGAIN], check=True, timeout=120)


def tract_core_gather(*_: object) -> Any: ...


def _another(make: Any) -> Any:
    """Another function of the same name, which is within a function."""

    def function(itemsize: int) -> Any: ...

    function.__module__, function.__name__ = make.__module__, make.__name__
    return function


def test_other_functions_are_conflicts() -> None:
    operators()
    load_lowerings()
    assert not is_taken(None, tract_core_gather)
    assert not is_taken(tract_core_gather, tract_core_gather)
    with pytest.raises(ValueError, match="'transpose' has a lowering already"):
        lowering("transpose")(tract_core_gather)
    with pytest.raises(ValueError, match=r"'movement\.strided\.strided' is registered already"):
        family()(_another(strided.strided.make))
    with pytest.raises(ValueError, match="operator 'tract_core_gather' is registered already"):
        operator("tract_core")(tract_core_gather)
