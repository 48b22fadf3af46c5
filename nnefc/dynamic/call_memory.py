"""The memory of calls whose values decide shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nnefc.runtime.machine.resources import free_memory
from nnefc.runtime.plan.plan_conditions import Shapes
from nnefc.support.errors import NnefError
from nnefc.support.value_inputs import ValueInput, values_text

_SMALLER: Final = "smaller values need less"


def check_memory(needed: int, inputs: Mapping[str, ValueInput], keys: Shapes) -> None:
    """Raise NnefError `limit/memory` if a call needs more bytes than are free.

    A system that promises more memory than it has would end the process when results are written.
    `inputs`: those whose values decide shapes; `keys`: their values, among the shapes of a call.
    """
    free = free_memory()
    if free is None or needed <= free:
        return
    message = f"the results and the tensors between need {needed:,} bytes, but {free:,} are free"
    raise NnefError.of("limit/memory", message + values_text(inputs, keys), hint=_SMALLER)
