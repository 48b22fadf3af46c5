"""Normalisation by mean and variance: y = expression((x - mean) / sqrt(variance + epsilon), ...).

A row is the items that share a mean; it need not be contiguous.
"""

from __future__ import annotations

from typing import Any

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.reduce.mean_variance_loops import Columns, Rows
from nnefc.kernels.vector.expression_argument import Expression
from nnefc.kernels.vector.vector_kernel import VectorKernel


@family()
def rows(expression: Expression, repeated: tuple[bool, ...], centred: bool) -> KernelFunction:
    """Normalisation over the innermost dimension, and possibly others.

    `repeated`: for each further operand, whether it is constant along that dimension.  `centred`:
    whether the mean is subtracted.
    """

    def emit(builder: Any, bases: Any, params: Any, first: Any, last: Any) -> None:
        Rows(builder, params, expression, repeated, centred).emit(bases, first, last)

    return VectorKernel(emit)


@family()
def columns(expression: Expression, repeated: tuple[bool, ...], centred: bool) -> KernelFunction:
    """Normalisation over other dimensions: items along the innermost one are in different rows."""

    def emit(builder: Any, bases: Any, params: Any, first: Any, last: Any) -> None:
        Columns(builder, params, expression, repeated, centred).emit(bases, first, last)

    return VectorKernel(emit)
