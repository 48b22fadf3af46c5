"""Random inputs that a model accepts, for measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nnefc.runtime.memory.caller_arrays import random_array
from nnefc.support.errors import NnefError
from nnefc.support.index_message import RULE

if TYPE_CHECKING:
    from nnefc.ir import TensorType

Array = np.ndarray[Any, Any]


def random_inputs(
    call: Callable[..., Any],
    types: Mapping[str, TensorType],
    seed: int,
    given: Mapping[str, Array] | None = None,
) -> list[Array]:
    """The arrays for the inputs of `types`: `given` ones, else random ones.

    The model is called once with them.  If an integer is an index out of range, as 1 is for an
    embedding of a single row, all random integers are 0.  Raises the errors of the call.
    """
    given = given or {}
    arrays = {
        name: given[name] if name in given else random_array(type_, seed, name)
        for name, type_ in types.items()
    }
    try:
        call(*arrays.values())
    except NnefError as error:
        indices = [n for n, x in arrays.items() if n not in given and x.dtype.kind in "iu"]
        if error.errors[0].rule != RULE or not indices:
            raise
        arrays |= {name: np.zeros_like(arrays[name]) for name in indices}
    return list(arrays.values())
