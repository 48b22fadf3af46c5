"""Element-wise expressions as hashable arguments of kernels.

`nnefc.kernels.vector.emit_expression` emits vector IR for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nnefc.kernels.abi import LIBM
from nnefc.kernels.vector.item_types import FLOATS

Number = bool | int | float

StepKey = tuple[str, tuple[int, ...], str, Number | None]
"""(operation, operands, type of the result, literal value), see `nnefc.ir.expression.Step`."""

_UNARY: Final = {name for name, arity in LIBM if arity == 1}
ELEMENTARY: Final = frozenset(_UNARY - {"log1p"} | {"pow", "sigmoid", "softplus"})
"""Operations that call `nnefc.kernels.vector.math` for float32 and the C library for float64."""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """The computation for each item: a hashable form of `nnefc.ir.Expression`.

    Operand i < len(inputs) is an input, operand len(inputs) + j the result of step j.  Expressions
    are equal if their text is, because 0.0 and -0.0 have different code.
    """

    inputs: tuple[str, ...]
    """Item types of the inputs."""
    steps: tuple[StepKey, ...]
    results: tuple[int, ...]
    """Numbers of the operands that are results."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    def types(self) -> tuple[str, ...]:
        """Item types of all operands."""
        return (*self.inputs, *(dtype for _, _, dtype, _ in self.steps))

    @property
    def calls_library(self) -> bool:
        """Whether the code needs the table of the C library."""
        return any(
            (op == "remainder" and dtype in FLOATS) or (op in ELEMENTARY and dtype == "float64")
            for op, _, dtype, _ in self.steps
        )
