"""Functions that kernels call: helpers and intrinsics.

- `helper`: a function in the language of kernels, translated once per combination of types;
- `intrinsic`: a function that emits its LLVM instructions inline.

Here they are plain objects, so that defining them does not import numba; `translate` turns their
calls into instructions.

Types have NumPy's names: `int64`, `float32`, `bool`.  None stands for `void`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Callee:
    """A function that only kernels can call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.function = function
        self.translated: Any = None
        """numba type; set by `translate` when a kernel first calls this."""

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"{self.__name__} can be called from kernels only")


class Helper(Callee):
    """A function in the language of kernels."""


class Intrinsic(Callee):
    """`function(*types) -> Definition`."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The signature and code of an intrinsic for one combination of argument types."""

    result: str | None
    parameters: tuple[str, ...]
    """Types that arguments are converted to."""
    emit: Callable[..., Any]
    """`emit(builder, *llvm_values)` appends the instructions and returns the LLVM result."""


def helper(function: Callable[..., Any]) -> Any:
    """Decorator: a function that kernels call.  It is compiled with them and cannot raise."""
    return Helper(function)


def intrinsic(function: Callable[..., Definition]) -> Any:
    """Decorator: `function(*types)` returns the `Definition` for arguments of these types."""
    return Intrinsic(function)


def native(result: str | None, *parameters: str) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: an intrinsic of fixed types from `emit(builder, *llvm_values) -> llvm value`."""

    def wrap(emit: Callable[..., Any]) -> Any:
        def define(*given: str) -> Definition:
            if len(given) != len(parameters):
                raise TypeError(f"{emit.__name__} takes {len(parameters)} arguments")
            return Definition(result, parameters, emit)

        define.__name__, define.__doc__ = emit.__name__, emit.__doc__
        return intrinsic(define)

    return wrap
