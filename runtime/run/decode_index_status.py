"""Decodes the status words in which a launch has recorded an index out of range, to an error."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nnefc.kernels.abi import BASE_PARAMS, LAUNCH_PARAMS
from nnefc.kernels.executor.call_status import (
    EXTENT,
    LAUNCH,
    LOWEST,
    POSITION,
    SHAPE,
    SOURCE,
    VALUE,
)
from nnefc.support import index_message as errors

if TYPE_CHECKING:
    from nnefc.runtime.compile.compiled_program import CompiledProgram
    from nnefc.runtime.memory.caller_arrays import TensorSpec
    from nnefc.runtime.plan.launch_info import LaunchInfo
    from nnefc.support.errors import NnefError


def index_error(
    status: Sequence[int],
    bases: Sequence[int],
    compiled: CompiledProgram,
    inputs: Sequence[TensorSpec],
) -> NnefError:
    """The error for the words of a status; parameters and inputs of the call must still exist."""
    launch, position, value, lowest, extent, shape, source = (
        status[field // 8] for field in (LAUNCH, POSITION, VALUE, LOWEST, EXTENT, SHAPE, SOURCE)
    )
    info = _launch(launch - bases[BASE_PARAMS], compiled)
    name, at = _input_item(source, bases[compiled.plan.table.inputs :], inputs) or ("", ())
    if not name:
        word = ctypes.c_int64.from_address
        rank = word(shape).value
        extents = [word(shape + 8 * (1 + i)).value for i in range(rank)]
        # The status counts positions in the slice that one run of a launch reads.
        at = _coordinates(position, extents) if info.times == 1 else ()
        name = info.indices.name if info.indices else ""
    place = info.indices.place if info.indices else None
    return errors.index_error(info.label, name, at, value, (lowest, extent), place)


def _launch(offset: int, compiled: CompiledProgram) -> LaunchInfo:
    """The launch whose parameters contain the byte `offset`."""
    plan = compiled.plan
    starts = plan.launches[:, LAUNCH_PARAMS // 8]
    step = int(np.where(starts <= offset, starts, -1).argmax())
    return compiled.launches()[int(plan.launch_of[step])]


def _input_item(
    source: int, addresses: Sequence[int], inputs: Sequence[TensorSpec]
) -> tuple[str, tuple[int, ...]] | None:
    """The name of an input and the position of its item at an address; None elsewhere.

    A launch in a loop or a part of a batch reads a slice of the input.
    """
    for spec, address in zip(inputs, addresses, strict=False):
        offset = source - address
        shape, dtype = spec.shape, spec.dtype
        if 0 <= offset < dtype.itemsize * int(np.prod(shape, dtype=np.int64)):
            return spec.name, _coordinates(offset // dtype.itemsize, shape)
    return None


def _coordinates(position: int, shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(int, np.unravel_index(position, tuple(shape)))) if len(shape) else ()
