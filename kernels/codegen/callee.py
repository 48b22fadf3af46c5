"""Functions that kernels call: helpers and intrinsics.

- `helper`: a function that kernels call, translated once for each combination of types;
- `intrinsic`: a function that writes its LLVM instructions itself.

They are plain objects here, which cost nothing if no kernel is compiled; `translate` turns their
calls into instructions.

Types have the names of NumPy: `int64`, `float32`, `bool`; None is the type of no value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Callee:
    """A function that kernels can call and Python cannot."""

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
    """Arguments are converted to these."""
    emit: Callable[..., Any]
    """`emit(builder, *llvm_values)` appends the instructions; the LLVM value of the result."""


def helper(function: Callable[..., Any]) -> Any:
    """Decorator: a function that kernels call; it is compiled with them and never raises."""
    return Helper(function)


def intrinsic(function: Callable[..., Definition]) -> Any:
    """Decorator: `function(*types) -> Definition` of a call with arguments of these types."""
    return Intrinsic(function)


def native(result: str | None, *parameters: str) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: `emit(builder, *llvm_values) -> llvm value` becomes an intrinsic."""

    def wrap(emit: Callable[..., Any]) -> Any:
        def define(*given: str) -> Definition:
            if len(given) != len(parameters):
                raise TypeError(f"{emit.__name__} takes {len(parameters)} arguments")
            return Definition(result, parameters, emit)

        define.__name__, define.__doc__ = emit.__name__, emit.__doc__
        return intrinsic(define)

    return wrap
