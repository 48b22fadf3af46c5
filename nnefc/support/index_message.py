"""The message of an index out of range, for the compiler, kernels and references."""

from __future__ import annotations

from collections.abc import Sequence

from nnefc.support.errors import Diagnostic, NnefError, Place
from nnefc.support.wording import wording

RULE = "input/index"


def index_error(
    operation: str,
    indices: str,
    position: Sequence[int],
    value: int,
    valid: tuple[int, int],
    place: Place | None = None,
    *,
    is_known: bool = False,
) -> NnefError:
    """The error of index `value` at `position` of a tensor, which is not in the range `valid`.

    `operation`: its name and result; `indices`: the name of the tensor, may be empty; `valid`: the
    lowest index and the extent.  `is_known`: the index is a constant, which no option accepts.
    """
    tensor = f"'{indices}'" if indices else "the indices"
    at = f" at [{', '.join(map(str, position))}]" if position else ""
    lowest, extent = valid
    range_ = f"the range {lowest} to {extent - 1}" if extent else "an extent of 0"
    message = f"{operation}: index {value}{at} of {tensor} is not in {range_}"
    option = wording("check_indices=False", "--no-check-indices")
    hint = "" if is_known else f"compiled with {option}, the model uses the nearest item instead"
    return NnefError([Diagnostic(RULE, message, place, hint=hint)])
