"""Random inputs that a model accepts, for measurements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nnefc.runtime.memory.caller_arrays import random_array
from nnefc.support.errors import NnefError
from nnefc.support.index_message import RULE

if TYPE_CHECKING:
    from nnefc.ir import TensorType

Array = np.ndarray[Any, Any]
T = TypeVar("T")


def random_inputs(
    call: Callable[..., Any],
    types: Mapping[str, TensorType],
    seed: int,
    given: Mapping[str, Array] | None = None,
) -> list[Array]:
    """The arrays for the inputs of `types`: `given` ones, else random ones.

    The model is called once with them, see `with_valid_indices`.  Raises the errors of the call.
    """
    given = given or {}
    arrays = {
        name: given[name] if name in given else random_array(type_, seed, name)
        for name, type_ in types.items()
    }

    def called(arrays: Mapping[str, Array]) -> list[Array]:
        call(*arrays.values())
        return list(arrays.values())

    return with_valid_indices(called, arrays, arrays.keys() - given.keys())


def with_valid_indices(
    call: Callable[[Mapping[str, Array]], T], arrays: Mapping[str, Array], random: Collection[str]
) -> T:
    """The result of `call(arrays)`, where the arrays named in `random` are random.

    If an integer is an index out of range, as 1 is for an embedding of a single row, `call` is
    called again with 0 in place of all random integers.  Raises the errors of `call`.
    """
    try:
        return call(arrays)
    except NnefError as error:
        integers = [n for n, x in arrays.items() if n in random and x.dtype.kind in "iu"]
        if error.errors[0].rule != RULE or not integers:
            raise
    return call({**arrays, **{name: np.zeros_like(arrays[name]) for name in integers}})
