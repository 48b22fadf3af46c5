"""What element-wise kernels compute: expressions of operations, as keys of kernels.

`nnefc.kernels.vector.expression` makes vector IR of these.  The C library is called through a table
of addresses, so that a kernel has no undefined symbol.
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
"""Operations of `nnefc.kernels.vector.math` on float32, of the C library on float64."""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """An `nnefc.ir.Expression` in plain, hashable words: the computation for each item.

    Operand i < len(inputs) is an input, operand len(inputs) + j the result of step j.  Equal
    expressions have the same text: 0.0 differs from -0.0, as their code does.
    """

    inputs: tuple[str, ...]
    """Types."""
    steps: tuple[StepKey, ...]
    results: tuple[int, ...]
    """Operands that are the outputs."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    def types(self) -> tuple[str, ...]:
        """Of all operands."""
        return (*self.inputs, *(dtype for _, _, dtype, _ in self.steps))

    @property
    def calls_library(self) -> bool:
        """Whether it needs the table of the C library."""
        return any(
            (op == "remainder" and dtype in FLOATS) or (op in ELEMENTARY and dtype == "float64")
            for op, _, dtype, _ in self.steps
        )
