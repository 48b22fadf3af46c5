"""What kernels do with complete sums of reals: the argument of kernels, and its code."""

from __future__ import annotations

from typing import Final, NamedTuple

from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.emit_expression import emit
from nnefc.kernels.vector.expression_argument import Expression
from nnefc.kernels.vector.item_types import HALVES
from nnefc.kernels.vector.lanes import Lanes
from nnefc.kernels.vector.quick_halves import narrow, quick


class RealForm(NamedTuple):
    """What a kernel adds to its sums and stores."""

    result: str = ""
    """Item type of y; empty for that of the sums."""
    residual: str = ""
    """Item type of the residual; empty for none."""
    expression: Expression | None = None
    """A function of the sum, and of the residual, that gives y, a half.

    None if y is the clamped sum of both.
    """


PLAIN: Final = RealForm()
"""The sums are stored as they are."""


def finished(form: RealForm, x: Lanes, residual: Lanes | None = None) -> Lanes:
    """An item of y for each sum; `residual`: items that the expression reads."""
    if form.expression is None:
        return stored(x, form.result or x.dtype)
    operands = [x] if residual is None else [x, residual]
    (result,) = emit(x.v, form.expression, operands, quick=quick)
    return result


def stored(x: Lanes, dtype: str) -> Lanes:
    """A number that a kernel has computed, in the type of its result."""
    if x.dtype == "float32" and dtype in HALVES:
        return narrow(x, dtype)
    return convert(x, dtype)
