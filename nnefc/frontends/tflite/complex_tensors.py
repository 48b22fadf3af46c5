"""Complex tensors: pairs of tensors, which operators that move items move alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.ops.core.interface import sequence


@dataclass(frozen=True, slots=True)
class ComplexTensor:
    """The value of a tensor of type COMPLEX64."""

    real: Operand
    imaginary: Operand

    @property
    def wrong(self) -> OperatorError:
        """The error where a tensor of reals is expected."""
        return OperatorError("tflite/unsupported", "complex numbers are not supported here")


def is_complex(values: Sequence[Any]) -> bool:
    """Whether some of the values are complex."""
    return any(isinstance(each, ComplexTensor) for each in values)


def by_parts(function: Callable[[Sequence[Any]], Any], inputs: Sequence[Any]) -> Any:
    """The results of a function that moves items, of complex inputs: of each part alone."""
    parts = [
        [getattr(x, part) if isinstance(x, ComplexTensor) else x for x in inputs]
        for part in ("real", "imaginary")
    ]
    real, imaginary = map(function, parts)
    several = sequence(real)
    if several is None:
        return ComplexTensor(real, imaginary)
    return tuple(map(ComplexTensor, several, imaginary))
