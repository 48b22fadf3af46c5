"""Memory with room for more rows, whose first rows are tensors: keys and values of each step.

    memory [1,12,64,64]   ├── step 1 ──┤
                          ├──── step 2 ────┤
                          ├─────── step 3 ─────┤ next rows ...

Rows are written once.  Only the longest tensor of a memory is extended in it; a shorter one, which
a caller has kept or cropped, is copied to a memory of its own, since the rows behind it belong to
another tensor.  Copies, reorderings and repetitions are other memory for the same reason.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nnefc.pytorch.results import argument_of, tensor_of
from nnefc.support.array_memory import address, aligned_empty, owner

if TYPE_CHECKING:
    import torch

Array = np.ndarray[Any, Any]

_lock: Final = threading.Lock()
"""Held while rows are claimed."""
_memories: Final[dict[int, _Memory]] = {}
"""By the address of the first row."""


class _Memory:
    """A memory while tensors in it exist, and how many rows have been written."""

    __slots__ = ("axis", "dtype", "owner", "rows", "shape")

    def __init__(self, array: Array, axis: int, rows: int) -> None:
        at = address(array)
        self.shape, self.dtype = array.shape, array.dtype
        self.axis, self.rows = axis, rows
        self.owner = weakref.ref(owner(array), lambda _: self._forget(at))

    def _forget(self, at: int) -> None:
        if _memories.get(at) is self:
            del _memories[at]

    def array(self, at: int) -> Array | None:
        """The whole memory; None if it is gone."""
        base = self.owner()
        if base is None:
            return None
        offset = at - address(base)
        return np.ndarray(self.shape, self.dtype, base, offset)


class Rows:
    """A tensor as the first rows of a memory, of which a call has claimed the next ones."""

    __slots__ = ("_after", "_axis", "_before", "_memory", "_tensor", "array")

    def __init__(
        self, array: Array, memory: _Memory, tensor: torch.Tensor | None, axis: int, more: int
    ) -> None:
        """`tensor`: None if it is not in this memory."""
        self.array = array
        """The whole memory."""
        self._memory, self._tensor, self._axis = memory, tensor, axis
        self._before, self._after = memory.rows - more, memory.rows

    def extended(self) -> torch.Tensor:
        """The tensor with the new rows."""
        if self._tensor is None:
            return tensor_of(self.array).narrow(self._axis, 0, self._after)
        shape = [*self._tensor.shape]
        shape[self._axis] = self._after
        return self._tensor.as_strided(shape, self._tensor.stride())

    def release(self) -> None:
        """Give up the new rows, which a call that failed may have written."""
        with _lock:
            if self._memory.rows == self._after:
                self._memory.rows = self._before


def room_of(x: torch.Tensor, axis: int, more: int) -> int:
    """The extent of the memory in which a tensor can be extended in place; 0 if it cannot."""
    memory = _memories.get(x.data_ptr())
    return memory.shape[axis] if memory is not None and _is_longest(memory, x, axis, more) else 0


def claim(x: torch.Tensor, axis: int, more: int, room: int) -> Rows:
    """A tensor in a memory of extent `room`, where more rows may be written.

    It is copied if its memory is another one, or has other rows behind it.
    """
    at = x.data_ptr()
    memory = _memories.get(at)
    if memory is not None and memory.shape[axis] == room:
        array = memory.array(at)
        with _lock:
            is_free = array is not None and _is_longest(memory, x, axis, more)
            memory.rows += more * is_free
        if array is not None and is_free:
            return Rows(array, memory, x, axis, more)
    return _copied(x, axis, more, room)


def _copied(x: torch.Tensor, axis: int, more: int, room: int) -> Rows:
    rows: int = x.shape[axis]
    given = argument_of(x)
    array = aligned_empty((*x.shape[:axis], room, *x.shape[axis + 1 :]), given.dtype, "a tensor")
    array[(slice(None),) * axis + (slice(rows),)] = given
    memory = _Memory(array, axis, rows + more)
    _memories[address(array)] = memory
    return Rows(array, memory, None, axis, more)


def _is_longest(memory: _Memory, x: torch.Tensor, axis: int, more: int) -> bool:
    """Whether a tensor is all rows of a memory, which has room for more."""
    shape, room = [*memory.shape], memory.shape[axis]
    shape[axis] = memory.rows
    return (
        memory.axis == axis
        and memory.rows + more < room  # a full one is contiguous, which PyTorch compiles anew
        and shape == [*x.shape]
        and _strides(memory.shape) == [*x.stride()]
        and x.element_size() == memory.dtype.itemsize
    )


def _strides(shape: Sequence[int]) -> list[int]:
    strides, count = [0] * len(shape), 1
    for i in reversed(range(len(shape))):
        strides[i] = count
        count *= shape[i]
    return strides
