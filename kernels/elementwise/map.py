"""Element-wise kernels: any expression over broadcast operands in one loop nest, and copies.

See `parameters` for the iteration space.
"""

from __future__ import annotations

from typing import Any

from nnefc.kernels.elementwise.copy import emit_copy
from nnefc.kernels.elementwise.loops import Loops
from nnefc.kernels.elementwise.parameters import AccessPattern
from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.vector.expression_argument import Expression
from nnefc.kernels.vector.vector_kernel import VectorKernel


@family(moves=True)
def copy() -> KernelFunction:
    """Copy `nbytes` bytes; a tile is `tile` bytes."""
    return VectorKernel(emit_copy)


@family()
def expression(expression: Expression, pattern: AccessPattern) -> KernelFunction:
    """Evaluate `expression`; `pattern` says how operands are read along a row."""

    def emit(builder: Any, bases: Any, params: Any, first: Any, last: Any) -> None:
        Loops(builder, expression, pattern).emit(bases, params, first, last)

    return VectorKernel(emit)
