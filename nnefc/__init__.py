"""nnefc: neural networks in Khronos NNEF, compiled to native CPU code.

>>> import nnefc
>>> model = nnefc.compile("net.nnef.tgz")           # doctest: +SKIP
>>> y = model(x)                                    # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnefc.support.errors import Diagnostic, NnefError, NnefWarning
from nnefc.support.package import VERSION

if TYPE_CHECKING:
    from nnefc.api.archive import save_archive
    from nnefc.api.compile import compile
    from nnefc.api.importing import import_model
    from nnefc.api.load import load
    from nnefc.api.quantize import quantize
    from nnefc.api.tune import tune
    from nnefc.driver.quantize.config import QuantizeOptions
    from nnefc.driver.tuning import Tuning
    from nnefc.dynamic.dynamic_model import DynamicModel, Session
    from nnefc.formats.tensor_file import read_tensor, write_tensor
    from nnefc.ir import Graph
    from nnefc.ops.custom import operation
    from nnefc.options.import_config import ImportOptions
    from nnefc.runtime.memory.caller_arrays import TensorSpec
    from nnefc.runtime.run.compiled_model import CompiledModel
    from nnefc.runtime.run.model_interface import Model
    from nnefc.support.limits import Limits

__version__ = VERSION

_HOMES = {
    "CompiledModel": "nnefc.runtime.run.compiled_model",
    "DynamicModel": "nnefc.dynamic.dynamic_model",
    "Graph": "nnefc.ir",
    "ImportOptions": "nnefc.options.import_config",
    "Limits": "nnefc.support.limits",
    "Model": "nnefc.runtime.run.model_interface",
    "QuantizeOptions": "nnefc.driver.quantize.config",
    "Session": "nnefc.dynamic.dynamic_model",
    "TensorSpec": "nnefc.runtime.memory.caller_arrays",
    "Tuning": "nnefc.driver.tuning",
    "compile": "nnefc.api.compile",
    "import_model": "nnefc.api.importing",
    "load": "nnefc.api.load",
    "operation": "nnefc.ops.custom",
    "quantize": "nnefc.api.quantize",
    "save_archive": "nnefc.api.archive",
    "tune": "nnefc.api.tune",
    "read_tensor": "nnefc.formats.tensor_file",
    "write_tensor": "nnefc.formats.tensor_file",
}

__all__ = [
    "CompiledModel",
    "Diagnostic",
    "DynamicModel",
    "Graph",
    "ImportOptions",
    "Limits",
    "Model",
    "NnefError",
    "NnefWarning",
    "QuantizeOptions",
    "Session",
    "TensorSpec",
    "Tuning",
    "__version__",
    "compile",
    "import_model",
    "load",
    "operation",
    "quantize",
    "read_tensor",
    "save_archive",
    "tune",
    "write_tensor",
]


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used: `import nnefc` itself is light."""
    if name not in _HOMES:
        raise AttributeError(f"module 'nnefc' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
