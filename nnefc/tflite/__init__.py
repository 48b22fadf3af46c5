"""TensorFlow Lite models behind the interface of LiteRT's `Interpreter`.

>>> interpreter = nnefc.tflite.Interpreter("net.tflite")        # doctest: +SKIP
>>> interpreter.allocate_tensors()                              # doctest: +SKIP

`nnefc.compile` takes the path of such a file as well, and returns a model with all that nnefc can
do.
"""

from __future__ import annotations

from typing import Any, Final

from nnefc.tflite.interpreter import Interpreter
from nnefc.tflite.signature_runner import SignatureRunner

__all__ = ["Interpreter", "SignatureRunner"]

_ELSEWHERE: Final = {
    "Delegate": "nnefc compiles the whole model",
    "InterpreterWithCustomOps": "nnefc.operation registers custom operators",
    "OpResolverType": "leave out experimental_op_resolver_type, which has no effect",
    "load_delegate": "nnefc compiles the whole model",
}
"""Names of LiteRT that are missing here, and what does the same."""


def __getattr__(name: str) -> Any:
    message = f"module 'nnefc.tflite' has no attribute '{name}'"
    if name in _ELSEWHERE:
        message += f": {_ELSEWHERE[name]}"
    raise AttributeError(message)
